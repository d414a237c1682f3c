"""Basins: the places that points roll down to, and which of these a barrier divides."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sahmc._support.traced import TracedFunction
from sahmc.landscape.descent import energies, roll_down, start_descent

BARRIER_NATS = 2.0
"""The nats that the straight line between two minima must climb above the higher one, or they are one mode."""
LINE_POINTS = np.linspace(0, 1, 9)[1:-1]
"""The points of a straight line, as shares of its length, at which the energy is looked at."""
MOST_BASINS = 64
"""The largest number of basins that are told apart."""


@jax.jit
def _highest_between(
    energy_fn: TracedFunction, points: Float[Array, "points dim"], end: Float[Array, " dim"]
) -> Float[Array, " points"]:
    """Return the highest energy on the straight line from each point to ``end``, the two themselves left out."""
    line = points[:, None] + jnp.asarray(LINE_POINTS, points.dtype)[:, None] * (end - points)[:, None]
    energy, _ = energies(energy_fn, line.reshape(-1, points.shape[1]))
    return jnp.max(energy.reshape(line.shape[:2]), axis=1)


def divide_basins(energy_fn: TracedFunction, points: np.ndarray, energy: np.ndarray) -> tuple[np.ndarray, int]:
    """Return a mode number for each of ``points`` (point, dim), and the number of energies computed.

    ``energy`` is that of each point. The lowest point that has no mode yet is the bottom of one, and all points are
    joined to it that a straight line without a barrier joins. Bottoms joined to a common point are one mode. Mode 0 is
    that of the lowest point; -1 marks points that are left over when there are too many modes.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    num, ends = len(points), list[int]()
    joined = np.zeros((num, 0), bool)
    while not joined.any(axis=1).all() and len(ends) < MOST_BASINS:
        left = np.flatnonzero(~joined.any(axis=1))
        ends.append(left[np.argmin(energy[left])])
        path = np.asarray(_highest_between(energy_fn, jnp.asarray(points), jnp.asarray(points[ends[-1]])))
        to_end = path < np.maximum(energy, energy[ends[-1]]) + BARRIER_NATS
        to_end[ends[-1]] = True
        joined = np.column_stack([joined, to_end])
    row, column = np.nonzero(joined)
    graph = coo_matrix((np.ones(len(row)), (row, np.asarray(ends)[column])), shape=(num, num))
    label = connected_components(graph, directed=False)[1]
    _, order = np.unique(label[ends], return_index=True)
    rank = {label[ends][i]: n for n, i in enumerate(sorted(order))}
    return np.array([rank.get(k, -1) for k in label]), num * len(LINE_POINTS) * len(ends)


def find_minima(
    energy_fn: TracedFunction, points: np.ndarray, scale: np.ndarray, steps: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the lowest point of each mode that ``points`` roll down to, the mode of each, and the gradients spent.

    Points (point, dim) take ``steps`` steps of descent, in units of ``scale``, a length for each coordinate. They stay
    where they are if ``energy_fn`` has no gradients.
    """
    if jax.eval_shape(energy_fn, points[0])[1] is None:
        position, energy, steps = points, np.asarray(energies(energy_fn, jnp.asarray(points))[0]), 0
    else:
        end = roll_down(
            energy_fn, start_descent(energy_fn, jnp.asarray(points)), jnp.asarray(scale, points.dtype), steps
        )
        position, energy = np.asarray(end.position), np.asarray(end.energy)
    label, spent = divide_basins(energy_fn, position, energy)
    lowest = [np.flatnonzero(label == k)[np.argmin(energy[label == k])] for k in range(label.max() + 1)]
    return position[lowest], label, len(points) * (steps + 1) + spent
