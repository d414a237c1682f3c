"""The lengths over which an energy bends: a model's natural units."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

MAGNITUDES = 10.0 ** np.arange(-9, 10)
"""The lengths that are tried if nothing is known of a coordinate."""


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
        if not high.size or high[0] == 0:
            continue
        k = high[0]
        if np.isfinite(bend[k, i]):
            found[i] = magnitudes[k] * np.sqrt(2.0 / bend[k, i])
        else:
            found[i] = magnitudes[k - 1]
        found[i] = max(found[i], magnitudes[k - 1])
    return found / np.sqrt(2.0), len(points) + 1
