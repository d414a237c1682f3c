"""The modes of a posterior, each described by a Gaussian."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from sahmc._support.pytree import strategy

MOST_MODES = 32
"""The largest number of modes that are described."""
DENSE_DIM = 100
"""The largest dimension for which a mode has a full covariance."""


@strategy
class Modes:
    """The modes, each described by a Gaussian.

    A draw of a mode is x = mean + colour z, where z is standard normal, and z = whiten (x - mean).
    """

    num: Int[Array, ""]
    """The number of modes; entries of the arrays beyond it are padding."""
    minimum: Float[Array, "modes dim"]
    """The point of lowest energy that was found in each mode."""
    weight: Float[Array, " modes"]
    """The share of the draws that belong to each mode."""
    mean: Float[Array, "modes dim"]
    variance: Float[Array, "modes dim"]
    """The variance of each coordinate."""
    colour: Float[Array, "modes dim *full"]
    """The square root of the covariance: a lower triangular matrix or, in many dimensions, a diagonal."""
    whiten: Float[Array, "modes dim *full"]
    """The inverse of ``colour``."""
    log_det: Float[Array, " modes"]
    """The log determinant of ``colour``."""

    def nearest(self, position: Float[Array, " dim"]) -> Int[Array, ""]:
        """Return the mode to which a position belongs: the likeliest under Gaussians with diagonal covariances."""
        score = jnp.sum((position - self.mean) ** 2 / self.variance + jnp.log(self.variance), axis=1)
        return jnp.argmin(jnp.where(jnp.arange(len(score)) < self.num, score, jnp.inf))

    def carry(
        self, position: Float[Array, " dim"], one: Int[Array, ""] | int, two: Int[Array, ""] | int
    ) -> Float[Array, " dim"]:
        """Return the position in mode ``two`` that corresponds to ``position`` in mode ``one``: the same z."""
        off = position - self.mean[one]
        if self.colour.ndim == 2:
            return self.mean[two] + self.colour[two] * self.whiten[one] * off
        return self.mean[two] + self.colour[two] @ (self.whiten[one] @ off)


def no_modes(dim: int, dtype: Any) -> Modes:
    """Return the description of no modes at all, for positions of this dimension and type."""
    return fit_modes(np.zeros((1, dim)), np.zeros((0, dim)), np.ones(dim), dtype)


def _scores(draws: np.ndarray, squared: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return the sum over coordinates of (x - m)^2 / v + log v, for each draw and mode, by two products of matrices."""
    precision = 1 / variance
    constant = (mean**2 * precision + np.log(variance)).sum(axis=1)
    return squared @ precision.T - 2 * draws @ (mean * precision).T + constant


def nearest_modes(modes: Modes, draws: np.ndarray) -> np.ndarray:
    """Return the mode to which each of many draws (..., dim) belongs, as ``Modes.nearest`` does.

    This is NumPy's work, since compiling it for a GPU can take minutes.
    """
    mean, variance = (np.asarray(part, float)[: int(modes.num)] for part in (modes.mean, modes.variance))
    middle = mean.mean(axis=0)
    centred = draws.reshape(-1, draws.shape[-1]) - middle
    return np.argmin(_scores(centred, centred**2, mean - middle, variance), axis=1).reshape(draws.shape[:-1])


def fit_modes(draws: np.ndarray, minima: np.ndarray, scale: np.ndarray, dtype: Any) -> Modes:
    """Fit a Gaussian to each mode, for at most MOST_MODES modes, those with most draws.

    ``draws`` (draw, dim) are of the posterior, or of some part of each mode; ``minima`` (mode, dim) are the lowest
    points of the modes. Draws go to the nearest mode. Means and covariances are those of its draws, shrunk towards the
    diagonal and, where there are hardly any draws, towards ``scale``, the spread of each coordinate. Arrays are of type
    ``dtype``.
    """
    dim = draws.shape[1]
    mean, variance = minima.astype(float), np.tile(scale.astype(float) ** 2, (len(minima), 1))
    label = np.zeros(len(draws), int)
    middle = draws.mean(axis=0, dtype=float)
    centred = draws.astype(float) - middle
    squared = centred**2
    for _ in range(5 if len(minima) else 0):
        label = np.argmin(_scores(centred, squared, mean - middle, variance), axis=1)
        for k in range(len(mean)):
            mine = draws[label == k].astype(float)
            if len(mine) > 5:
                mean[k] = mine.mean(axis=0)
                variance[k] = (len(mine) * mine.var(axis=0) + 5 * scale**2) / (len(mine) + 5)
    count = np.bincount(label, minlength=len(mean))[: len(mean)]
    kept = np.argsort(-count, kind="stable")[:MOST_MODES]
    full = dim <= DENSE_DIM
    colour = np.ones((MOST_MODES, dim, dim) if full else (MOST_MODES, dim)) * (np.eye(dim) if full else 1.0)
    whiten, log_det = colour.copy(), np.zeros(MOST_MODES)
    for slot, k in enumerate(kept):
        mine = draws[label == k].astype(float) - mean[k]
        sd = np.sqrt(variance[k])
        if full:
            share = len(mine) / (len(mine) + dim + 5.0)
            correlation = (mine / sd).T @ (mine / sd) / max(1, len(mine))
            lower = sd[:, None] * np.linalg.cholesky(share * correlation + (1 - share) * np.eye(dim))
            colour[slot], whiten[slot] = lower, np.linalg.inv(lower)
            log_det[slot] = np.log(np.diag(lower)).sum()
        else:
            colour[slot], whiten[slot], log_det[slot] = sd, 1 / sd, np.log(sd).sum()

    def padded(rows: np.ndarray) -> np.ndarray:
        return np.concatenate([rows, np.ones((MOST_MODES - len(rows), *rows.shape[1:]))])

    parts = (minima[kept], count[kept] / max(1, count[kept].sum()), mean[kept], variance[kept])
    arrays = [jnp.asarray(a, dtype) for a in (*map(padded, parts), colour, whiten, log_det)]
    return Modes(jnp.int32(len(kept)), *arrays)
