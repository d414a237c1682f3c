"""Models with a known marginal likelihood and a separate prior, which for most is uniform in a box.

True values come from closed forms or quadrature. The definitions are those in common use with nested samplers: Feroz
and Hobson's shells and eggbox, Beaujean and Caldwell's LogGamma, Rastrigin, Rosenbrock, spike and slab, and coin flips.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from sahmc._support.validate import require
from sahmc.models.model import Model
from sahmc.tilt.importance import Expectation

Variables = Mapping[str, jax.Array]
"""The variables of a model by name."""


@dataclass(frozen=True)
class EvidenceTarget:
    """A model, its log marginal likelihood, and known expectations."""

    name: str
    model: Model
    """The model; chains start from its prior."""
    log_evidence: float
    """The log of the integral of prior times likelihood."""
    answers: Callable[[Variables], jax.Array]
    """A function of the variables with the known expectation ``truth``."""
    truth: np.ndarray

    def mass_z(self, found: Expectation) -> np.ndarray:
        """Return the errors of ``result.expectation(target.answers)`` in units of its standard errors."""
        must, todo = "found must be an expectation", "pass result.expectation(target.answers)"
        require(hasattr(found, "mean") and hasattr(found, "mcse"), must, found, todo)
        return (np.asarray(found.mean) - self.truth) / np.maximum(np.asarray(found.mcse), 1e-12)


def in_box(log_likelihood: Callable[[jax.Array], jax.Array], low: float, high: float, dim: int) -> Model:
    """Return the model of a log likelihood of x under a prior that is uniform on [low, high]^dim.

    Positions are z, x = low + (high - low) / (1 + exp(-z)), so the prior of each z is logistic.
    """

    def place(z: jax.Array) -> jax.Array:
        return low + (high - low) * jax.nn.sigmoid(z)

    return Model(
        log_likelihood=lambda z: log_likelihood(place(z)),
        log_prior=lambda z: jnp.sum(jax.nn.log_sigmoid(z) + jax.nn.log_sigmoid(-z)),
        start=lambda key: jax.random.logistic(key, (dim,)),
        constrain=lambda z: {"x": place(z)},
    )


def eggbox(dim: int) -> EvidenceTarget:
    """Return log L = (2 + prod cos(x_i / 2))^5 on [0, 10 pi]^dim, for 2 or 10 dimensions: a lattice of modes."""
    model = in_box(lambda x: (2.0 + jnp.prod(jnp.cos(x / 2.0))) ** 5, 0.0, 10.0 * math.pi, dim)
    truth = {2: 235.85594, 10: 210.11149}[dim]
    return EvidenceTarget(f"eggbox-{dim}", model, truth, lambda v: v["x"], np.full(dim, 5.0 * math.pi))


def shells(dim: int) -> EvidenceTarget:
    """Return two Gaussian shells on [-6, 6]^dim, of radius 2 and width 0.1, centred at (+-3.5, 0, ...)."""
    centre = jnp.zeros((2, dim)).at[:, 0].set(jnp.array([-3.5, 3.5]))

    def log_likelihood(x: jax.Array) -> jax.Array:
        return jax.nn.logsumexp(norm.logpdf(jnp.linalg.norm(x - centre, axis=1), 2.0, 0.1))

    known = {2: -1.74564, 5: -5.67360, 10: -14.59049, 20: -36.08655, 30: -60.12777, 50: -112.41512}
    model = in_box(log_likelihood, -6.0, 6.0, dim)
    return EvidenceTarget(f"shells-{dim}", model, known[dim], lambda v: _where(v["x"][0] > 0.0), np.array([0.5]))


def log_gamma(dim: int) -> EvidenceTarget:
    """Return the four modes of Beaujean and Caldwell on [0, 1]^dim: skew LogGammas and normals, of mass 1/4 each."""
    skew = np.arange(dim) <= (dim + 2) / 2

    def log_log_gamma(x: jax.Array, place: float) -> jax.Array:
        y = 30.0 * (x - place)
        return y - jnp.exp(y) + math.log(30.0)

    def log_normal(x: jax.Array, place: float) -> jax.Array:
        return norm.logpdf(x, place, 1 / 30)

    def log_likelihood(x: jax.Array) -> jax.Array:
        rest = jnp.where(skew, log_log_gamma(x, 2 / 3), log_normal(x, 2 / 3))[2:]
        first = jnp.logaddexp(log_log_gamma(x[0], 1 / 3), log_log_gamma(x[0], 2 / 3)) - math.log(2)
        second = jnp.logaddexp(log_normal(x[1], 1 / 3), log_normal(x[1], 2 / 3)) - math.log(2)
        return first + second + jnp.sum(rest)

    def answers(v: Variables) -> jax.Array:
        return jnp.stack([v["x"][1] > 0.5]).astype(float)

    model = in_box(log_likelihood, 0.0, 1.0, dim)
    return EvidenceTarget(f"log-gamma-{dim}", model, 0.0, answers, np.full(1, 0.5))


def rastrigin(dim: int) -> EvidenceTarget:
    """Return log L = -(10 dim + sum x^2 - 10 cos 2 pi x) on [-5.12, 5.12]^dim, with 11^dim modes."""
    model = in_box(lambda x: -jnp.sum(10.0 + x**2 - 10.0 * jnp.cos(2 * jnp.pi * x)), -5.12, 5.12, dim)
    truth = np.full(dim, 0.562631)
    return EvidenceTarget(f"rastrigin-{dim}", model, -3.810866 * dim, lambda v: _where(jnp.abs(v["x"]) < 0.5), truth)


def rosenbrock(dim: int) -> EvidenceTarget:
    """Return log L = -sum 100 (x_{i+1} - x_i^2)^2 + (1 - x_i)^2 on [-5, 5]^dim, for 2 or 10 dimensions."""

    def log_likelihood(x: jax.Array) -> jax.Array:
        return -jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    model = in_box(log_likelihood, -5.0, 5.0, dim)
    return EvidenceTarget(f"rosenbrock-{dim}", model, {2: -5.80413, 10: -43.10836}[dim], _nothing, np.zeros(0))


def spike_and_slab(dim: int) -> EvidenceTarget:
    """Return a narrow Gaussian beside a wide one on [-4, 8]^dim, of equal mass, for 2 or 10 dimensions."""
    centre = jnp.zeros((2, dim)).at[:, :2].set(jnp.array([[6.0, 6.0], [2.5, 2.5]]))
    variance = jnp.array([0.08, 0.8])

    def log_each(x: jax.Array) -> jax.Array:
        return jnp.sum(norm.logpdf(x, centre, jnp.sqrt(variance)[:, None]), axis=1)

    def answers(v: Variables) -> jax.Array:
        return jax.nn.softmax(log_each(v["x"]))[:1]

    model = in_box(lambda x: jax.nn.logsumexp(log_each(x)), -4.0, 8.0, dim)
    return EvidenceTarget(f"spike-slab-{dim}", model, {2: -4.27667, 10: -24.15593}[dim], answers, np.array([0.50001]))


def coin_flips(flips: int, heads: int) -> EvidenceTarget:
    """Return p1, p2 ~ U(0, 1), ``heads`` ~ Binomial(``flips``, p1 p2): with many flips, a thin curved ridge."""
    from scipy.special import digamma, gammaln

    constant = float(gammaln(flips + 1) - gammaln(heads + 1) - gammaln(flips - heads + 1))

    def log_likelihood(x: jax.Array) -> jax.Array:
        both = x[0] * x[1]
        return constant + heads * jnp.log(both) + (flips - heads) * jnp.log1p(-both)

    truth = math.log((digamma(flips + 2) - digamma(heads + 1)) / (flips + 1))
    model = in_box(log_likelihood, 0.0, 1.0, 2)
    return EvidenceTarget(f"coin-{flips}", model, truth, lambda v: _where(v["x"][0] > v["x"][1]), np.array([0.5]))


def half_normal() -> EvidenceTarget:
    """Return log L = -x^2 for x >= 0 and zero likelihood elsewhere, under a standard normal prior."""
    model = Model(
        log_likelihood=lambda x: jnp.where(x[0] < 0, -jnp.inf, -(x[0] ** 2)),
        log_prior=lambda x: -0.5 * jnp.sum(x**2),
        start=lambda key: jnp.abs(jax.random.normal(key, (1,))),
        constrain=lambda x: {"x": x},
    )
    mean = math.sqrt(2 / math.pi / 3)
    return EvidenceTarget("half-normal", model, math.log(0.5 / math.sqrt(3)), lambda v: v["x"], np.array([mean]))


def plateau(dim: int) -> EvidenceTarget:
    """Return L = 1 within a ball of radius 1 and 0 outside, on [-2, 2]^dim: a plateau with hard walls."""
    model = in_box(lambda x: jnp.where(jnp.sum(x**2) > 1.0, -jnp.inf, 0.0), -2.0, 2.0, dim)
    volume = 0.5 * dim * math.log(math.pi) - math.lgamma(0.5 * dim + 1) - dim * math.log(4)
    return EvidenceTarget(f"plateau-{dim}", model, volume, lambda v: v["x"], np.zeros(dim))


def _where(condition: jax.Array) -> jax.Array:
    """Return a condition as a vector of 0 and 1."""
    return jnp.atleast_1d(condition).astype(float)


def _nothing(variables: Variables) -> jax.Array:
    """Return an empty vector, for a target without known expectations."""
    return jnp.zeros(0)


EVIDENCE: dict[str, Callable[[], EvidenceTarget]] = {
    **{f"eggbox-{dim}": partial(eggbox, dim) for dim in (2, 10)},
    **{f"shells-{dim}": partial(shells, dim) for dim in (2, 5, 10, 30)},
    **{f"log-gamma-{dim}": partial(log_gamma, dim) for dim in (2, 10, 30)},
    **{f"rastrigin-{dim}": partial(rastrigin, dim) for dim in (2, 10)},
    **{f"rosenbrock-{dim}": partial(rosenbrock, dim) for dim in (2, 10)},
    **{f"spike-slab-{dim}": partial(spike_and_slab, dim) for dim in (2, 10)},
    "coin-100": lambda: coin_flips(100, 50),
    "coin-100000": lambda: coin_flips(100_000, 50_000),
    "half-normal": half_normal,
    "plateau-2": lambda: plateau(2),
    "plateau-5": lambda: plateau(5),
}
"""All targets by name; each is built when called."""
