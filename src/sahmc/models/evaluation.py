"""Energies and gradients of many points: at the precision of the model, and of a 32-bit model in 64 bits."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sahmc._support.compiled import compiled
from sahmc._support.double import in_double
from sahmc._support.traced import TracedFunction

ENERGIES_AT_ONCE, MANY_AT_ONCE, MANY = 256, 8192, 2**15
"""The batch size for energies and gradients, fixed so that one compiled program serves all; the batch size on a GPU for
many points; and how many points are many. On a CPU with few cores XLA can hang when solving a thousand linear systems
at once."""
EXACT_AT_ONCE = 64
"""The batch size in 64 bits, always the same so that this is compiled once."""


def in_blocks(points: np.ndarray, size: int) -> Iterator[tuple[slice, np.ndarray]]:
    """Cut points (point, dim) into blocks, and return the slice of each block and the block padded to ``size`` points.

    One compiled program then serves all blocks.
    """
    for i in range(0, len(points), size):
        block = points[i : i + size]
        yield slice(i, i + size), np.concatenate([block, np.repeat(block[-1:], size - len(block), axis=0)])


@compiled
def energies(
    energy_fn: TracedFunction, points: Float[Array, "points dim"]
) -> tuple[Float[Array, " points"], Float[Array, "points dim"] | None]:
    """Return U = -log density of each point, including the prior's share, and its gradient (None if there is none)."""
    energy, grad, base = jax.vmap(energy_fn)(points)
    if base is None:
        return energy, grad
    return energy + base.energy, None if grad is None else grad + base.grad


def energies_and_gradients(energy_fn: TracedFunction, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the energies and gradients of points (point, dim); gradients are NaN where there are none."""
    values, grads = np.empty(len(points)), np.empty(points.shape)
    few = len(points) < MANY or jax.default_backend() == "cpu"
    for block, padded in in_blocks(points, ENERGIES_AT_ONCE if few else MANY_AT_ONCE):
        value, grad = energies(energy_fn, padded)
        num = len(values[block])
        values[block], grads[block] = np.asarray(value)[:num], np.nan if grad is None else np.asarray(grad)[:num]
    return values, grads


def exact_energies(energy_fn: TracedFunction, points: np.ndarray) -> np.ndarray:
    """Return the energies of points (point, dim) and the prior's share, 0 if not separate: (point, 2)."""
    values = np.empty((len(points), 2))
    with jax.enable_x64(True):
        for block, padded in in_blocks(points.astype(float), EXACT_AT_ONCE):
            values[block] = np.asarray(_both(energy_fn, padded), float)[: len(values[block])]
    return values


@compiled
def _both(energy_fn: TracedFunction, points: jax.Array) -> jax.Array:
    """Return the energies of points (point, dim) and the prior's share of them, 0 if not separate."""
    energy, _, base = jax.vmap(lambda point: in_double(energy_fn, point))(points)
    return jnp.stack([energy, jnp.zeros_like(energy) if base is None else base.energy], axis=1)
