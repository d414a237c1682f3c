"""One iteration of SAHMC."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from sahmc.kernels.base import Kernel, TransitionInfo
from sahmc.tilt.target import ChainState, TiltedTarget
from sahmc.tilt.theta import ThetaState, init_theta, update_theta

SHARED = 2**31 - 1
"""The chain number under which the randomness that all chains share is drawn."""


class SAHMCState(NamedTuple):
    """The chains (leading axis) and theta."""

    chains: ChainState
    theta: ThetaState


def init(target: TiltedTarget, positions: Float[Array, "chains dim"]) -> SAHMCState:
    """Return the state at the starting positions, their energies and gradients, and the target's theta as theta_0."""
    return SAHMCState(jax.vmap(target.evaluate)(positions), init_theta(target.theta))


def sahmc_step(
    rng_key: Key[Array, ""],
    state: SAHMCState,
    kernel: Kernel,
    target: TiltedTarget,
    gain: Float[Array, ""],
    desired: Float[Array, " regions"],
) -> tuple[SAHMCState, TransitionInfo]:
    """Move and decide, see where the chains are, learn theta: theta_{t+1} = theta_t + a_{t+1} (e_{t+1} - pi).

    The theta in force is that of ``state``, whatever that of ``target``. ``gain`` is a_{t+1} and ``desired`` is pi.
    ``gain=0`` leaves theta as it is, and the iteration is then an ordinary Markov transition. The new state is
    returned, and a report on the move, whose ``level`` says in which region each chain is counted.
    """
    theta = state.theta.theta
    kernel = kernel.refresh(jax.random.fold_in(rng_key, SHARED))
    keys = jax.vmap(jax.random.fold_in, (None, 0))(rng_key, jnp.arange(state.chains.energy.shape[0]))

    def move(key: Key[Array, ""], chain: ChainState, theta: Float[Array, " regions"]) -> Any:
        chain, info = kernel.step(key, chain, target.with_theta(theta))
        membership = target.tilt.membership(theta, chain.energy)
        region = target.tilt.region(theta, chain.energy, info.level)
        return chain, info, membership, region

    own = 0 if theta.ndim == 2 else None
    chains, info, membership, region = jax.vmap(move, (0, 0, own))(keys, state.chains, theta)
    return SAHMCState(chains, update_theta(state.theta, membership, region, gain, desired)), info._replace(level=region)
