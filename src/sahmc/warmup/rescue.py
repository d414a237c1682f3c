"""The rescue of chains that are far too high, in the pilot run."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from sahmc.landscape.descent import absurd_height
from sahmc.landscape.quench import quench_all
from sahmc.run.move import RunState
from sahmc.run.start import evaluate_starts
from sahmc.warmup.tempered import WarmupContext, take_places

STRANDED_NATS, STRANDED_SPREADS = 20.0, 8.0
"""The nats, and the spreads sqrt(d/2) of the energy in a Gaussian well, by which a chain that comes from the prior may
be higher than the lowest quarter of them."""
LOW_CHAINS = 0.25
"""The quantile over chains of the energy with which others are compared: some may be in minor modes."""
RESCUE_STEPS = 200
"""The most steps downhill of a chain that is too high. It stops once it is low enough: the bottom of its basin is no
place to start from, since in a funnel the density has no upper bound there."""
FALLING = 0.1
"""The share of its excess height that a chain loses in half a window while it is still falling by itself."""


class Rescue(NamedTuple):
    """The outcome of a look for chains that are too high."""

    state: RunState
    """The chains, none of them too high."""
    high: np.ndarray
    """The answer for each chain, (chain,), whether it was."""
    stranded: int
    """The number of those that went where others are, because no way led down."""
    gradients: int
    """The gradients spent."""


def rescue(context: WarmupContext, state: RunState, variance: np.ndarray, before: np.ndarray | None = None) -> Rescue:
    """Let chains that are still too high go downhill or, if no way leads down, put them where others are.

    A start may be where the density has overflowed to a plateau, from which no gradient leads down: that is absurdly
    high. Where there is a prior, a tilt lets chains come down from it anew, to every mode, and a stricter rule loses
    none: they are too high if the typical draws of a well as deep as the lower quarter of them are far below.
    ``variance`` is that of each coordinate, as far as it is known. ``before`` are the energies of the chains half a
    window ago: those that have fallen far since then are left to fall.
    """
    chains = state.sahmc.chains
    dim, energy = chains.position.shape[1], np.asarray(chains.total_energy, float)
    bound = np.median(energy) + absurd_height(dim)
    if context.plan.has_prior:
        bound = min(bound, np.quantile(energy, LOW_CHAINS) + stranded_height(dim))
    high = ~(energy <= bound)
    with np.errstate(invalid="ignore"):  # the energies of a chain may be infinite
        stuck = high if before is None else high & ~(before - energy > FALLING * (energy - bound))
    if not stuck.any():
        return Rescue(state, high, 0, 0)
    lost, spent = stuck, 0
    if context.plan.kernel.uses_gradient:
        position = np.array(chains.position)
        scale = np.sqrt(variance).astype(position.dtype)
        ends, _, _, spent = quench_all(context.energy_fn, position[stuck], scale, RESCUE_STEPS, float(bound))
        position[stuck] = ends
        chains = evaluate_starts(context.energy_fn, jnp.asarray(position))[1].chains
        lost = stuck & ~(np.asarray(chains.total_energy, float) <= bound)
    chains = take_places(chains, lost) if lost.any() else chains
    return Rescue(state._replace(sahmc=state.sahmc._replace(chains=chains)), high, int(lost.sum()), spent)


def stranded_height(dim: int) -> float:
    """Return the nats by which a chain in a well of ``dim`` dimensions may be higher than others."""
    return STRANDED_NATS + STRANDED_SPREADS * math.sqrt(0.5 * dim)
