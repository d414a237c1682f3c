"""The curvature of the energy: lengths over which it rises by a nat, and the Laplace approximation at a minimum."""

from __future__ import annotations

import numpy as np

from sahmc._support.traced import TracedFunction
from sahmc.models.evaluation import energies_and_gradients
from sahmc.models.lines import MAGNITUDES, bending_lengths

CURVE_STEP = 0.03
"""The distance, in units of the scale of each coordinate, over which the Hessian at a minimum is measured."""
WIDEST, NARROWEST = 10.0, 1e-5
"""The largest and the smallest width of a Laplace approximation in any direction, in units of the scale of each
coordinate."""
WIDER = 10.0 ** np.arange(5)
"""The lengths to try, in the same units, where a mode is wider."""
OBLIQUE = 6.0
"""The ratio of the longest to the shortest axis of a mode, with coordinates scaled to unit variance, beyond which a
diagonal metric is too slow."""
LEAST_CURVE = 1e-5
"""The smallest eigenvalue of a Hessian, relative to the largest, that can be distinguished from rounding."""
LAPLACE_DIM = 128
"""The largest dimension in which the Hessian at minima is measured."""


def nat_lengths(
    energy_fn: TracedFunction, point: np.ndarray, magnitudes: np.ndarray = MAGNITUDES
) -> tuple[np.ndarray, int]:
    """Return for each coordinate the distance over which the energy bends up by a nat from ``point``, and the cost."""
    return bending_lengths(lambda points: energies_and_gradients(energy_fn, points)[0], point, magnitudes)


def laplace_covariance(energy_fn: TracedFunction, point: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the inverse of the Hessian at a minimum, in units of ``scale``, (dim, dim), and the cost.

    Axes that do not curve upwards have width 1; all widths are between NARROWEST and WIDEST. A larger width suggests
    that the scale belongs to a much narrower mode. The Hessian is then measured over longer distances, in which the
    energy does rise.
    """
    curve, cost = curvature(energy_fn, point, scale), 2 * len(point)
    spectrum = _spectrum(curve)
    if spectrum is None:
        return np.eye(len(point)), cost
    if spectrum[0][0] < WIDEST**-2:
        lengths, spent = _lengths_from(energy_fn, point, scale)
        cost += spent
        if (lengths > WIDEST).any():
            curve, cost = curvature(energy_fn, point, scale * lengths), cost + 2 * len(point)
            spectrum = _spectrum(curve)
            found = np.eye(len(point)) if spectrum is None else _inverse(*spectrum)
            return found * lengths * lengths[:, None], cost
    return _inverse(*spectrum), cost


def _spectrum(curve: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the eigenvalues and eigenvectors of a Hessian; None if its entries are infinite, or too large for them."""
    if not np.isfinite(curve).all():
        return None
    try:
        value, vector = np.linalg.eigh(curve)
    except np.linalg.LinAlgError:
        return None
    return (value, vector) if np.isfinite(value).all() and np.isfinite(vector).all() else None


def _inverse(value: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Return the inverse of a Hessian from its eigenvalues and eigenvectors, kept within bounds."""
    value = np.where(value > 0, np.clip(value, WIDEST**-2, NARROWEST**-2), 1.0)
    return (vector / value) @ vector.T


def _lengths_from(energy_fn: TracedFunction, point: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the nat lengths of coordinates in units of ``scale``, at least 1, and the cost."""

    def energies(away: np.ndarray) -> np.ndarray:
        return energies_and_gradients(energy_fn, (point + scale * away).astype(point.dtype))[0]

    lengths, cost = bending_lengths(energies, np.zeros(len(point), point.dtype), WIDER)
    return np.maximum(lengths, 1.0), cost


def curvature(energy_fn: TracedFunction, point: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the Hessian of the energy at a point, in units of ``scale``, (dim, dim)."""
    dim = len(point)
    unit = np.concatenate([np.eye(dim), -np.eye(dim)]) * CURVE_STEP
    _, grad = energies_and_gradients(energy_fn, (point + scale * unit).astype(point.dtype))
    grad = grad * scale
    curve = (grad[:dim] - grad[dim:]) / (2 * CURVE_STEP)
    return (curve + curve.T) / 2


def correlated_covariance(precisions: np.ndarray, scale: np.ndarray) -> np.ndarray | None:
    """Return the inverse of the mean of ``precisions`` (point, dim, dim), or None where a diagonal is enough.

    They are in units of ``scale``. In every direction their mean is at least as steep as a fixed share of each, so no
    point needs much smaller steps than others. A diagonal is enough if axes differ in length by at most a factor
    OBLIQUE, with coordinates scaled to unit variance. It is also used if the mean is not positive definite.
    """
    mean = precisions.mean(axis=0)
    if not np.isfinite(mean).all():
        return None
    value, vector = np.linalg.eigh(mean)
    if value[0] <= value[-1] * LEAST_CURVE:
        return None
    covariance = (vector / value) @ vector.T
    width = np.sqrt(np.diag(covariance))
    axes = np.linalg.eigvalsh(covariance / width / width[:, None])
    return covariance * scale * scale[:, None] if axes[-1] > OBLIQUE**2 * axes[0] else None
