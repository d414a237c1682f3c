"""The reference: a normalised density q, fitted to what is known of the posterior, as the top of the ladder.

Levels are q^(1 - beta) p^beta, so the top, beta = 0, is q itself. It is proper for any posterior, its integral is
known, and independent draws can be made from it.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from scipy.special import gammaln, logsumexp

from sahmc._support.platform import placed
from sahmc._support.pytree import strategy, updated
from sahmc._support.traced import TracedFunction
from sahmc.models.energy import BaseEnergy
from sahmc.modes.gaussians import DENSE_DIM
from sahmc.modes.modes import EXACT
from sahmc.symmetry.fold import Fold

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48, 64, 96, 128)
"""The possible array sizes, in parts; they are few, so that similar runs share compiled code."""
SHARE_DRAWS = 2**14
"""The number of draws for estimating the share of the Gaussians that is in the domain of a fold."""
MOST_TRIES = 100
"""The largest number of draws tried for each draw wanted in the domain."""


@strategy
class Reference:
    """A mixture, q, of Gaussians; with heavy tails also of Student's t with two degrees of freedom.

    A draw of such a t is a draw of the Gaussian, divided by the square root of an exponential random number.
    """

    log_weight: Float[Array, " parts"]
    """The logs of the weights, -inf for padding."""
    mean: Float[Array, "parts dim"]
    factor: Float[Array, "parts dim *full"]
    """F with covariance F F', a matrix or, in many dimensions, the standard deviations."""
    inverse: Float[Array, "parts dim *full"]
    """The inverse of F."""
    log_det: Float[Array, " parts"]
    """The log determinant of F."""
    heavy: Bool[Array, " parts"] | None = None
    """The parts that are a t; None if there are none."""
    log_copies: Float[Array, ""] | float = 0.0
    """The log of the share of the Gaussians in the domain of ``fold``, times the number of copies of the domain."""
    fold: Fold | None = None
    """The fold, where modes have copies: the Gaussians are then truncated to its domain, and copied."""

    @property
    def num_parts(self) -> int:
        """The number of parts, without padding."""
        return int(np.isfinite(np.asarray(self.log_weight)).sum())

    @property
    def num_heavy(self) -> int:
        """The number of parts that are a t, without padding."""
        return 0 if self.heavy is None else int(np.asarray(self.heavy)[: self.num_parts].sum())

    def energy(self, position: Float[Array, " dim"]) -> Float[Array, ""]:
        """Return -log q."""
        away = (position if self.fold is None else self.fold(position)) - self.mean
        if self.inverse.ndim == 2:
            z = self.inverse * away
        else:
            z = jnp.einsum("kij,kj->ki", self.inverse, away, precision=EXACT)
        height = 0.5 * jnp.sum(z**2, axis=1)
        if self.heavy is not None:
            power, constant = _t_like(len(position))
            height = jnp.where(self.heavy, power * jnp.log1p(height) - constant, height)
        parts = self.log_weight - height - self.log_det
        return self.log_copies + 0.5 * len(position) * math.log(2 * math.pi) - jax.nn.logsumexp(parts)

    def draw(self, uniform: Float[Array, ""], noise: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Return a draw from the parts, made from a ``uniform`` number and ``noise`` ~ N(0, I).

        It is a draw from q unless it is outside the domain of ``fold``.
        """
        weight = jnp.exp(self.log_weight)
        up_to = jnp.cumsum(weight)
        k = jnp.minimum(jnp.sum(up_to < uniform * up_to[-1]), len(up_to) - 1)
        factor = self.factor[k]
        if self.heavy is not None:  # its place between the bounds of the part is uniform too
            inside = jnp.clip((up_to[k] - uniform * up_to[-1]) / weight[k], 1e-7, 1 - 1e-7)
            noise = jnp.where(self.heavy[k], noise / jnp.sqrt(-jnp.log(inside)), noise)
        z = factor * noise if factor.ndim == 1 else jnp.dot(factor, noise, precision=EXACT)
        return self.mean[k] + z

    def draws(self, num: int, seed: int) -> np.ndarray:
        """Return ``num`` draws from q, (draw, dim); where there are copies, each is a random copy."""
        weight = np.exp(np.asarray(self.log_weight, float))
        times = 1 if self.fold is None else int(np.clip(2 / max(self._share_inside(), 1e-3), 2, MOST_TRIES))
        which = np.random.default_rng(seed).choice(len(weight), num * times, p=weight / weight.sum())
        points = self.draws_of(which, seed + 1)
        if self.fold is None:
            return points
        inside = points[self.fold.inside(points)]
        chosen = np.resize(inside, (num, points.shape[1])) if len(inside) else self.fold(points[:num])
        return self.fold.group.random_copies(chosen, np.random.default_rng(seed + 2))(chosen).astype(chosen.dtype)

    def draws_of(self, which: np.ndarray, seed: int) -> np.ndarray:
        """Return one draw from each of the parts ``which`` (draw,), as (draw, dim)."""
        rng = np.random.default_rng(seed)
        noise, factor = rng.normal(size=(len(which), self.mean.shape[1])), np.asarray(self.factor, float)[which]
        if self.heavy is not None:
            noise /= np.where(np.asarray(self.heavy)[which], np.sqrt(rng.exponential(size=len(which))), 1.0)[:, None]
        away = factor * noise if factor.ndim == 2 else np.einsum("nij,nj->ni", factor, noise)
        return (np.asarray(self.mean, float)[which] + away).astype(np.asarray(self.mean).dtype)

    def energies(self, points: np.ndarray) -> np.ndarray:
        """Return -log q of points (..., dim), like ``energy`` but on the host."""
        flat = points.reshape(-1, points.shape[-1])
        flat = flat if self.fold is None else self.fold(flat)
        energy = float(self.log_copies) - np.asarray(logsumexp(self.log_parts(flat), axis=0))
        return energy.reshape(points.shape[:-1])

    def log_parts(self, points: np.ndarray) -> np.ndarray:
        """Return the log of each part's contribution to q at points (point, dim), as (part, point)."""
        parts = np.full((self.num_parts, len(points)), -0.5 * points.shape[1] * math.log(2 * math.pi))
        log_weight, log_det = np.asarray(self.log_weight, float), np.asarray(self.log_det, float)
        for k in range(len(parts)):
            away, inverse = points - np.asarray(self.mean, float)[k], np.asarray(self.inverse, float)[k]
            z = away * inverse if inverse.ndim == 1 else away @ inverse.T
            height = 0.5 * (z**2).sum(axis=1)
            if self.heavy is not None and self.heavy[k]:
                power, constant = _t_like(points.shape[1])
                height = power * np.log1p(height) - constant
            parts[k] += log_weight[k] - height - log_det[k]
        return parts

    def folded(self, fold: Fold | None) -> Reference:
        """Return q truncated to the domain of a fold and copied by its group; itself if there is no fold."""
        if fold is None:
            return self
        cut = updated(self, fold=fold)
        log_copies = fold.group.log_order + math.log(max(cut._share_inside(), 1 / SHARE_DRAWS))
        return updated(cut, log_copies=placed(log_copies, self.mean.dtype))

    def _share_inside(self) -> float:
        """Return the share of the Gaussians in the domain of ``fold``."""
        assert self.fold is not None
        weight = np.exp(np.asarray(self.log_weight, float))
        which = np.random.default_rng(0).choice(len(weight), SHARE_DRAWS, p=weight / weight.sum())
        return float(self.fold.inside(self.draws_of(which, 1)).mean())


def around_all(draws: np.ndarray, inflation: float, dtype: Any) -> Reference:
    """Return q as one Gaussian, ``inflation`` times as wide as draws (draw, dim) from all modes."""
    mean, dim = draws.mean(axis=0, dtype=float), draws.shape[1]
    away = draws.astype(float) - mean
    factor: np.ndarray = np.maximum(away.std(axis=0), 1e-30)
    if dim <= DENSE_DIM and len(draws) > dim:
        share = dim / (dim + len(draws))
        z = away / factor
        factor = factor[:, None] * np.linalg.cholesky((1 - share) * z.T @ z / len(z) + share * np.eye(dim))
    return mixture_of(np.ones(1), mean[None], inflation * factor[None], dtype)


def _t_like(dim: int) -> tuple[float, float]:
    """Return p and c of a t: -log density = p log(1 + h) - c, where a Gaussian has h, up to its constant."""
    return 1 + 0.5 * dim, float(gammaln(1 + 0.5 * dim))


def mixture_of(
    weight: np.ndarray, mean: np.ndarray, factor: np.ndarray, dtype: Any, heavy: np.ndarray | None = None
) -> Reference:
    """Return q with parts of these weights, means and factors F, padded to one of SIZES; ``heavy`` ones are a t."""
    if factor.ndim == 3:
        inverse, log_det = np.linalg.inv(factor), np.linalg.slogdet(factor)[1]
    else:
        inverse, log_det = 1 / factor, np.log(factor).sum(axis=1)
    size = next(size for size in SIZES if size >= len(weight))
    order = np.where(np.arange(size) < len(weight), np.arange(size), 0)
    log_weight = np.where(np.arange(size) < len(weight), np.log(weight / weight.sum())[order], -np.inf)
    arrays = (log_weight, mean[order], factor[order], inverse[order], log_det[order])
    parts: Any = (placed(array, dtype) for array in arrays)
    reference = Reference(*parts)
    return reference if heavy is None or not heavy.any() else updated(reference, heavy=placed(heavy[order]))


@strategy
class ReferredEnergy(TracedFunction):
    """The energy split in two: E = -log p + log q, on which the tilt acts, and the base measure -log q.

    It keeps the reference separate from the traced energy, so that runs of one model share compiled code for any
    reference.
    """

    reference: Reference

    def __call__(self, position: Float[Array, " dim"]) -> Any:
        """Return E, its gradient, and the base measure's energy and gradient."""
        energy, grad, prior = super().__call__(position)
        if prior is not None:
            energy, grad = energy + prior.energy, grad + prior.grad
        base, slope = jax.value_and_grad(self.reference.energy)(position)
        energy = jnp.where(jnp.isnan(energy), jnp.inf, energy)
        return energy - base, grad - slope, BaseEnergy(base, slope)


def refer(energy_fn: TracedFunction, reference: Reference) -> ReferredEnergy:
    """Return the energy split by a reference."""
    return ReferredEnergy(energy_fn.consts, energy_fn.steps, energy_fn.returns, reference)
