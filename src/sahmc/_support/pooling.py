"""What crosses chains: means that are summed as integers."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float


def pool(values: Float[Array, "chains *any"]) -> Float[Array, "*any"]:
    """Return the mean over chains of values in [0, 1], the same however chains are ordered or split over devices.

    The sum is taken in fixed point, as large as fits into 32 bits, because sums of integers do not depend on order.
    """
    chains = values.shape[0]
    unit = 2.0 ** (30 - max(0, (chains - 1).bit_length()))
    counts = jnp.sum(jnp.round(values * unit).astype(jnp.int32), axis=0, dtype=jnp.int32)
    return counts.astype(values.dtype) / (unit * chains)
