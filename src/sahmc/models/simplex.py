"""Simplexes as logits, one for each part, so that label switching of parts is a permutation of the position too.

A simplex w of K parts has K - 1 free numbers. The usual parametrisations treat one part unlike the others, which hides
the symmetry. Here w = softmax(z) with K logits z. w does not depend on their sum, which gets a density of its own: s =
sum(z) / sqrt(K) ~ N(0, 1). Masses do not change.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def log_pin(logits: Float[Array, "*batch parts"]) -> Float[Array, ""]:
    """Return the log density of the sums of logits."""
    s = jnp.sum(logits, axis=-1) / math.sqrt(logits.shape[-1])
    return -0.5 * jnp.sum(s**2 + math.log(2 * math.pi))


def log_volume(logits: Float[Array, "*batch parts"]) -> Float[Array, ""]:
    """Return the log Jacobian from logits of sum 0 to simplexes, log (sqrt(K) w_1 ... w_K) summed over the batch."""
    parts = logits.shape[-1]
    batch = math.prod(logits.shape[:-1])
    return jnp.sum(jax.nn.log_softmax(logits, axis=-1)) + 0.5 * batch * math.log(parts)


def logits_of(simplex: Float[Array, "*batch parts"]) -> Float[Array, "*batch parts"]:
    """Return the logits of simplexes, with sum 0."""
    logs = jnp.log(simplex)
    return logs - jnp.mean(logs, axis=-1, keepdims=True)
