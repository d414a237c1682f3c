"""The modes between which chains jump, each described by a Gaussian, in arrays of fixed size."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from sahmc._support.compiled import compiled
from sahmc._support.platform import placed
from sahmc._support.pytree import strategy
from sahmc.modes.gaussians import Gaussians, gaussians_of, likeliest, sort_and_fit

MOST_MODES = 128
"""The largest number of modes between which chains jump."""
SIZES = (32, 64, 128)
"""The possible array sizes, in modes; they are few, so that similar runs share compiled code."""
ENOUGH_DRAWS = 200
"""The number of late draws of a mode at which earlier ones are no longer used, or five for each dimension if that is
more."""
EXACT = jax.lax.Precision.HIGHEST
"""The precision of matrix products; by default GPUs round to ten bits."""


@strategy
class Modes:
    """The modes, each described by a Gaussian.

    A draw of mode k is x = mean + sd * (C (z + U (s - 1) U' z)), where z is standard normal. C is shared by all modes.
    U holds orthonormal axes along which mode k is s times as wide.
    """

    num: Int[Array, ""]
    """The number of modes; entries of the arrays beyond it are padding."""
    minimum: Float[Array, "modes dim"]
    """The lowest energy point found in each mode."""
    weight: Float[Array, " modes"]
    """The share of the draws that belong to each mode."""
    mean: Float[Array, "modes dim"]
    sd: Float[Array, "modes dim"]
    """The standard deviation of each coordinate."""
    axes: Float[Array, "modes dim axes"]
    """U of each mode."""
    stretch: Float[Array, "modes axes"]
    """s of each mode."""
    log_det: Float[Array, " modes"]
    """The log determinant of the map from z to x."""
    common: Float[Array, "dim *full"]
    """C, a lower triangular matrix or, in many dimensions, its diagonal of ones."""
    inverse: Float[Array, "dim *full"]
    """The inverse of C."""

    def nearest(self, position: Float[Array, " dim"]) -> Int[Array, ""]:
        """Return the mode of a position: the likeliest under Gaussians with diagonal covariances."""
        score = jnp.sum(((position - self.mean) / self.sd) ** 2 + 2 * jnp.log(self.sd), axis=1)
        return jnp.argmin(jnp.where(jnp.arange(len(score)) < self.num, score, jnp.inf))

    def carry(
        self, position: Float[Array, " dim"], one: Int[Array, ""] | int, two: Int[Array, ""] | int
    ) -> Float[Array, " dim"]:
        """Return the position in mode ``two`` with the same z as ``position`` has in mode ``one``."""
        whitened = _times(self.inverse, (position - self.mean[one]) / self.sd[one])
        z = _stretched(whitened, self.axes[one], 1 / self.stretch[one])
        coloured = _times(self.common, _stretched(z, self.axes[two], self.stretch[two]))
        return self.mean[two] + self.sd[two] * coloured


def _times(matrix: Float[Array, "dim *full"], vector: Float[Array, " dim"]) -> Float[Array, " dim"]:
    """Return the product of a matrix, or of a diagonal, with a vector."""
    return matrix * vector if matrix.ndim == 1 else jnp.dot(matrix, vector, precision=EXACT)


def _stretched(
    vector: Float[Array, " dim"], axes: Float[Array, "dim axes"], by: Float[Array, " axes"]
) -> Float[Array, " dim"]:
    """Return a vector stretched along orthonormal axes."""
    along = jnp.dot(vector, axes, precision=EXACT)
    return vector + jnp.dot(axes, (by - 1) * along, precision=EXACT)


def no_modes(dim: int, dtype: Any) -> Modes:
    """Return an empty set of modes, for positions of this dimension and type."""
    return fit_modes(np.zeros((1, dim)), np.zeros((0, dim)), np.ones(dim), dtype)


def fit_modes(
    draws: np.ndarray,
    minima: np.ndarray,
    scale: np.ndarray,
    dtype: Any,
    stage: np.ndarray | None = None,
    laplace: np.ndarray | None = None,
    narrow: np.ndarray | None = None,
) -> Modes:
    """Fit a Gaussian to each mode, for at most MOST_MODES modes, those with the most draws.

    ``draws`` (draw, dim) are from the posterior, or from a part of each mode. ``minima`` (mode, dim) are the lowest
    points of the modes, and ``scale`` is the spread of each coordinate. ``stage`` says how late each draw was made:
    with enough late draws of a mode, earlier ones do not count. ``laplace`` are covariances (mode, dim, dim) at the
    minima, if known. Modes that are ``narrow`` (mode,) lie inside wide ones and keep their Laplace approximation: draws
    of the wide mode nearby would be mistaken for theirs. Arrays are of type ``dtype``.
    """
    stage = np.zeros(len(draws), int) if stage is None else stage
    enough = max(ENOUGH_DRAWS, 5 * draws.shape[1])
    narrow = np.zeros(max(1, len(minima)), bool) if narrow is None or not len(minima) else narrow

    def choose(label: np.ndarray) -> np.ndarray:
        return late_enough(label, stage, len(narrow), enough) & ~narrow[label]

    label, found = sort_and_fit(draws, minima, scale, choose, laplace)
    return _modes(found, label, stage, minima, dtype)


def laplace_modes(draws: np.ndarray, minima: np.ndarray, laplace: np.ndarray, dtype: Any, stage: np.ndarray) -> Modes:
    """Return modes described by the Hessian at their minima alone; draws only determine their weights.

    The arguments are those of ``fit_modes``. With heavy tails, this describes the middle of a mode better.
    """
    found = gaussians_of(np.zeros(len(minima)), minima.astype(float), laplace)
    return _modes(found, likeliest(found, draws.astype(float)).label, stage, minima, dtype)


def _modes(found: Gaussians, label: np.ndarray, stage: np.ndarray, minima: np.ndarray, dtype: Any) -> Modes:
    """Return the Gaussians as arrays of fixed size, in order of decreasing number of late draws.

    ``label`` is the mode of each draw, and ``stage`` the stage that made it.
    """
    count, older = (
        np.bincount(label[s], minlength=len(minima))[: len(minima)] for s in (stage == stage.max(), stage >= 0)
    )
    kept = np.lexsort([-older, -count])[:MOST_MODES]
    size = next(size for size in SIZES if size >= len(kept))

    def padded(rows: np.ndarray) -> np.ndarray:
        return np.concatenate([rows, np.ones((size - len(rows), *rows.shape[1:]))])

    weight = count[kept] / max(1, count[kept].sum())
    parts = (minima[kept], weight, *(part[kept] for part in (found.mean, found.sd, found.axes, found.stretch)))
    arrays = [*map(padded, (*parts, found.log_det[kept])), found.common, found.inverse]
    return Modes(placed(len(kept), np.int32), *(placed(array, dtype) for array in arrays))


@compiled
def carry_to_others(
    modes: Modes, points: Float[Array, "points dim"], turns: Int[Array, " points"]
) -> tuple[Float[Array, "points dim"], Float[Array, " points"]]:
    """Return the ends of jumps from points, each to the mode ``turns`` further, and the log changes of volume."""

    def one(point: Float[Array, " dim"], turn: Int[Array, ""]) -> Any:
        here = modes.nearest(point)
        there = (here + 1 + turn % jnp.maximum(modes.num - 1, 1)) % modes.num
        return modes.carry(point, here, there), modes.log_det[there] - modes.log_det[here]

    return jax.vmap(one)(points, turns)


def late_enough(label: np.ndarray, stage: np.ndarray, num: int, enough: int) -> np.ndarray:
    """Return whether each draw is from the last stages that together hold ``enough`` draws of its mode.

    ``label`` is the mode of each draw, one of ``num``, and ``stage`` the number of the stage that made it.
    """
    later = np.zeros(num, int)
    kept = np.zeros(len(label), bool)
    for number in sorted(set(stage.tolist()), reverse=True):
        now = stage == number
        kept |= now & (later < enough)[label]
        later += np.bincount(label[now], minlength=num)
    return kept
