"""The rescue of chains that are far too high, in the pilot run."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from sahmc.landscape.descent import absurd_height
from sahmc.landscape.quench import heights, quench_all
from sahmc.run.move import RunState
from sahmc.run.start import evaluate_starts
from sahmc.warmup.tempered import WarmupContext, take_places

STRANDED_NATS, STRANDED_SPREADS = 20.0, 8.0
"""The nats, and the spreads sqrt(d/2) of the energy in a Gaussian well, by which a chain that comes from the prior may
be higher than the lowest quarter of them."""
BY_MASS_NUMBERS, CORRELATION_NATS = 2048, 0.5
"""The most coordinates of all chains together for which the mass around chains is compared, not their energy alone; and
the nats for each dimension by which it may differ because one place is more correlated: lengths are those along
coordinates."""
LOW_CHAINS = 0.25
"""The quantile over chains of the energy with which others are compared: some may be in minor modes."""
RESCUE_STEPS = 200
"""The most steps downhill of a chain that is too high. It stops once it is low enough: the bottom of its basin is no
place to start from, since in a funnel the density has no upper bound there."""
FALLING = 0.1
"""The share of its excess height that a chain loses in half a window while it is still falling by itself."""

FROZEN_MOVES, FROZEN_QUANTILE = 20, 0.99
"""The moves that a chain must have refused, and the quantile of the energies of others above which it then is lost."""


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


def rescue(
    context: WarmupContext, state: RunState, variance: np.ndarray, energies: np.ndarray, may_fall: bool = True
) -> Rescue:
    """Let chains that are still too high go downhill or, if no way leads down, put them where others are.

    A start may be where the density has overflowed to a plateau, from which no gradient leads down: that is absurdly
    high. Where there is a prior, a tilt lets chains come down from it anew, to every mode, and a stricter rule loses
    none: they are too high if the typical draws of a well as deep as the lower quarter of them are far below. Where
    energies differ so much, the mass around each chain is compared, since in a funnel downhill leads into the neck.
    ``variance`` is that of each coordinate, as far as it is known. ``energies`` (draw, chain) are those of the window
    that ends here: if they ``may_fall``, chains that have fallen far in the second half of it are left to fall. One
    that has not moved in that half, and is higher than those that do, goes where others are.
    """
    chains = state.sahmc.chains
    dim, energy = chains.position.shape[1], np.asarray(chains.total_energy, float)
    late = energies[len(energies) // 2 :]
    floor = np.median(energy) + absurd_height(dim)
    if context.plan.has_prior:
        floor = min(floor, np.quantile(energy, LOW_CHAINS) + stranded_height(dim))
    few = chains.position.size <= BY_MASS_NUMBERS
    by_mass = context.plan.has_prior and few and not np.ptp(energy) <= stranded_height(dim)
    height, bound, spent = energy, floor, 0
    if by_mass:
        height, spent = heights(context.energy_fn, np.asarray(chains.position))
        bound = np.quantile(height, LOW_CHAINS, method="lower") + stranded_height(dim) + CORRELATION_NATS * dim
    frozen = _are_frozen(late)
    with np.errstate(invalid="ignore"):  # the energies of a chain may be infinite
        high = ~(height <= bound) | frozen
        falling = may_fall & (late[0] - energy > FALLING * (height - bound))
    stuck = high & ~falling & ~frozen
    if not (stuck | frozen).any():
        return Rescue(state, high, 0, spent)
    lost = stuck
    if context.plan.kernel.uses_gradient and stuck.any():
        position = np.array(chains.position)
        scale = np.sqrt(variance).astype(position.dtype)
        ends, _, _, cost = quench_all(context.energy_fn, position[stuck], scale, RESCUE_STEPS, float(floor))
        position[stuck] = ends
        chains = evaluate_starts(context.energy_fn, jnp.asarray(position))[1].chains
        height, more = np.array(chains.total_energy, float), 0
        if by_mass:
            height[stuck], more = heights(context.energy_fn, ends)
        lost, spent = stuck & ~(height <= bound), spent + cost + more
    lost = lost | frozen
    chains = take_places(chains, lost) if lost.any() else chains
    return Rescue(state._replace(sahmc=state.sahmc._replace(chains=chains)), high, int(lost.sum()), spent)


def _are_frozen(energies: np.ndarray) -> np.ndarray:
    """Tell which chains never move, in ``energies`` (draw, chain), though most do, at energies that these hardly reach.

    The step size is that of the others, and far too large for a narrow place. There is hardly any mass where it is both
    narrow and high.
    """
    still = (energies == energies[-1]).all(axis=0)
    if len(energies) < FROZEN_MOVES or not 0 < still.mean() < 0.5:
        return np.zeros(len(still), bool)
    return still & ~(energies[-1] <= np.quantile(energies[:, ~still], FROZEN_QUANTILE, method="lower"))


def stranded_height(dim: int) -> float:
    """Return the nats by which a chain in a well of ``dim`` dimensions may be higher than others."""
    return STRANDED_NATS + STRANDED_SPREADS * math.sqrt(0.5 * dim)
