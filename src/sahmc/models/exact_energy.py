"""Energies of a 32-bit model, computed in 64 bits."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from sahmc._support.compiled import compiled
from sahmc._support.double import in_double
from sahmc._support.traced import TracedFunction

POINTS_AT_ONCE = 64
"""The number of points evaluated at once, always the same so that this is compiled once."""


def exact_energies(energy_fn: TracedFunction, points: np.ndarray) -> np.ndarray:
    """Return the energies of points (point, dim) and the prior's share, 0 if not separate: (point, 2)."""
    parts = [np.zeros((0, 2))]
    with jax.enable_x64(True):
        for i in range(0, len(points), POINTS_AT_ONCE):
            block = points[i : i + POINTS_AT_ONCE].astype(float)
            padded = np.concatenate([block, np.repeat(block[:1], POINTS_AT_ONCE - len(block), axis=0)])
            parts.append(np.asarray(_both(energy_fn, padded), float)[: len(block)])
    return np.concatenate(parts)


@compiled
def _both(energy_fn: TracedFunction, points: jax.Array) -> jax.Array:
    """Return the energies of points (point, dim) and the prior's share of them, 0 if not separate."""
    energy, _, base = jax.vmap(lambda point: in_double(energy_fn, point))(points)
    return jnp.stack([energy, jnp.zeros_like(energy) if base is None else base.energy], axis=1)
