"""What energies along lines tell: the lengths over which a density bends, and whether its integral is infinite."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sahmc._support.traced import TracedFunction
from sahmc.models.evaluation import energies_and_gradients

MAGNITUDES = 10.0 ** np.arange(-9, 10)
"""The lengths that are tried if nothing is known of a coordinate."""
RADII = (1e5, 1e7, 1e9, 1e12)
"""The distances, in units of the spread, at which the density is compared."""
SLACK = 0.05
"""The nats by which the density may fall more than 1 / r between two distances, and still count as no faster."""
DEEPEST = 40.0
"""The maximum nats from a point down to the far ends of a line, or no chain gets there: -1e10 may stand for -inf."""
MOST_LINED = 400
"""The largest dimension in which lines are followed; the cost is eight energies for each coordinate, or more."""
SHARE = 0.75
"""The minimum share of the points from which a density must fall no faster than 1 / r, on either side."""


def bending_lengths(
    energies: Callable[[np.ndarray], np.ndarray], point: np.ndarray, magnitudes: np.ndarray = MAGNITUDES
) -> tuple[np.ndarray, int]:
    """Return the length of each coordinate over which the energy bends at ``point``, and the number of energies
    computed.

    The length is h / sqrt(2), where U(x + h) + U(x - h) - 2 U(x) = 2. For a Gaussian that is one sd, at any point x. It
    is 1 if no length within the range of ``magnitudes`` fits. ``energies`` is a function from points (point, dim) to
    their energies.
    """
    dim = len(point)
    offset = np.eye(dim)[:, None] * np.array([1.0, -1.0])[:, None] * magnitudes[:, None, None, None]
    points = (point.astype(float) + offset.reshape(-1, dim)).astype(point.dtype)
    energy = energies(np.concatenate([point[None], points]))
    sides = energy[1:].reshape(len(magnitudes), dim, 2)
    with np.errstate(invalid="ignore", over="ignore"):
        bend = sides.sum(axis=2) - 2 * energy[0]
    bend = np.where(np.isnan(bend), np.inf, bend)
    rounding = 8 * np.finfo(point.dtype).eps * max(1.0, abs(energy[0]))
    found = np.full(dim, np.sqrt(2.0))
    for i in range(dim):
        high = np.flatnonzero(bend[:, i] >= max(2.0, 4 * rounding))
        if high.size and high[0] > 0:
            k = high[0]
            found[i] = max(magnitudes[k] * np.sqrt(2.0 / bend[k, i]), magnitudes[k - 1])
    return found / np.sqrt(2.0), len(points) + 1


def improper_along(energy_fn: TracedFunction, points: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the coordinates (index,) along which the density has an infinite integral, given all others.

    A line goes from each of ``points`` (point, dim) along each coordinate. The integral along it is infinite if the
    density falls no faster than 1 / r. If that is so from many points, the whole integral is infinite too. ``scale`` is
    the spread of each coordinate; lines go as far in units of 1 where it is smaller, since chains may be stuck at a
    pole. Where energies are rounded too coarsely to tell, a density counts as proper. None is examined in more than
    MOST_LINED dimensions.
    """
    if not len(points) or points.shape[1] > MOST_LINED:
        return np.zeros(0, int)
    dim = points.shape[1]
    slow = np.flatnonzero(_falls_slowly(energy_fn, points[:1], scale, np.arange(dim)).any(axis=(0, 1)))
    share = _falls_slowly(energy_fn, points, scale, slow).mean(axis=0).max(axis=0)
    return slow[share >= SHARE]


def _falls_slowly(energy_fn: TracedFunction, points: np.ndarray, scale: np.ndarray, along: np.ndarray) -> np.ndarray:
    """Tell for each point, side and coordinate in ``along`` whether the density falls no faster than 1 / r there."""
    num, dim = points.shape
    steps = np.zeros((2, len(RADII), len(along), dim))
    reach = np.multiply.outer([1.0, -1.0], RADII)[..., None] * np.maximum(scale[along], 1.0)
    steps[:, :, np.arange(len(along)), along] = reach
    ends = (points[:, None, None, None] + steps).reshape(-1, dim).astype(points.dtype)
    energy = energies_and_gradients(energy_fn, ends)[0].reshape(num, 2, len(RADII), len(along))
    here = energies_and_gradients(energy_fn, points)[0]
    with np.errstate(invalid="ignore"):
        rise = np.diff(energy, axis=2) - np.diff(np.log(RADII))[:, None]
        rise += 2 * np.finfo(points.dtype).eps * np.abs(energy[:, :, 1:])  # at most, by rounding
        reached = energy[:, :, -1] - here[:, None, None] <= DEEPEST
    return np.isfinite(energy).all(axis=2) & (rise <= SLACK).all(axis=2) & reached
