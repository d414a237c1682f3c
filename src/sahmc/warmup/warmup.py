"""The warm-up, stage by stage: pilot, exploration, the top of the ladder, ladder, adaptation."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sahmc.engine.move import Draw, RunState, Setup
from sahmc.engine.stage import StageRunner
from sahmc.engine.start import evaluate_starts
from sahmc.hamiltonian.spread import LadderSpread
from sahmc.kernels.base import Kernel
from sahmc.kernels.jump import Jump
from sahmc.kernels.symmetric import among_copies
from sahmc.modes.finder import ModeFinder
from sahmc.modes.modes import Modes, no_modes
from sahmc.results.records import ThetaTrace
from sahmc.results.warmup_record import Pilot, WarmupRecord
from sahmc.symmetry.fold import Fold
from sahmc.symmetry.group import Group
from sahmc.symmetry.known import Symmetries
from sahmc.tilt.theta import desired_frequencies
from sahmc.tilt.tilts import TemperedTilt, Tilt
from sahmc.warmup.adapt import (
    Adapted,
    adapt,
    begin_adaptation,
    favour_posterior,
    freeze,
    with_small_steps,
    without_ladder,
)
from sahmc.warmup.explore import Landscape, explore
from sahmc.warmup.ladder import Ladder, build_ladder, level_steps, starting_theta
from sahmc.warmup.pilot import PilotOutcome, mixing, run_pilot
from sahmc.warmup.quotient import Quotient
from sahmc.warmup.reference import Beside
from sahmc.warmup.second_pilot import pilot_again
from sahmc.warmup.tempered import WarmupContext
from sahmc.warmup.top import Top, choose_top

LEAST_MIXING = 0.12
"""The minimum effective sample size per pilot draw for plain moves to count as mixing well."""
MOST_REPEATS = 2
"""The largest number of times that pilot and exploration are repeated because a heavier mode was found."""


class Copies(NamedTuple):
    """The symmetries that make copies of modes, as far as the chains use them."""

    fold: Fold | None
    """The fold, where modes have copies."""
    given: Group | None
    """The group of the symmetries that were given."""


class WarmedUp(NamedTuple):
    """The outcome of the warm-up: everything that drawing needs."""

    runner: StageRunner
    """The runner of stages, for drawing."""
    setup: Setup
    """The tilt and the tuned kernel."""
    state: RunState
    """The chains, with the theta and the step sizes for drawing."""
    visits: np.ndarray
    """The visits to each region during the adaptation."""
    record: WarmupRecord
    """The record of the findings and choices."""
    finder: ModeFinder
    """The finder, with the draws made so far."""
    modes: Modes
    """The known modes."""
    trace: ThetaTrace | None
    """theta and round trips, recorded at intervals during the adaptation."""
    draws: Draw | None
    """The draws of the adaptation, if they are saved."""
    beside: Beside | None
    """A reference that was fitted but is not the top of the ladder, if any."""
    prior_mass: tuple[float, float] | None
    """The log mass of the prior and its error, where the prior is not the top of the ladder and both were measured."""
    symmetries: Symmetries | None = None
    """The symmetries in use: the given ones, or those found that make copies of modes."""
    refuted: tuple[str, ...] = ()
    """Descriptions of the given symmetries that do not hold."""

    @classmethod
    def after(cls, adapted: Adapted, **rest: Any) -> WarmedUp:
        """Return the outcome of an adaptation, with all other fields in ``rest``."""
        return cls(
            visits=adapted.visits,
            finder=adapted.finder,
            modes=adapted.modes,
            trace=adapted.trace,
            draws=adapted.draws,
            **rest,
        )


def warm_up(context: WarmupContext, state: RunState, save: bool = False, shown: np.ndarray | None = None) -> WarmedUp:
    """Run all stages; each hands a new kernel, ladder or theta to the next.

    Steps are small only while drawing: chains that learn would creep into pits that others are then led to. ``state``
    holds the chains at their starts, and ``save`` says whether to keep the draws of the adaptation. ``shown``
    are points (point, dim) at minima that an earlier run found, or to which the starts lead.
    """
    dtype, given = state.sahmc.chains.position.dtype, context.plan.kernel
    context = replace(context, plan=replace(context.plan, kernel=given.with_small_steps(0.0)))
    piloted = run_pilot(context, state)
    if shown is not None:
        piloted = pilot_again(context, piloted, shown).piloted
    explored = explore(context, piloted, shown)
    for repeat in range(MOST_REPEATS + 1):
        seen = explored.found
        if seen is None or not seen.elsewhere:
            break
        may_run = repeat < MOST_REPEATS
        piloted, again, heavier = pilot_again(context, piloted, seen.minima, explored.state.t_key, may_run)
        if not again:
            explored = explored if heavier else explored.trusting_draws()
            break
        explored = explore(context, piloted, seen.minima).after(explored)
    context = replace(context, fold=None if explored.quotient is None else explored.quotient.fold)
    top = choose_top(context, piloted, explored)
    context, plan, pilot, found, kernel = top.context, top.context.plan, top.pilot, top.found, top.kernel

    many = int(found.modes.num) > 1
    ladder = build_ladder(plan, pilot, found.climb, many or not plan.looks_for_modes)
    desired = desired_frequencies(plan.desired, ladder.tilt.num_regions, dtype)
    if pilot is not None and not many:
        kernel = kernel.lengthened(top.quarter)
    runner = replace(context.runner, progress_per_move=plan.moves / kernel.moves)
    plan = replace(plan, moves=kernel.moves, spent=plan.spent * kernel.moves // plan.moves)
    theta_0 = starting_theta(ladder, pilot, desired)
    known = explored.symmetries
    copies = Copies(context.fold, known.group if known is not None and known.given else None)
    equip = partial(_equipped, kernel, piloted.spreads, top, found, plan.jumps, copies)
    setup = Setup(context.energy_fn, ladder.tilt, equip(ladder.tilt), desired, plan.gain_used, plan.target_accept)
    begun = begin_adaptation(found.state, setup, plan.theta, theta_0, level_steps(ladder, plan.kernel, pilot))

    adapted = adapt(WarmupContext(runner, context.energy_fn, plan), begun, setup, found.finder, found.modes, save)
    state = freeze(adapted.state, adapted.visits, plan)
    found = found._replace(climb=explored.climb, found=explored.found)
    record = _record(piloted, found, ladder, adapted, theta_0, np.array(state.sahmc.theta.theta))
    given_up = plan.looks_for_modes and plan.adapt == "tune" and pilot is not None and adapted.lost_posterior()
    record = replace(record, reference=top.record, untravelled=given_up)
    beside = top.beside
    if given_up and pilot is not None:
        cold = _cold_kernel(kernel, piloted, top, many)
        cold = _equipped(cold, None, top, found, plan.jumps, copies, ladder.tilt, adapted.modes)
        state, setup = without_ladder(_in_modes(context, begun, top), adapted, cold, pilot.step_size)
        beside, adapted = top.fitted, adapted._replace(trace=None)
    else:
        easy = plan.looks_for_modes and int(adapted.modes.num) == 1 and not record.still_new
        easy = easy and mixing(piloted.draws) > LEAST_MIXING
        state, setup = favour_posterior(state, adapted.setup, plan, easy)
    return WarmedUp.after(
        adapted,
        runner=runner,
        setup=with_small_steps(setup, given),
        state=state,
        record=record,
        beside=beside,
        prior_mass=top.prior_mass if given_up or top.referred is not None else None,
        symmetries=_used(explored.symmetries, explored.quotient),
        refuted=_refuted(plan.symmetries, explored.symmetries),
    )


def _cold_kernel(kernel: Kernel, piloted: PilotOutcome, top: Top, many: bool) -> Kernel:
    """Return the kernel for drawing at beta = 1 alone, matching the step size found there.

    It is the kernel of the reference's ladder if there is one; otherwise the pilot's, whose metric may be dense.
    ``many`` says that several modes are known.
    """
    if top.referred is not None or piloted.pilot is None:
        return kernel
    return piloted.kernel if many else piloted.kernel.lengthened(piloted.pilot.quarter)


def _in_modes(context: WarmupContext, state: RunState, top: Top) -> RunState:
    """Return the chains at the end of their stay in the known modes if the top is a reference; otherwise unchanged."""
    if top.stay is None or top.referred is None:
        return state
    chains = evaluate_starts(context.energy_fn, top.stay.state.sahmc.chains.position)[1].chains
    return state._replace(sahmc=state.sahmc._replace(chains=chains))


def _equipped(
    kernel: Kernel,
    spreads: LadderSpread | None,
    top: Top,
    found: Landscape,
    jumps: bool,
    copies: Copies,
    tilt: Tilt,
    modes: Modes | None = None,
) -> Kernel:
    """Return the kernel with a metric for each level of the tilt, jumps between known modes, and moves among copies.

    ``modes`` are the modes known by now; None means those of ``found``.
    """
    modes = found.modes if modes is None else modes
    if spreads is not None and top.referred is None and isinstance(tilt, TemperedTilt):
        kernel = kernel.with_variances(spreads.at(np.asarray(tilt.partition.betas, float)))
    if found.climb is not None and (jumps or top.reference is not None):
        between = modes if jumps else no_modes(modes.mean.shape[1], modes.mean.dtype)
        kernel = Jump(kernel, between, top.reference, shifts=top.shifts)
    return among_copies(kernel, *copies)


def _used(known: Symmetries | None, quotient: Quotient | None) -> Symmetries | None:
    """Return the symmetries in use: the ``known`` ones if they were given, otherwise those of the quotient."""
    if known is not None and known.given:
        return known
    return None if quotient is None else quotient.symmetries


def _refuted(known: Symmetries | None, held: Symmetries | None) -> tuple[str, ...]:
    """Return descriptions of the given symmetries in ``known`` that are missing from ``held``, those that hold."""
    if known is None or not known.given:
        return ()
    return tuple(str(one) for one in known.each if held is None or one not in held.each)


def _record(
    piloted: PilotOutcome, found: Landscape, ladder: Ladder, adapted: Adapted, theta_0: np.ndarray, theta: np.ndarray
) -> WarmupRecord:
    """Return the findings and choices as plain data; ``theta_0`` is the first theta, ``theta`` the frozen one."""
    pilot: Pilot | None = piloted.pilot
    learnt = adapted.state.sahmc.theta
    clock = 1.0
    if learnt.theta.ndim == 1:
        seen = np.asarray(learnt.seen) / np.asarray(adapted.setup.desired)
        clock = float(seen.min()) / max(1, int(adapted.state.t))
    return WarmupRecord(
        pilot=pilot,
        climb=found.climb,
        reference=None,
        top=ladder.top,
        barrier=ladder.barrier,
        lost=found.lost,
        num_modes=max(1, int(adapted.modes.num)),
        still_new=found.found is not None and found.found.still_new,
        power=None if found.found is None else found.found.power,
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
