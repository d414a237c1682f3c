"""Simplexes as logits, one for each part, so that parts that may change places do so in the position too.

A simplex w of K parts has K - 1 free numbers. The usual choices of these treat one part unlike the others, and hide
that parts may change places. So it is w = softmax(z) with K logits z here, whose sum, which w does not depend on, is
pinned by a density of its own: s = sum(z) / sqrt(K) ~ N(0, 1). Masses stay as they are.
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
    """Return the log of how volume changes from logits of sum 0 to simplexes, (sqrt(K) w_1 ... w_K) for each."""
    parts = logits.shape[-1]
    batch = math.prod(logits.shape[:-1])
    return jnp.sum(jax.nn.log_softmax(logits, axis=-1)) + 0.5 * batch * math.log(parts)


def logits_of(simplex: Float[Array, "*batch parts"]) -> Float[Array, "*batch parts"]:
    """Return the logits of simplexes, of sum 0."""
    logs = jnp.log(simplex)
    return logs - jnp.mean(logs, axis=-1, keepdims=True)
