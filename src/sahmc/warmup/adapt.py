"""The adaptation: all chains together learn theta and step sizes, which are then averaged and frozen."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

import jax
import numpy as np

from sahmc._support.platform import placed
from sahmc._support.pytree import updated
from sahmc.engine.glimpses import no_glimpses, places
from sahmc.engine.move import NEVER, Draw, RunState, Schedule, Setup
from sahmc.engine.plan import Plan
from sahmc.engine.round_trips import init_round_trips
from sahmc.engine.stage import StageResult
from sahmc.engine.step_size import init_step_size
from sahmc.kernels.base import Kernel
from sahmc.kernels.hmc import HMC
from sahmc.kernels.jump import Jump
from sahmc.modes.finder import ModeFinder, lowest_draws, posterior_draws
from sahmc.modes.modes import Modes
from sahmc.results.records import ThetaTrace
from sahmc.tilt.partition import TemperatureLadder
from sahmc.tilt.theta import desired_frequencies, freeze_theta, init_theta
from sahmc.tilt.tilts import TemperedTilt
from sahmc.warmup.tempered import WarmupContext, memory_thin

ADAPTATION_THIN = 8
"""The adaptation keeps one draw in this number of moves."""
POSTERIOR_SHARE = 0.5
"""The desired share of beta = 1, the posterior itself, during drawing if chains jump. Otherwise all levels have equal
shares, and also with a prior at the top, since its draws give the evidence."""
ONE_MODE_SHARE = 0.9
"""The same share if one mode is known and plain moves mix well in it. The other levels then only look for more modes
and give the evidence. If plain moves mix badly, as in a funnel, chains should pass through the other levels."""

FEWEST_TRIPS = 5
"""The minimum number of round trips, over all chains in the adaptation, that shows that chains can cross the ladder."""
FEWEST_EXPECTED = 4
"""The minimum expected number of late draws at beta = 1 for their absence to mean anything."""
LEAST_HOME = 0.1
"""The minimum visits to beta = 1, relative to those desired, for a ladder to be used for drawing."""
LEAST_BACK, LEAST_SEEN = 0.75, 0.01
"""The thresholds where one mode is known. They are the minimum share of chains that visit beta = 1 late in the
adaptation, and the minimum visits to any level relative to those desired."""


class Adapted(NamedTuple):
    """The outcome of the adaptation."""

    state: RunState
    """The chains, theta and step sizes at the end."""
    setup: Setup
    """The setup, whose kernel knows the modes found during the adaptation."""
    visits: np.ndarray
    """The visits to each region."""
    finder: ModeFinder
    """The finder, with the draws made during the adaptation."""
    modes: Modes
    """The known modes."""
    gradients: int
    """The gradients spent on the moves."""
    gradients_modes: int
    """The gradients spent on the search for modes."""
    trace: ThetaTrace | None
    """theta and round trips, recorded at intervals."""
    draws: Draw | None
    """The draws, if they are saved."""
    home: np.ndarray | None = None
    """The share of late draws of each chain at the lowest level, (chain,); None if draws were not kept."""
    late: int = 0
    """The number of late draws of each chain."""

    def lost_posterior(self) -> bool:
        """Tell whether the ladder keeps chains away from the posterior instead of returning them to it.

        It does not if chains made enough round trips. Otherwise it does if beta = 1 is hardly visited. With one known
        mode it also does if too few chains came back, or if a level is left out: chains might still leave for that
        level.
        """
        tempered = isinstance(self.setup.tilt, TemperedTilt) and self.setup.tilt.num_regions > 1
        if self.home is None or not tempered or int(np.asarray(self.state.trips.trips).sum()) >= FEWEST_TRIPS:
            return False
        desired = np.asarray(self.setup.desired, float)
        visits = self.visits.reshape(-1, len(desired)).sum(axis=0)
        away = self._expects(len(self.home)) and self.home.mean() < LEAST_HOME * desired[0]
        gone = self._expects(1) and (self.home > 0).mean() < LEAST_BACK
        unseen = (visits < LEAST_SEEN * desired * visits.sum()).any()
        return bool(away or (int(self.modes.num) == 1 and (gone or unseen)))

    def _expects(self, chains: int) -> bool:
        """Tell whether this number of chains should have visited beta = 1 often enough for a judgement."""
        return chains * self.late * float(self.setup.desired[0]) >= FEWEST_EXPECTED


def begin_adaptation(
    state: RunState, setup: Setup, own: Literal["shared", "per-chain"], theta: np.ndarray, steps: np.ndarray
) -> RunState:
    """Return the chains unchanged, with theta and the step sizes at their first values.

    ``own`` says whether theta is "shared" or "per-chain"; in both cases ``theta`` has one value for each region.
    ``steps`` are the step sizes of the levels.
    """
    dtype, chains = setup.desired.dtype, len(state.sahmc.chains.energy)
    theta = theta if own == "shared" else np.tile(theta, (chains, 1))
    return _without_glimpses(state)._replace(
        sahmc=state.sahmc._replace(theta=init_theta(placed(theta, dtype))),
        steps=init_step_size(placed(steps, dtype), eager=False),
    )


def adapt(
    context: WarmupContext, state: RunState, setup: Setup, finder: ModeFinder, modes: Modes, save: bool
) -> Adapted:
    """Learn theta and step sizes, average theta over the second half, and look for new modes after each half.

    ``finder`` and ``modes`` hold what is known of the modes so far, and ``save`` says whether to keep the draws.
    """
    plan, regions = context.plan, setup.tilt.num_regions
    total = plan.stages["adapt"]
    schedule = Schedule(
        learn_theta=regions > 1,
        gain_by_visits=plan.gain is None and plan.theta == "shared",
        learn_step=plan.kernel.tunes_step_size,
        average_from=total // 2 if plan.adapt == "tune" else NEVER,
        top=regions - 1,
    )
    visits, moved, looked = np.zeros(state.sahmc.theta.visits.shape, np.int64), 0, 0
    traces: list[ThetaTrace | None] = []
    saved: list[Draw] = []
    home, late = None, 0
    for moves in (total // 2, total - total // 2):
        thin = min(max(ADAPTATION_THIN, memory_thin(state.sahmc.chains.position, moves)), max(1, moves))
        stretches = [(moves // thin, thin, plan.looks_for_modes or save), (moves % thin, 1, False)]
        for draws, every, store in stretches:
            done = _run(context, state, setup, schedule._replace(thin=every), draws, store)
            state, visits, moved = done.state, visits + done.visits, moved + done.counts.gradients
            traces.append(done.trace)
            if done.draws is not None and save:
                saved.append(done.draws)
            if done.draws is not None and len(done.draws.region):
                home, late = (np.asarray(done.draws.region) == 0).mean(axis=0), len(done.draws.region)
            if done.draws is not None and plan.looks_for_modes:
                finder, modes, spent = _look_for_modes(done.draws, places(state.glimpses), finder, modes)
                state = _without_glimpses(state)
                looked += spent
                if isinstance(setup.kernel, Jump):
                    setup = replace(setup, kernel=updated(setup.kernel, modes=modes))
    drawn = jax.tree.map(lambda *parts: np.concatenate(parts), *saved) if saved else None
    return Adapted(state, setup, visits, finder, modes, moved, looked, ThetaTrace.join(*traces), drawn, home, late)


def _run(
    context: WarmupContext, state: RunState, setup: Setup, schedule: Schedule, draws: int, store: bool
) -> StageResult:
    """Run a part of the adaptation; Ctrl-C ends the whole run, even where it would otherwise only end a stage early."""
    done = context.runner.run("adapt", state, setup, schedule, draws, store=store, trace=True)
    if done.interrupted:
        raise KeyboardInterrupt
    return done


def _without_glimpses(state: RunState) -> RunState:
    """Return the state as if chains had proposed nothing yet."""
    return state._replace(glimpses=no_glimpses(state.sahmc.chains.position))


def _look_for_modes(
    draws: Draw, glimpses: np.ndarray, finder: ModeFinder, modes: Modes
) -> tuple[ModeFinder, Modes, int]:
    """Return a finder extended by the draws, the modes it finds there and below ``glimpses``, and the gradients."""
    by_chain = np.swapaxes(draws.position, 0, 1)
    finder = finder.with_draws(posterior_draws(by_chain, np.asarray(draws.log_weight).T))
    found = finder.find(lowest_draws(by_chain, draws.total_energy.T), modes, glimpses=glimpses)
    return finder, found.jumps, found.spent


def freeze(state: RunState, visits: np.ndarray, plan: Plan) -> RunState:
    """Return the state to draw from: averaged step sizes, theta averaged if it is frozen, and no round trips yet.

    ``visits`` are those to each region during the adaptation.
    """
    theta = state.sahmc.theta
    if plan.adapt == "tune":
        best = theta.average if int(theta.num_averaged) else theta.theta
        theta = theta._replace(theta=placed(freeze_theta(np.asarray(best), visits), theta.theta.dtype))
    return state._replace(
        sahmc=state.sahmc._replace(theta=theta),
        steps=state.steps._replace(log_step=state.steps.log_average),
        trips=init_round_trips(plan.chains),
    )


def without_ladder(begun: RunState, adapted: Adapted, kernel: Kernel, step_size: float) -> tuple[RunState, Setup]:
    """Return a state and a setup for chains at beta = 1 alone, from their positions before the adaptation.

    Draws then come from plain moves with jumps between the known modes, and all have equal weight. They are unbiased:
    the ladder is abandoned before the first draw, and the kernel leaves the posterior invariant. ``begun`` holds the
    chains, ``kernel`` is the one for beta = 1, and ``step_size`` the step size there.
    """
    dtype = adapted.setup.desired.dtype
    setup = replace(
        adapted.setup,
        tilt=TemperedTilt(TemperatureLadder.single(1.0)),
        kernel=kernel,
        desired=desired_frequencies(None, 1, dtype),
    )
    theta = init_theta(placed([0.0], dtype))
    state = adapted.state._replace(
        sahmc=adapted.state.sahmc._replace(chains=begun.sahmc.chains, theta=theta),
        steps=init_step_size(placed([step_size], dtype), eager=False),
        trips=init_round_trips(len(begun.sahmc.chains.energy)),
    )
    return state, setup


def favour_posterior(state: RunState, setup: Setup, plan: Plan, easy: bool) -> tuple[RunState, Setup]:
    """Let chains spend more time at beta = 1 while drawing, where they jump or the posterior is ``easy``.

    It is easy if one mode is known and plain moves mix well in it.

    theta, which contains -log(desired), shifts with the desired frequencies. Nothing changes if the tilt is not
    tempered, if theta keeps learning, or if frequencies were given. With several modes, nothing changes either if there
    is a prior or if chains do not jump.
    """
    jumps = isinstance(setup.kernel, Jump) and (setup.kernel.reference is not None or not plan.has_prior)
    frozen = plan.adapt == "tune" and isinstance(setup.tilt, TemperedTilt)
    if not frozen or plan.desired is not None or not (jumps or easy) or setup.tilt.num_regions == 1:
        return state, setup
    regions, share = setup.tilt.num_regions, ONE_MODE_SHARE if easy else POSTERIOR_SHARE
    values = [share] + [(1 - share) / (regions - 1)] * (regions - 1)
    desired = desired_frequencies(values, regions, setup.desired.dtype)
    theta = state.sahmc.theta
    shift = np.log(np.asarray(desired) / np.asarray(setup.desired))
    theta = theta._replace(theta=placed(np.asarray(theta.theta) - shift))
    return state._replace(sahmc=state.sahmc._replace(theta=theta)), replace(setup, desired=desired)


def with_small_steps(setup: Setup, given: Kernel) -> Setup:
    """Return the setup for drawing, with the small steps that the user's kernel ``given`` asks for."""
    if not isinstance(given, HMC):
        return setup
    return replace(setup, kernel=setup.kernel.with_small_steps(given.small_steps))
