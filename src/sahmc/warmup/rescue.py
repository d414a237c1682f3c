"""The rescue of chains that are far too high in energy during the pilot run."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from sahmc.engine.move import RunState
from sahmc.engine.start import evaluate_starts
from sahmc.modes.descent import absurd_height
from sahmc.modes.quench import heights, quench_all
from sahmc.warmup.tempered import WarmupContext, take_places

STRANDED_NATS, STRANDED_SPREADS = 20.0, 8.0
"""The largest height of a chain from the prior above the lowest quarter of chains. It is a number of nats plus a number
of standard deviations sqrt(d/2), the spread of the energy in a Gaussian well."""
BY_MASS_NUMBERS, CORRELATION_NATS = 2048, 0.5
"""The largest number of coordinates, over all chains, for which chains are compared by the mass around them rather than
by energy alone. The second number is a tolerance in nats for each dimension: the mass uses lengths along the axes, so
it depends on how correlated a place is."""
LOW_CHAINS = 0.25
"""The quantile over chains of the energy with which others are compared; it is not the median, since some chains may be
in minor modes."""
RESCUE_STEPS = 200
"""The largest number of downhill steps for a chain that is too high. The descent stops once the energy is low enough.
The bottom of a basin is a bad start: in a funnel the density is unbounded there."""
FALLING = 0.1
"""The minimum share of its excess height that a chain loses in half a window if it is still falling unaided."""

FROZEN_MOVES, FROZEN_QUANTILE = 20, 0.99
"""The minimum number of rejected moves of a frozen chain, and the quantile of the other chains' energies that it must
exceed to count as lost."""


class Rescue(NamedTuple):
    """The outcome of the search for chains that are too high."""

    state: RunState
    """The chains, none of them too high."""
    high: np.ndarray
    """Whether each chain was too high, (chain,)."""
    stranded: int
    """The number of chains moved to the places of others, because no path led downhill."""
    gradients: int
    """The gradients spent."""


def rescue(
    context: WarmupContext, state: RunState, variance: np.ndarray, energies: np.ndarray, may_fall: bool = True
) -> Rescue:
    """Move chains that are too high downhill or, if no path leads down, to the places of other chains.

    A start may lie on a plateau where the density overflows and no gradient leads down; such an energy is absurdly
    high. With a prior the rule can be stricter, because chains later come down from the prior again and can reach every
    mode. A chain is then too high if it is far above typical draws of a well as deep as the lower quarter of the
    chains. If energies differ by more than such a well allows, the mass around each chain is compared instead, since in
    a funnel the lowest energies are in the neck.

    ``variance`` is that of each coordinate, as far as it is known. ``energies`` (draw, chain) are those of the window
    that ends here. If chains ``may_fall``, one that fell far in the second half of the window is left to fall. A chain
    that did not move in that half, and is higher than those that did, takes the place of another chain.
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
    """Tell which chains never move, while most do, at energies that the moving chains hardly reach.

    ``energies`` is (draw, chain). A frozen chain is in a narrow place, for which the step size of the others is far too
    large. A place that is both narrow and high has negligible mass.
    """
    still = (energies == energies[-1]).all(axis=0)
    if len(energies) < FROZEN_MOVES or not 0 < still.mean() < 0.5:
        return np.zeros(len(still), bool)
    return still & ~(energies[-1] <= np.quantile(energies[:, ~still], FROZEN_QUANTILE, method="lower"))


def stranded_height(dim: int) -> float:
    """Return the largest height in nats of a chain above others in a well of ``dim`` dimensions."""
    return STRANDED_NATS + STRANDED_SPREADS * math.sqrt(0.5 * dim)
