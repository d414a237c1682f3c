"""Shifts from mode to mode, for posteriors with too many modes to keep: products of wells, lattices.

In these a few displacements, applied to any position, lead from every mode to others. Forward and backward shifts are
proposed with equal probability, so the moves are exact without any description of the modes.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sahmc._support.pytree import strategy
from sahmc._support.traced import TracedFunction
from sahmc.models.evaluation import energies_and_gradients

MOST_SHIFTS = 64
"""The largest number of shifts."""
CANDIDATES = 128
"""The largest number of displacements that are tried."""
TRIED_AT = 64
"""The number of draws at which each displacement is tried, in both directions."""
LEAST_ACCEPTED, LEAST_OF_BEST = 0.03, 0.3
"""The minimum acceptance probability of a displacement, and the minimum relative to that of the best one."""
APART = 5.0
"""The minimum distance of two modes, in widths of a mode; a shorter displacement leads to no other mode."""


@strategy
class Shifts:
    """Displacements from mode to mode."""

    vector: Float[Array, "shifts dim"]
    """The displacements; the array is padded by repeating the first ones."""

    @property
    def num(self) -> int:
        """The number of distinct displacements."""
        return len(np.unique(np.asarray(self.vector), axis=0))

    def draw(self, uniform: Float[Array, ""]) -> Float[Array, " dim"]:
        """Return one of the displacements, forwards or backwards, all with the same probability."""
        num = len(self.vector)
        k = jnp.minimum((uniform * 2 * num).astype(int), 2 * num - 1)
        return jnp.where(k < num, 1.0, -1.0).astype(self.vector.dtype) * self.vector[k % num]


def find_shifts(
    energy_fn: TracedFunction, minima: np.ndarray, scale: np.ndarray, draws: np.ndarray
) -> tuple[Shifts | None, int]:
    """Return the displacements between ``minima`` (mode, dim) that are accepted most, and the energies computed.

    ``scale`` is the width of a mode in each coordinate, and ``draws`` (draw, dim) are of the posterior. The
    displacements are None if none leads to another mode.
    """
    found = _candidates(minima.astype(float), scale)
    rng = np.random.default_rng(len(found))
    at = draws[rng.choice(len(draws), TRIED_AT)].astype(float)
    there = np.concatenate([at + found[:, None], at - found[:, None]], axis=1)
    before = energies_and_gradients(energy_fn, at.astype(draws.dtype))[0]
    after = energies_and_gradients(energy_fn, there.reshape(-1, at.shape[1]).astype(draws.dtype))[0]
    gain = np.tile(before, 2) - after.reshape(len(found), -1)
    accepted = np.exp(np.minimum(np.where(np.isnan(gain), -np.inf, gain), 0.0)).mean(axis=1)
    order = np.argsort(-accepted, kind="stable")[:MOST_SHIFTS]
    order = order[accepted[order] > max(LEAST_ACCEPTED, LEAST_OF_BEST * accepted.max(initial=0.0))]
    spent = len(at) + after.size
    if not len(order):
        return None, spent
    kept = found[np.resize(order, MOST_SHIFTS)]
    return Shifts(jnp.asarray(kept, draws.dtype)), spent


def _candidates(minima: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return displacements (shift, dim) between minima: along single coordinates, and between near neighbours.

    Along a coordinate they are the distances between neighbouring values of the minima.
    """
    z, dim = minima / scale, minima.shape[1]
    found: list[np.ndarray] = []
    for i in range(dim):
        values = np.sort(z[:, i])
        groups = np.split(values, np.flatnonzero(np.diff(values) > APART) + 1)
        found += [np.eye(dim)[i] * step for step in np.diff([group.mean() for group in groups])]
    square = ((z[:, None] - z) ** 2).sum(axis=2)
    np.fill_diagonal(square, np.inf)
    near = np.argsort(square.min(axis=1), kind="stable")
    found += list(z[square[near].argmin(axis=1)] - z[near])
    found = [step for step in found if np.linalg.norm(step) > APART]
    return _atoms(np.array(sorted(found, key=np.linalg.norm)).reshape(-1, dim)) * scale


def _atoms(steps: np.ndarray) -> np.ndarray:
    """Return the ``steps`` (step, dim) that are not combinations of one or two others, shortest first.

    Steps are the same if they differ by less than 1, or only by sign.
    """
    kept, reached = steps[:0], steps[:0]
    for step in steps:
        if (((reached - step) ** 2).sum(axis=1) > 1).all() and len(kept) < CANDIDATES:
            both = np.concatenate([step[None], -step[None]])
            reached = np.concatenate([reached, both, *(kept + sign for sign in both), *(sign - kept for sign in both)])
            kept = np.concatenate([kept, step[None]])
    return kept
