"""Rounding: the error of energies computed in 32 bits, measured by computing them in 64."""

from __future__ import annotations

import numpy as np

from sahmc._support.traced import TracedFunction
from sahmc.models.evaluation import energies_and_gradients, exact_energies

ROUNDED_NATS, ROUNDED_UNITS = 3.0, 100.0
"""The usual rounding error of an energy: nats, plus units in its last place, since energies are sums of many terms."""


def rounded_by(energy_fn: TracedFunction, points: np.ndarray) -> np.ndarray:
    """Return by how many nats the energies of points (point, dim) are higher in 64 bits than as computed.

    It is 0 if the points have 64 bits, or if the model is computed outside JAX or cannot be computed in 64 bits.
    """
    if points.dtype != np.float32 or not len(points) or energy_fn.calls_out:
        return np.zeros(len(points))
    energy = energies_and_gradients(energy_fn, points)[0]
    try:
        exact = exact_energies(energy_fn, points).sum(axis=1)
    except Exception:  # a model that runs in 32 bits may fail in 64
        return np.zeros(len(points))
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(energy) & ~np.isnan(exact), exact - energy, 0.0)


def off_by(energy_fn: TracedFunction, points: np.ndarray) -> np.ndarray:
    """Return the rounding errors in nats of the energies of points (point, dim); 0 where they are within the usual."""
    off, energy = np.abs(rounded_by(energy_fn, points)), np.abs(energies_and_gradients(energy_fn, points)[0])
    usual = ROUNDED_NATS + ROUNDED_UNITS * np.finfo(np.float32).eps * energy
    return np.where(off > usual, off, 0.0)
