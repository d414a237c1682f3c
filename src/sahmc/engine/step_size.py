"""Dual averaging of the step size, one for each level (Hoffman and Gelman 2014, section 3.2)."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from sahmc._support.chain_axis import count, parts, pool

GAMMA, T0, KAPPA = 0.05, 10.0, 0.75
"""The constants gamma, t_0 and kappa of that paper."""


class StepSizeState(NamedTuple):
    """The log step size of each level, and the state of dual averaging."""

    log_step: Float[Array, " levels"]
    """The log step size in use."""
    log_average: Float[Array, " levels"]
    """The weighted average of the log step sizes used, with more weight on recent ones."""
    centre: Float[Array, " levels"]
    """The value towards which the log step size shrinks, mu of the paper."""
    mean_error: Float[Array, " levels"]
    """The mean of the target minus the acceptance probability, H bar of the paper."""
    num_updates: Int[Array, " levels"]
    """The number of updates so far."""


@partial(jax.jit, static_argnames="eager")
def init_step_size(step: Float[Array, " levels"], *, eager: bool) -> StepSizeState:
    """Start the tuning at the step sizes ``step``.

    ``eager`` pulls them towards ten times these values, which suits a first guess: steps that are too large cost least.
    """
    log_step = jnp.log(step)
    centre = log_step + jnp.log(10.0) if eager else log_step
    return StepSizeState(log_step, log_step, centre, jnp.zeros_like(log_step), jnp.zeros(log_step.shape, jnp.int32))


def update_step_size(
    state: StepSizeState,
    acceptance: Float[Array, " chains"],
    level: Int[Array, " chains"],
    target_accept: Float[Array, ""] | float,
) -> StepSizeState:
    """Tune the step size of each level by the mean acceptance probability of the chains that moved at it.

    ``acceptance`` is that of each chain, nan if it made no trajectory, and ``level`` is the level at which it moved.
    """
    at_level = (level[:, None] == jnp.arange(state.log_step.shape[0])) & ~jnp.isnan(acceptance)[:, None]
    moved = count(at_level)
    mean = pool(jnp.where(at_level, acceptance[:, None], 0.0)) * (level.shape[0] * parts() / jnp.maximum(moved, 1))

    t = (state.num_updates + 1).astype(state.log_step.dtype)
    eta = 1.0 / (t + T0)
    mean_error = (1.0 - eta) * state.mean_error + eta * (target_accept - mean)
    log_step = state.centre - jnp.sqrt(t) / GAMMA * mean_error
    log_average = state.log_average + t**-KAPPA * (log_step - state.log_average)

    new = StepSizeState(log_step, log_average, state.centre, mean_error, state.num_updates + 1)
    keep = moved > 0
    return StepSizeState(*(jnp.where(keep, n.astype(o.dtype), o) for n, o in zip(new, state, strict=True)))
