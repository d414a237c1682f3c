"""The warm-up, stage by stage: pilot, climb, ladder, adaptation."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from sahmc.kernels.jump import Jump
from sahmc.landscape.mode_finder import DESCENTS, Found, ModeFinder
from sahmc.landscape.modes import Modes, no_modes
from sahmc.results.records import ThetaTrace
from sahmc.results.warmup_record import Climb, Pilot, WarmupRecord
from sahmc.run.loop import Draw, RunState, Setup
from sahmc.run.stage import StageRunner
from sahmc.tilt.theta import desired_frequencies, visit_clock
from sahmc.warmup.adapt import Adapted, adapt, begin_adaptation, favour_posterior, freeze
from sahmc.warmup.climb import run_climb
from sahmc.warmup.ladder import Ladder, build_ladder, level_steps, starting_theta
from sahmc.warmup.pilot import PilotOutcome, run_pilot
from sahmc.warmup.reference import Stay, come_down, heat_is_better, stay_in_modes
from sahmc.warmup.tempered import WarmupContext

LOST_NATS, LOST_NATS_PER_DIM = 20.0, 5.0
"""The nats above the pilot's mean energy, and more for each dimension, where a chain that cooled has lost its way."""
HOT_BATCHES = 2
"""The batches of points that chains came to when hot, which go downhill."""


class WarmedUp(NamedTuple):
    """The outcome of the warm-up: all that is needed to make draws."""

    runner: StageRunner
    """The runner of stages, by which draws are to be made."""
    setup: Setup
    """The tilt and the kernel, tuned."""
    state: RunState
    """The chains, with theta and step sizes as they are to be while draws are made."""
    visits: np.ndarray
    """The visits to each region during the adaptation."""
    record: WarmupRecord
    """The record of what was found and chosen."""
    finder: ModeFinder
    """The finder, which knows the draws made so far."""
    modes: Modes
    """The modes that are known."""
    trace: ThetaTrace | None
    """theta and round trips at some moments of the adaptation."""
    draws: Draw | None
    """The draws of the adaptation, if they were to be saved."""
    beside: Stay | None
    """The reference that was fitted but in which the ladder does not end, if any."""


class Landscape(NamedTuple):
    """The picture of the posterior that the climb has given, and the chains spread over it."""

    state: RunState
    """The chains after the climb."""
    climb: Climb | None
    """The record of the climb; None where there was none."""
    finder: ModeFinder
    """The finder, which knows the draws of pilot and climb."""
    modes: Modes
    """The modes that were found."""
    lost: int
    """The number of chains that did not come down, and were put back."""
    gradients: int
    """The gradients spent on the climb."""
    gradients_modes: int
    """The gradients spent on the search for modes."""
    found: Found | None = None
    """All that the search found; None where it did not look."""


def warm_up(context: WarmupContext, state: RunState, save: bool = False) -> WarmedUp:
    """Run all stages, each of which hands a new kernel, ladder or theta to the next.

    ``state`` holds the chains at their starts, and ``save`` tells whether to keep the draws of the adaptation.
    """
    plan, dtype = context.plan, state.sahmc.chains.position.dtype
    piloted = run_pilot(context, state)
    pilot, kernel = piloted.pilot, piloted.kernel
    found = _explore(context, piloted)
    heat, stay, referred = found.climb, None, None
    if plan.learns_reference:
        searched = found.found
        assert pilot is not None and searched is not None and heat is not None
        stay = stay_in_modes(context, found.state, kernel, pilot, found.finder, searched)
        found = _after_stay(found, stay)
        if heat_is_better(stay, searched, heat):
            plan = replace(plan, reference=False)
        else:
            referred = come_down(context, kernel, pilot, stay)
            context, plan, pilot = referred.context, referred.context.plan, referred.pilot
            found = found._replace(
                state=referred.state,
                climb=referred.climb,
                finder=found.finder.with_draws(referred.draws),
                gradients=found.gradients + referred.gradients,
            )

    many = int(found.modes.num) > 1
    ladder = build_ladder(plan, pilot, found.climb, many or not plan.looks_for_modes)
    desired = desired_frequencies(plan.desired, ladder.tilt.num_regions).astype(dtype)
    if pilot is not None and not many:
        kernel = kernel.lengthened(pilot.quarter)
    plan = replace(plan, moves=kernel.moves)
    theta_0 = starting_theta(ladder, pilot, desired)
    if found.climb is not None and (plan.jumps or referred is not None):
        between = found.modes if plan.jumps else no_modes(found.modes.mean.shape[1], found.modes.mean.dtype)
        kernel = Jump(kernel, between, None if stay is None or referred is None else stay.reference)
    setup = Setup(context.energy_fn, ladder.tilt, kernel, desired, plan.gain_used, plan.target_accept)
    state = begin_adaptation(found.state, setup, plan.theta, theta_0, level_steps(ladder, plan.kernel, pilot))

    runner = replace(context.runner, progress_per_move=context.plan.moves / plan.moves)
    adapted = adapt(WarmupContext(runner, context.energy_fn, plan), state, setup, found.finder, found.modes, save)
    state = freeze(adapted.state, adapted.visits, plan)
    found = found._replace(climb=heat)
    record = _record(piloted, found, ladder, adapted, theta_0, np.array(state.sahmc.theta.theta))
    record = replace(record, reference=None if referred is None else referred.record)
    state, setup = favour_posterior(state, adapted.setup, plan)
    return WarmedUp(
        runner=runner,
        setup=setup,
        state=state,
        visits=adapted.visits,
        record=record,
        finder=adapted.finder,
        modes=adapted.modes,
        trace=adapted.trace,
        draws=adapted.draws,
        beside=stay if referred is None else None,
    )


def _after_stay(found: Landscape, stay: Stay) -> Landscape:
    """Return the picture of the posterior with what chains saw that stayed in every mode."""
    return found._replace(
        state=stay.state,
        finder=stay.finder,
        modes=stay.found.jumps,
        gradients=found.gradients + stay.gradients,
        gradients_modes=found.gradients_modes + stay.gradients_modes,
    )


def _explore(context: WarmupContext, piloted: PilotOutcome) -> Landscape:
    """Climb and come down where the ladder is to be found, and look for modes on the way."""
    plan, pilot, home = context.plan, piloted.pilot, piloted.state
    position = home.sahmc.chains.position
    dim = position.shape[1]
    finder, modes = ModeFinder.of(context.energy_fn, piloted.draws), no_modes(dim, position.dtype)
    if not plan.finds_ladder:
        return Landscape(home, None, finder, modes, 0, 0, 0)
    assert pilot is not None
    done = run_climb(context, home, piloted.kernel, pilot, finder.scale, finder.draws, plan.climb_moves)
    high = LOST_NATS + LOST_NATS_PER_DIM * dim
    lost = ~(done.energies < pilot.mean_energy + high)
    state, spent, found = _put_back(done.state, home, lost), 0, None
    if plan.looks_for_modes:
        back = done.draws[:, ~lost]
        finder = finder.with_draws(back)
        hot = np.random.default_rng(len(done.hot)).permutation(done.hot)[: HOT_BATCHES * DESCENTS]
        found = finder.find(back[-1], modes, hot, plan.search_batches)
        modes, spent = found.jumps, found.spent
    return Landscape(state, done.climb, finder, modes, int(lost.sum()), done.gradients, spent, found)


@jax.jit
def _put_back(state: RunState, home: RunState, lost: Bool[Array, " chains"]) -> RunState:
    """Return the state with the ``lost`` chains put back where they were before the climb, in ``home``."""

    def pick(new: Array, old: Array) -> Array:
        return jnp.where(lost.reshape(-1, *(1,) * (new.ndim - 1)), old, new)

    chains = jax.tree.map(pick, state.sahmc.chains, home.sahmc.chains)
    return state._replace(sahmc=state.sahmc._replace(chains=chains))


def _record(
    piloted: PilotOutcome, found: Landscape, ladder: Ladder, adapted: Adapted, theta_0: np.ndarray, theta: np.ndarray
) -> WarmupRecord:
    """Return what was found and chosen, as plain data; ``theta_0`` is the first theta, ``theta`` the one frozen."""
    pilot: Pilot | None = piloted.pilot
    learnt = adapted.state.sahmc.theta
    clock = 1.0
    if learnt.theta.ndim == 1:
        clock = float(visit_clock(learnt.seen, adapted.setup.desired)) / max(1, int(adapted.state.t))
    return WarmupRecord(
        pilot=pilot,
        climb=found.climb,
        reference=None,
        top=ladder.top,
        barrier=ladder.barrier,
        lost=found.lost,
        num_modes=max(1, int(adapted.modes.num)),
        still_new=found.found is not None and found.found.still_new,
        kernel=adapted.setup.kernel.describe(),
        tilt=ladder.tilt.name,
        theta_0=theta_0,
        theta=theta,
        visit_clock=clock,
        gradients={
            "pilot": piloted.gradients,
            "climb": found.gradients,
            "modes": found.gradients_modes + adapted.gradients_modes,
            "adapt": adapted.gradients,
        },
    )
