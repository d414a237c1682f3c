"""Raw log densities as users write them, with exact answers by symmetry, by closed form or by enumeration.

Data are simulated from a fixed seed whenever a target is built. For exchangeable copies of one mode, only the mass of
each is known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from sahmc._support.types import PositionFn
from sahmc.testing.targets.target import Target, nearest


def _copies(name: str, log_density: PositionFn, start: np.ndarray | list[float], mode: PositionFn, num: int) -> Target:
    """Return a target with ``num`` modes that are copies of each other; nothing else about it is known."""
    return Target(name, log_density, np.asarray(start, float), None, None, mode, np.full(num, 1 / num))


def _order(num: int) -> Callable[[jax.Array], jax.Array]:
    """Return the function that maps ``num`` numbers to the index of their order, a permutation."""
    place = np.zeros((num,) * num, int)
    for i, order in enumerate(itertools.permutations(range(num))):
        place[order] = i
    return lambda values: jnp.asarray(place)[tuple(jnp.argsort(values))]


def _gaussians(name: str, means: np.ndarray, factors: np.ndarray, masses: np.ndarray) -> Target:
    """Return a mixture of Gaussians N(m_k, F_k F_k') of known ``masses``; chains start in the first."""
    inverse = np.linalg.inv(factors)
    log_norm = np.log(masses) - np.linalg.slogdet(factors)[1] - 0.5 * means.shape[1] * math.log(2 * math.pi)

    def parts(x: jax.Array) -> jax.Array:
        away = x - jnp.asarray(means, x.dtype)
        z = jnp.einsum("kij,kj->ki", jnp.asarray(inverse, x.dtype), away, precision="highest")
        return jnp.asarray(log_norm, x.dtype) - 0.5 * jnp.sum(z**2, axis=1)

    mean = masses @ means
    variance = masses @ ((factors**2).sum(axis=2) + means**2) - mean**2
    return Target(
        name,
        lambda x: jax.nn.logsumexp(parts(x)),
        means[0],
        mean,
        variance,
        lambda x: jnp.argmax(parts(x)),
        masses,
        log_normaliser=0.0,
    )


def mixture_labels(components: int = 3, data: int = 200) -> Target:
    """Return a mixture of Gaussians fitted to data: exchangeable means, log sds and logits; d = 3 * components."""
    rng = np.random.default_rng(1)
    centres = np.array([-3.0, 0.5, 4.0, 8.0, -7.0])[:components]
    y = rng.normal(centres[rng.integers(components, size=data)], 0.8)

    def log_density(x: jax.Array) -> jax.Array:
        mean, log_sd, logit = x.reshape(3, components)
        parts = jax.nn.log_softmax(logit) + norm.logpdf(y[:, None], mean, jnp.exp(log_sd))
        prior = norm.logpdf(mean, 0, 10).sum() + norm.logpdf(log_sd, 0, 1).sum() + norm.logpdf(logit, 0, 1).sum()
        return jax.nn.logsumexp(parts, axis=1).sum() + prior

    start = np.concatenate([centres, np.full(components, math.log(0.8)), np.zeros(components)])
    rank = _order(components)
    num = math.factorial(components)
    return _copies(f"mixture-labels-{components}", log_density, start, lambda x: rank(x[:components]), num)


def one_factor(items: int = 10, data: int = 100) -> Target:
    """Return a one-factor model with scores integrated out: loadings, of undetermined sign, and log sds."""
    rng = np.random.default_rng(2)
    loading = rng.uniform(0.6, 1.2, items)
    y = rng.normal(size=(data, 1)) * loading + 0.7 * rng.normal(size=(data, items))

    def log_density(x: jax.Array) -> jax.Array:
        load, log_sd = x[:items], x[items:]
        lower = jnp.linalg.cholesky(jnp.outer(load, load) + jnp.diag(jnp.exp(2 * log_sd)))
        z = jax.scipy.linalg.solve_triangular(lower, jnp.asarray(y.T, x.dtype), lower=True)
        fit = -0.5 * jnp.sum(z**2) - data * jnp.sum(jnp.log(jnp.diag(lower)))
        return fit + norm.logpdf(load, 0, 2).sum() + norm.logpdf(log_sd, 0, 1).sum()

    start = np.concatenate([loading, np.full(items, math.log(0.7))])
    return _copies(f"one-factor-{items}", log_density, start, lambda x: (x[:items].sum() > 0).astype(int), 2)


def two_rates() -> Target:
    """Return a sum of two exponentials fitted to data: amplitudes and log rates, exchangeable; d = 4."""
    t = np.linspace(0.1, 6, 40)
    y = 2 * np.exp(-0.4 * t) + 3 * np.exp(-2.0 * t) + 0.05 * np.random.default_rng(3).normal(size=40)

    def log_density(x: jax.Array) -> jax.Array:
        curve = x[0] * jnp.exp(-jnp.exp(x[1]) * t) + x[2] * jnp.exp(-jnp.exp(x[3]) * t)
        return -0.5 * jnp.sum(((y - curve) / 0.05) ** 2) - 0.5 * jnp.sum(x**2) / 9

    start = [2.0, math.log(0.4), 3.0, math.log(2.0)]
    return _copies("two-rates", log_density, start, lambda x: (x[1] > x[3]).astype(int), 2)


def unequal_widths(dim: int = 15) -> Target:
    """Return three Gaussians of sds 0.6, 1 and 1.8, some 8 apart."""
    rng = np.random.default_rng(4)
    means = rng.normal(size=(3, dim))
    means *= 6 / np.linalg.norm(means, axis=1, keepdims=True)
    factors = np.array([0.6, 1.0, 1.8])[:, None, None] * np.eye(dim)
    return _gaussians(f"unequal-widths-{dim}", means, factors, np.array([0.3, 0.5, 0.2]))


def correlated(dim: int = 30, condition: float | int = 100.0) -> Target:
    """Return four Gaussians, each with its own rotation and a condition number of ``condition``."""
    rng = np.random.default_rng(5)
    means = rng.normal(size=(4, dim)) * 6
    rotations = np.linalg.qr(rng.normal(size=(4, dim, dim)))[0]
    factors = rotations * np.geomspace(1, math.sqrt(condition), dim)
    return _gaussians(f"correlated-{dim}", means, factors, np.array([0.3, 0.2, 0.2, 0.3]))


def odd_units(dim: int = 8, range: float | int = 1e3) -> Target:
    """Return three unit Gaussians in units from 1 / ``range`` to ``range``."""
    rng = np.random.default_rng(6)
    unit = np.geomspace(1 / range, range, dim)
    means = rng.normal(size=(3, dim)) * 3
    factors = np.broadcast_to(np.diag(unit), (3, dim, dim))
    return _gaussians(f"odd-units-{dim}-{range:.0e}", means * unit, factors, np.array([0.5, 0.3, 0.2]))


def student_modes(dim: int = 50, modes: int = 10) -> Target:
    """Return ``modes`` equal products of Student's t, two degrees of freedom, at random points in a cube of edge 20."""
    centres = np.random.default_rng(7).uniform(-10, 10, (modes, dim))
    log_norm = -math.log(modes) - dim * 1.5 * math.log(2)  # a t of two degrees at 0 is 2^-1.5

    def log_density(x: jax.Array) -> jax.Array:
        return log_norm + jax.nn.logsumexp(-1.5 * jnp.sum(jnp.log1p((x - centres) ** 2 / 2), axis=1))

    def mode(x: jax.Array) -> jax.Array:
        return jnp.argmin(jnp.sum(jnp.log1p((x - centres) ** 2 / 2), axis=1))

    return replace(_copies(f"student-modes-{dim}", log_density, centres[0], mode, modes), log_normaliser=0.0)


def two_lines(data: int = 60) -> Target:
    """Return a mixture of two regression lines: intercepts, slopes, a log sd and a logit; d = 6."""
    rng = np.random.default_rng(8)
    t, which = rng.uniform(-2, 2, data), rng.random(data) < 0.5
    y = np.where(which, 1 + 1.5 * t, -0.5 - t) + 0.3 * rng.normal(size=data)

    def log_density(x: jax.Array) -> jax.Array:
        lines = x[:2] + x[2:4] * t[:, None]
        share = jax.nn.log_sigmoid(jnp.stack([x[5], -x[5]]))
        fit = jax.nn.logsumexp(share + norm.logpdf(y[:, None], lines, jnp.exp(x[4])), axis=1).sum()
        return fit + norm.logpdf(x[:4], 0, 5).sum() + norm.logpdf(x[4], 0, 1) + norm.logpdf(x[5], 0, 1.5)

    start = [1.0, -0.5, 1.5, -1.0, math.log(0.3), 0.0]
    return _copies("two-lines", log_density, start, lambda x: (x[2] > x[3]).astype(int), 2)


def hidden_units(data: int = 60) -> Target:
    """Return a network of two hidden units, which can be flipped and exchanged; d = 7, eight copies."""
    rng = np.random.default_rng(9)
    t = np.linspace(-3, 3, data)
    y = 2 * np.tanh(2 * t - 2) + 1.0 * np.tanh(1.5 * t + 3) + 0.1 * rng.normal(size=data)

    def log_density(x: jax.Array) -> jax.Array:
        out, slope, offset = x[:6].reshape(3, 2)
        fit = jnp.tanh(slope * t[:, None] + offset) @ out
        return norm.logpdf(y, fit, jnp.exp(x[6])).sum() + norm.logpdf(x[:6], 0, 3).sum() + norm.logpdf(x[6], -1, 1)

    def mode(x: jax.Array) -> jax.Array:
        bend = x[4:6] / x[2:4]
        return 4 * (bend[0] > bend[1]) + 2 * (x[2] > 0) + (x[3] > 0)

    start = [2.0, 1.0, 2.0, 1.5, -2.0, 3.0, math.log(0.1)]
    return _copies("hidden-units", log_density, start, mode, 8)


def phase_retrieval(dim: int = 10, data: int = 80) -> Target:
    """Return a vector observed by the squares of ``data`` random projections; its sign is undetermined."""
    rng = np.random.default_rng(10)
    rows, truth = rng.normal(size=(data, dim)), rng.normal(size=dim)
    y = (rows @ truth) ** 2 + 0.5 * rng.normal(size=data)

    def log_density(x: jax.Array) -> jax.Array:
        seen = jnp.dot(jnp.asarray(rows, x.dtype), x, precision="highest") ** 2
        return norm.logpdf(y, seen, 0.5).sum() + norm.logpdf(x, 0, 3).sum()

    return _copies(f"phase-retrieval-{dim}", log_density, truth, lambda x: (x @ truth > 0).astype(int), 2)


def hidden_states(data: int = 100) -> Target:
    """Return a hidden Markov model of two states: means, log sds, logits of staying; d = 6."""
    rng = np.random.default_rng(11)
    state = np.cumsum(rng.random(data) < 0.1) % 2
    y = np.where(state, 2.0, -1.0) + 0.7 * rng.normal(size=data)

    def log_density(x: jax.Array) -> jax.Array:
        mean, log_sd, stay = x.reshape(3, 2)
        keep, leave = jax.nn.log_sigmoid(stay), jax.nn.log_sigmoid(-stay)
        move = jnp.array([[keep[0], leave[0]], [leave[1], keep[1]]])
        seen = norm.logpdf(jnp.asarray(y, x.dtype)[:, None], mean, jnp.exp(log_sd))

        def step(alpha: jax.Array, fit: jax.Array) -> tuple[jax.Array, None]:
            return jax.nn.logsumexp(alpha[:, None] + move, axis=0) + fit, None

        alpha, _ = jax.lax.scan(step, seen[0] - math.log(2), seen[1:])
        prior = norm.logpdf(mean, 0, 5).sum() + norm.logpdf(log_sd, 0, 1).sum() + norm.logpdf(stay, 1, 1.5).sum()
        return jax.nn.logsumexp(alpha) + prior

    start = [2.0, -1.0, math.log(0.7), math.log(0.7), 2.0, 2.0]
    return _copies("hidden-states", log_density, start, lambda x: (x[0] > x[1]).astype(int), 2)


def two_bananas(dim: int = 6) -> Target:
    """Return two bent Gaussians of masses 0.65 and 0.35: x_1 is bent by x_0^2, and x_3 by x_2^2."""
    shift = np.zeros((2, dim))
    shift[1, :2] = 9.0, -6.0

    def parts(x: jax.Array) -> jax.Array:
        z = x - jnp.asarray(shift, x.dtype)
        z = z.at[:, 1].add(-0.4 * (z[:, 0] ** 2 - 1)).at[:, 3].add(0.5 * (z[:, 2] ** 2 - 1))
        spread = jnp.asarray(np.r_[1.5, 1.0, np.ones(dim - 2)], x.dtype)
        square = jnp.sum((z / spread) ** 2, axis=1)
        return jnp.log(jnp.array([0.65, 0.35])) - 0.5 * square - math.log(1.5) - 0.5 * dim * math.log(2 * math.pi)

    masses = np.array([0.65, 0.35])
    bent = np.zeros(dim)
    bent[1] = 0.4 * (1.5**2 - 1)
    mean = bent + masses @ shift
    own = np.ones(dim)
    own[0], own[1], own[3] = 1.5**2, 1 + 0.4**2 * 2 * 1.5**4, 1 + 0.5**2 * 2
    variance = own + masses @ shift**2 - (masses @ shift) ** 2
    return Target(
        f"two-bananas-{dim}",
        lambda x: jax.nn.logsumexp(parts(x)),
        bent * 0.0,
        mean,
        variance,
        lambda x: jnp.argmax(parts(x)),
        masses,
        log_normaliser=0.0,
    )


def wells(pairs: int = 4) -> Target:
    """Return independent pairs of a double well, 0.5 a + 6 a^2 - a^4, and a Gaussian: 2^pairs modes."""
    grid = np.linspace(-6, 6, 24001)
    density = np.exp(0.5 * grid + 6 * grid**2 - grid**4)
    step = grid[1] - grid[0]
    right = float(density[grid > 0].sum() / density.sum())
    powers = 2 ** np.arange(pairs)
    bits = (np.arange(2**pairs)[:, None] // powers) % 2
    masses = np.where(bits, right, 1 - right).prod(axis=1)
    mean, square = (float((density * grid**k).sum() / density.sum()) for k in (1, 2))

    def log_density(x: jax.Array) -> jax.Array:
        a, b = x[:pairs], x[pairs:]
        return jnp.sum(0.5 * a + 6 * a**2 - a**4 - 0.5 * b**2)

    return Target(
        f"wells-{2 * pairs}",
        log_density,
        np.concatenate([np.full(pairs, -1.7), np.zeros(pairs)]),
        np.concatenate([np.full(pairs, mean), np.zeros(pairs)]),
        np.concatenate([np.full(pairs, square - mean**2), np.ones(pairs)]),
        lambda x: jnp.sum((x[:pairs] > 0) * powers),
        masses,
        log_normaliser=pairs * (math.log(density.sum() * step) + 0.5 * math.log(2 * math.pi)),
    )


def cauchy_location() -> Target:
    """Return the location and log scale of Cauchy data in two groups, under a flat prior; d = 2."""
    y = np.array([-5.2, -5.0, -4.7, -5.1, 4.6, 5.0, 5.3])

    def log_density(x: jax.Array) -> jax.Array:
        return -jnp.sum(x[1] + jnp.log1p(((y - x[0]) * jnp.exp(-x[1])) ** 2)) - 0.5 * (x[1] + 1) ** 2

    place, size = np.linspace(-60, 60, 6001), np.linspace(-7, 6, 2601)
    log_p = -0.5 * (size + 1) ** 2 - len(y) * size - np.zeros((len(place), 1))
    for value in y:
        log_p -= np.log1p(((value - place[:, None]) * np.exp(-size)) ** 2)
    p = np.exp(log_p - log_p.max())
    left = float(p[place < 0].sum() / p.sum())
    cell = (place[1] - place[0]) * (size[1] - size[0])
    known = float(log_p.max() + math.log(p.sum() * cell))
    return Target(
        "cauchy-location",
        log_density,
        np.array([-5.0, -1.5]),
        None,
        None,
        lambda x: (x[0] > 0).astype(int),
        np.array([left, 1 - left]),
        error=1e-4,
        log_normaliser=known,
    )


def wide_and_narrow(dim: int = 50) -> Target:
    """Return N(0, I) of mass 3/4 beside N(4 e_1, 0.36 I) of mass 1/4, as in the sampler-benchmarks project."""
    means = np.zeros((2, dim))
    means[1, 0] = 4.0
    factors = np.array([1.0, 0.6])[:, None, None] * np.eye(dim)
    target = _gaussians(f"wide-and-narrow-{dim}", means, factors, np.array([0.75, 0.25]))
    return replace(target, start=np.random.default_rng(12).normal(size=dim))


def far_gaussians(dim: int = 50, modes: int = 40) -> Target:
    """Return unit Gaussians of equal mass, at random points in a cube of edge 80 (the GMM40 of Beyond ELBOs)."""
    means = np.asarray(jax.random.uniform(jax.random.key(0), (modes, dim), minval=-1.0, maxval=1.0) * 40, float)
    weights = np.full(modes, 1 / modes)

    def log_density(x: jax.Array) -> jax.Array:
        centres = jnp.asarray(means, x.dtype)
        log_norm = -math.log(modes) - 0.5 * dim * math.log(2 * math.pi)
        return log_norm + jax.nn.logsumexp(-0.5 * jnp.sum((x - centres) ** 2, axis=1))

    mean = weights @ means
    return Target(
        f"far-gaussians-{dim}",
        log_density,
        means[0],
        mean,
        1 + weights @ means**2 - mean**2,
        nearest(means),
        weights,
        log_normaliser=0.0,
    )


RAW: dict[str, Callable[[], Target]] = {
    "mixture-labels-3": mixture_labels,
    "one-factor-10": one_factor,
    "two-rates": two_rates,
    "unequal-widths-15": unequal_widths,
    "correlated-30": correlated,
    "odd-units-8": odd_units,
    "odd-units-6-1e6": lambda: odd_units(6, 1e6),
    "student-modes-50": student_modes,
    "two-lines": two_lines,
    "hidden-units": hidden_units,
    "phase-retrieval-10": phase_retrieval,
    "hidden-states": hidden_states,
    "two-bananas-6": two_bananas,
    "wells-8": wells,
    "cauchy-location": cauchy_location,
    "wide-and-narrow-50": wide_and_narrow,
    "far-gaussians-50": far_gaussians,
}
"""All raw targets by name; each is built when called."""
