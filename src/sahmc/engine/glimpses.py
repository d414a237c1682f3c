"""Glimpses: the deepest place that each chain proposed and had to refuse.

A narrow mode may be hidden inside a wide one, or beside it. Trajectories pass through it, but their steps are far too
long to stay: the energy falls by many nats, the momentum explodes, and the move is rejected. Accepted states never show
such a mode. The rejected proposals do, and their energies are known anyway. The search then descends from them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from sahmc._support.platform import placed
from sahmc.kernels.base import TransitionInfo
from sahmc.tilt.target import ChainState


class Glimpses(NamedTuple):
    """The rejected proposal of each chain with the largest fall in energy."""

    position: Float[Array, "chains dim"]
    """The position of the proposal."""
    fall: Float[Array, " chains"]
    """The energy of the state from which it was proposed, minus its own; 0 before any."""


def no_glimpses(position: Float[Array, "chains dim"]) -> Glimpses:
    """Return the glimpses of chains that have proposed nothing yet."""
    return Glimpses(position, placed(np.zeros(len(position)), position.dtype))


def update_glimpses(
    glimpses: Glimpses, before: ChainState, info: TransitionInfo, cold: Bool[Array, " chains"]
) -> Glimpses:
    """Return the glimpses after a move of every chain from ``before``.

    Only trajectories at beta = 1 count, those that are ``cold``: hot ones fall far all the time.
    """
    if info.proposal is None:
        return glimpses
    fall = jnp.asarray(before.total_energy - info.proposal.energy)
    deeper = cold & ~info.is_accepted & jnp.isfinite(fall) & (fall > glimpses.fall)
    return Glimpses(
        jnp.where(deeper[:, None], info.proposal.position, glimpses.position), jnp.where(deeper, fall, glimpses.fall)
    )


def places(glimpses: Glimpses) -> np.ndarray:
    """Return the positions (point, dim) of the glimpses of all chains that had one."""
    return np.asarray(glimpses.position)[np.asarray(glimpses.fall) > 0]
