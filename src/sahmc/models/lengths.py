"""The lengths over which an energy bends: a model's own units."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

MAGNITUDES = 10.0 ** np.arange(-9, 10)
"""The lengths that are tried where nothing is known of a coordinate."""


def bending_lengths(
    energies: Callable[[np.ndarray], np.ndarray], point: np.ndarray, magnitudes: np.ndarray = MAGNITUDES
) -> tuple[np.ndarray, int]:
    """Return for each coordinate the distance over which the energy bends up by a nat from ``point``, and the cost.

    It is h with U(x + h) + U(x - h) - 2 U(x) = 2, which is sqrt(2) sds of a Gaussian wherever in it the point is. Where
    no distance between the least and the greatest of ``magnitudes`` will do, it is 1. ``energies`` is a function from
    points (point, dim) to their energies.
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
        if not high.size or high[0] == 0:
            continue
        k = high[0]
        if np.isfinite(bend[k, i]):
            found[i] = magnitudes[k] * np.sqrt(2.0 / bend[k, i])
        else:
            found[i] = magnitudes[k - 1]
        found[i] = max(found[i], magnitudes[k - 1])
    return found / np.sqrt(2.0), len(points) + 1
