"""How the energy curves: lengths over which it rises by a nat, and Laplace's Gaussian at a minimum."""

from __future__ import annotations

import numpy as np

from sahmc._support.traced import TracedFunction
from sahmc.landscape.descent import energies

ENERGIES_AT_ONCE = 256
"""The number of points whose energies and gradients are computed at once, so that this is compiled once."""
CURVE_STEP = 0.03
"""The distance, in units of the scale of each coordinate, over which the curvature at a minimum is measured."""
WIDEST = 10.0
"""The largest width of Laplace's Gaussian in any direction, in units of the scale of each coordinate."""
MAGNITUDES = 10.0 ** np.arange(-9, 10)
"""The lengths that are tried where nothing is known of a coordinate."""
LAPLACE_DIM = 128
"""The largest dimension in which the curvature at minima is measured."""


def energies_and_gradients(energy_fn: TracedFunction, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the energies and gradients of points (point, dim)."""
    values, grads = [], []
    for i in range(0, len(points), ENERGIES_AT_ONCE):
        block = points[i : i + ENERGIES_AT_ONCE]
        padded = np.concatenate([block, np.repeat(block[:1], ENERGIES_AT_ONCE - len(block), axis=0)])
        value, grad = energies(energy_fn, padded)
        values.append(np.asarray(value)[: len(block)])
        grads.append(np.asarray(grad)[: len(block)])
    return np.concatenate(values).astype(float), np.concatenate(grads).astype(float)


def nat_lengths(energy_fn: TracedFunction, point: np.ndarray) -> tuple[np.ndarray, int]:
    """Return for each coordinate the distance over which the energy bends up by a nat from ``point``, and the cost.

    It is h with U(x + h) + U(x - h) - 2 U(x) = 2, which is sqrt(2) sds of a Gaussian wherever in it the point is. Where
    no distance between the least and the greatest of MAGNITUDES will do, it is 1.
    """
    dim = len(point)
    offset = np.eye(dim)[:, None] * np.array([1.0, -1.0])[:, None] * MAGNITUDES[:, None, None, None]
    points = (point.astype(float) + offset.reshape(-1, dim)).astype(point.dtype)
    energy = energies_and_gradients(energy_fn, np.concatenate([point[None], points]))[0]
    sides = energy[1:].reshape(len(MAGNITUDES), dim, 2)
    with np.errstate(invalid="ignore"):
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
            found[i] = MAGNITUDES[k] * np.sqrt(2.0 / bend[k, i])
        else:
            found[i] = MAGNITUDES[k - 1]
        found[i] = max(found[i], MAGNITUDES[k - 1])
    return found / np.sqrt(2.0), len(points) + 1


def laplace_covariance(energy_fn: TracedFunction, point: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the inverse of the curvature at a minimum, in units of ``scale``, (dim, dim).

    Along axes that do not curve upwards the width is 1, and it is nowhere more than WIDEST.
    """
    dim = len(point)
    unit = np.concatenate([np.eye(dim), -np.eye(dim)]) * CURVE_STEP
    _, grad = energies_and_gradients(energy_fn, (point + scale * unit).astype(point.dtype))
    grad = grad * scale
    curve = (grad[:dim] - grad[dim:]) / (2 * CURVE_STEP)
    if not np.isfinite(curve).all():
        return np.eye(dim)
    value, vector = np.linalg.eigh((curve + curve.T) / 2)
    value = np.where(value > 0, np.maximum(value, WIDEST**-2), 1.0)
    return (vector / value) @ vector.T
