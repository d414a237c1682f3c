"""The exploration: chains climb and descend, and the search for modes starts from all points they saw."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from sahmc._support.thinning import some_chains
from sahmc.engine.move import RunState
from sahmc.modes.bulk import Bulk
from sahmc.modes.finder import FarLook, Found, ModeFinder
from sahmc.modes.modes import Modes, no_modes
from sahmc.results.warmup_record import Climb
from sahmc.symmetry.alike import held_at
from sahmc.symmetry.known import Symmetries
from sahmc.warmup.climb import run_climb
from sahmc.warmup.pilot import PilotOutcome
from sahmc.warmup.quotient import Quotient, find_quotient, look_again
from sahmc.warmup.rescue import LOW_CHAINS, stranded_height
from sahmc.warmup.tempered import WarmupContext, take_places

LOST_NATS, LOST_NATS_PER_DIM = 20.0, 5.0
"""The nats above the chains of the pilot, and the nats added for each dimension, at which a cooled chain counts as
lost."""
MOST_HOT = 768
"""The largest number of points, reached by hot chains, that descend in search of modes."""
SAME_PLACE = 1.0
"""The largest distance of two minima, in spreads within a mode, at which they are the same."""
MOST_DOUBTED = 64
"""The largest number of points used to decide which symmetries fail."""


class Landscape(NamedTuple):
    """The findings of the climb about the posterior, and the chains spread over it."""

    state: RunState
    """The chains after the climb."""
    climb: Climb | None
    """The record of the climb; None without a climb."""
    finder: ModeFinder
    """The finder, with the draws of pilot and climb."""
    modes: Modes
    """The modes found."""
    lost: int
    """The number of chains that did not return from the climb, and were put back."""
    gradients: int
    """The gradients spent on the climb."""
    gradients_modes: int
    """The gradients spent on the search for modes."""
    found: Found | None = None
    """All findings of the search; None if there was no search."""
    symmetries: Symmetries | None = None
    """The symmetries of the plan that hold wherever the search went; None if there are none."""
    quotient: Quotient | None = None
    """The quotient, where modes have copies."""
    astray: int = 0
    """The number of lost chains that are too high for any mode; the others are merely in negligible modes."""

    def trusting_draws(self) -> Landscape:
        """Return these findings for draws of the pilot that no minimum refutes."""
        if self.found is None:
            return self
        power = None if self.found.power is None else self.found.power.without_descents()
        return self._replace(found=self.found._replace(elsewhere=False, power=power))

    def after(self, first: Landscape) -> Landscape:
        """Return these findings with the cost of an earlier exploration added, and its descents to the same mode."""
        found, before = self.found, first.found
        if found is not None and before is not None and found.power is not None and before.power is not None:
            apart = np.abs(found.minima[:1] - before.minima[:1]) / self.finder.scale
            if len(found.minima) and len(before.minima) and apart.max() < SAME_PLACE:
                found = found._replace(power=found.power.after(before.power))
        return self._replace(
            found=found,
            gradients=self.gradients + first.gradients,
            gradients_modes=self.gradients_modes + first.gradients_modes,
        )


def explore(context: WarmupContext, piloted: PilotOutcome, shown: np.ndarray | None = None) -> Landscape:
    """Climb and descend where the ladder is to be found, and look for modes on the way.

    ``shown`` are points (point, dim) at minima, found before the warm-up.
    """
    plan, pilot, home = context.plan, piloted.pilot, piloted.state
    position = home.sahmc.chains.position
    dim = position.shape[1]
    finder, modes = ModeFinder.of(context.energy_fn, piloted.draws), no_modes(dim, position.dtype)
    if not plan.finds_ladder:
        return Landscape(home, None, finder, modes, 0, 0, 0, symmetries=plan.symmetries)
    assert pilot is not None
    kernel = piloted.plain if plan.has_prior else piloted.kernel
    begun = home if piloted.at_prior is None else piloted.at_prior
    done = run_climb(context, begun, kernel, pilot, finder.scale, finder.draws, plan.climb_moves, piloted.spreads)
    energy, level = np.asarray(done.state.sahmc.chains.total_energy, float), _level(home)
    lost = ~(energy < level + LOST_NATS + LOST_NATS_PER_DIM * dim)
    astray, searched = int(lost.sum()), None
    if plan.looks_for_modes:
        finder = replace(finder, bulk=Bulk.of(context.energy_fn, piloted.draws))
        back = some_chains(done.draws[:, ~lost])
        near = np.concatenate([piloted.draws[-1], back[-1], done.hot])
        hot = np.random.default_rng(len(done.hot)).permutation(done.hot)[:MOST_HOT]
        searched = _search(context, finder, back, near, FarLook(hot, plan.search_batches, plan.probes, shown), shown)
        finder, modes = searched.finder, searched.found.jumps
        if int(modes.num) == 1:
            lost |= ~(energy < level + stranded_height(dim))
            home = _bring_home(home, level + stranded_height(dim))
    state = _put_back(done.state, home, lost)
    seen = Landscape(state, done.climb, finder, modes, int(lost.sum()), done.gradients, 0, astray=astray)
    if searched is None:
        return seen._replace(symmetries=plan.symmetries)
    found, symmetries, quotient, spent = searched.found, searched.symmetries, searched.quotient, searched.spent
    return seen._replace(found=found, symmetries=symmetries, quotient=quotient, gradients_modes=spent)


class _Searched(NamedTuple):
    """The outcome of the search for modes, and the symmetries that make copies of them."""

    finder: ModeFinder
    found: Found
    symmetries: Symmetries | None
    quotient: Quotient | None
    spent: int


def _search(
    context: WarmupContext,
    finder: ModeFinder,
    back: np.ndarray,
    near: np.ndarray,
    far: FarLook,
    shown: np.ndarray | None,
) -> _Searched:
    """Look for modes, counting copies as one; drop any symmetry that fails somewhere, and search again.

    ``back`` are the draws (draw, chain, dim) of chains that returned from the climb. ``near`` are points (point, dim)
    from which the search for a first mode starts, and ``far`` says how to look for others. ``shown`` are points
    (point, dim) at minima.
    """
    symmetries, spent, known = context.plan.symmetries, 0, no_modes(back.shape[2], back.dtype)
    while True:
        quotient, folded = None, finder
        if symmetries is not None:
            symmetries, quotient, cost = find_quotient(context, symmetries, finder.scale, near)
            spent += cost
        if quotient is not None:
            folded = replace(finder.folded(quotient.fold), scale=quotient.width)
        folded = folded.with_draws(back) if back.shape[1] else folded
        found = folded.find(back[-1], known, far, shown)
        spent += found.spent
        if quotient is None or symmetries is None:
            return _Searched(folded, found, symmetries, quotient, spent)
        places = found.unlike[:MOST_DOUBTED].astype(near.dtype)
        held = held_at(context.energy_fn, symmetries, places, quotient.fold) if len(places) else symmetries
        if held is symmetries:
            quotient, folded, again = look_again(symmetries, quotient, folded, found)
            return _Searched(folded, again, symmetries, quotient, spent + again.spent - found.spent)
        symmetries = held


def _level(home: RunState) -> float:
    """Return the total energy, including the prior's share, of the lower chains of the pilot."""
    return float(np.quantile(np.asarray(home.sahmc.chains.total_energy, float), LOW_CHAINS))


def _bring_home(home: RunState, bound: float) -> RunState:
    """Return the chains of the pilot; those above ``bound``, where no mode counts, move to the places of others."""
    high = ~(np.asarray(home.sahmc.chains.total_energy, float) <= bound)
    return home._replace(sahmc=home.sahmc._replace(chains=take_places(home.sahmc.chains, high)))


@jax.jit
def _put_back(state: RunState, home: RunState, lost: Bool[Array, " chains"]) -> RunState:
    """Return the state with the ``lost`` chains put back at their places before the climb, from ``home``."""

    def pick(new: Array, old: Array) -> Array:
        return jnp.where(lost.reshape(-1, *(1,) * (new.ndim - 1)), old, new)

    chains = jax.tree.map(pick, state.sahmc.chains, home.sahmc.chains)
    return state._replace(sahmc=state.sahmc._replace(chains=chains))
