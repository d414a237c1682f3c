"""The decision to accept or reject, by tilted energies."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from sahmc.tilt.target import ChainState
from sahmc.tilt.tilts import Energy

DIVERGENCE = 1000.0
"""The maximum mechanical energy error. A larger error, or one that is not a number, is a divergence."""


def log_accept_ratio(current: Energy, proposed: Energy) -> Energy:
    """Return log r, r = exp{theta_J(U_t) - theta_J(U_*)} exp{U_t + K_t - U_* - K_*}.

    Both energies are tilted and include K, so log r is their difference. A proposal with an energy that is not finite
    is never accepted.
    """
    ratio = current - proposed
    return jnp.where(jnp.isfinite(proposed), ratio, -jnp.inf)


def decide(
    uniform: Energy, log_ratio: Energy, current: ChainState, proposed: ChainState
) -> tuple[ChainState, Bool[Array, ""]]:
    """Return the proposal with probability min(1, r), else the current state; and whether it was accepted."""
    accepted = jnp.log(uniform) < log_ratio
    return jax.tree.map(lambda new, old: jnp.where(accepted, new, old), proposed, current), accepted


def is_diverging(energy_error: Energy, bound: float = DIVERGENCE) -> Bool[Array, ""]:
    """Return whether a mechanical energy error exceeds ``bound`` or is not a number.

    An infinite energy is not a divergence: the position lies outside the support, and rejection is right.
    """
    return ~(energy_error < bound) & ~jnp.isposinf(energy_error)
