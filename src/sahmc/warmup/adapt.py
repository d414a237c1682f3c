"""The adaptation: theta and step sizes are learnt by all chains together, averaged and frozen."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sahmc._support.pytree import updated
from sahmc.kernels.base import Kernel
from sahmc.kernels.jump import Jump
from sahmc.landscape.mode_finder import ModeFinder, lowest_draws, posterior_draws
from sahmc.landscape.modes import Modes
from sahmc.results.records import ThetaTrace
from sahmc.run.move import NEVER, Draw, RunState, Schedule, Setup
from sahmc.run.plan import Plan
from sahmc.run.round_trips import init_round_trips
from sahmc.run.stage import StageResult
from sahmc.run.step_size import init_step_size
from sahmc.tilt.partition import TemperatureLadder
from sahmc.tilt.theta import desired_frequencies, freeze_theta, init_theta
from sahmc.tilt.tilts import TemperedTilt
from sahmc.warmup.tempered import WarmupContext, memory_thin

ADAPTATION_THIN = 8
"""The number of moves for each draw kept of the adaptation."""
POSTERIOR_SHARE = 0.5
"""The desired share of the posterior itself, beta = 1, when draws are made and chains jump. Otherwise, and where there
is a prior, whose draws tell the evidence, levels share alike."""
ONE_MODE_SHARE = 0.9
"""That share where one mode is known in which plain moves mix: the other levels are a look-out, and tell the evidence.
Where they mix badly, as in a funnel, chains had better pass through the other levels."""

FEWEST_TRIPS = 5
"""The round trips of all chains in the adaptation that show that a ladder can be travelled."""
FEWEST_EXPECTED = 4
"""The late draws at beta = 1 that must be expected, if their lack is to mean anything."""
LEAST_HOME = 0.1
"""The minimum visits to beta = 1, over those desired, of a ladder that is used for the draws."""
LEAST_BACK, LEAST_SEEN = 0.75, 0.01
"""The minimum share of chains that visit beta = 1 in the late adaptation, and the minimum visits to any level over
those desired, where one mode is known."""


class Adapted(NamedTuple):
    """The outcome of the adaptation."""

    state: RunState
    """The chains, theta and step sizes at its end."""
    setup: Setup
    """The setup, whose kernel knows the modes that were found on the way."""
    visits: np.ndarray
    """The visits to each region."""
    finder: ModeFinder
    """The finder, which knows the draws made on the way."""
    modes: Modes
    """The modes that are known."""
    gradients: int
    """The gradients spent on the moves."""
    gradients_modes: int
    """The gradients spent on the search for modes."""
    trace: ThetaTrace | None
    """theta and round trips at some moments."""
    draws: Draw | None
    """The draws, if they are to be saved."""
    home: np.ndarray | None = None
    """The share of its late draws that each chain made at the lowest level, (chain,); None if draws were not kept."""
    late: int = 0
    """The number of late draws of each chain."""

    def lost_posterior(self) -> bool:
        """Tell whether the ladder keeps chains away from the posterior instead of bringing them back to it.

        It does not if chains made round trips. If they made none, beta = 1 must at least be visited, and where one mode
        is known nearly all chains should have come back, and no level may be left out: chains might yet leave for it.
        """
        tempered = isinstance(self.setup.tilt, TemperedTilt) and self.setup.tilt.num_regions > 1
        if self.home is None or not tempered or int(np.sum(self.state.trips.trips)) >= FEWEST_TRIPS:
            return False
        desired = np.asarray(self.setup.desired, float)
        visits = self.visits.reshape(-1, len(desired)).sum(axis=0)
        away = self._expects(len(self.home)) and self.home.mean() < LEAST_HOME * desired[0]
        gone = self._expects(1) and (self.home > 0).mean() < LEAST_BACK
        unseen = (visits < LEAST_SEEN * desired * visits.sum()).any()
        return bool(away or (int(self.modes.num) == 1 and (gone or unseen)))

    def _expects(self, chains: int) -> bool:
        """Tell whether so many chains should have been at beta = 1 often enough to judge by."""
        return chains * self.late * float(self.setup.desired[0]) >= FEWEST_EXPECTED


def begin_adaptation(
    state: RunState, setup: Setup, own: Literal["shared", "per-chain"], theta: np.ndarray, steps: np.ndarray
) -> RunState:
    """Return the chains as they are, with theta and the step sizes at their first values.

    ``own`` tells whether theta is "shared" or one "per-chain"; ``theta`` has one value for each region in either case.
    ``steps`` are the step sizes of the levels.
    """
    dtype, chains = setup.desired.dtype, len(state.sahmc.chains.energy)
    theta = theta if own == "shared" else np.tile(theta, (chains, 1))
    return state._replace(
        sahmc=state.sahmc._replace(theta=init_theta(jnp.asarray(theta, dtype))),
        steps=init_step_size(jnp.asarray(steps, dtype), eager=False),
    )


def adapt(
    context: WarmupContext, state: RunState, setup: Setup, finder: ModeFinder, modes: Modes, save: bool
) -> Adapted:
    """Learn theta and step sizes, average theta over the second half, look for new modes after each half.

    ``finder`` and ``modes`` hold what is known of the modes so far, and ``save`` tells whether to keep the draws.
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
                finder, modes, spent = _look_for_modes(done.draws, finder, modes)
                looked += spent
                if isinstance(setup.kernel, Jump):
                    setup = replace(setup, kernel=updated(setup.kernel, modes=modes))
    drawn = jax.tree.map(lambda *parts: np.concatenate(parts), *saved) if saved else None
    return Adapted(state, setup, visits, finder, modes, moved, looked, ThetaTrace.join(*traces), drawn, home, late)


def _run(
    context: WarmupContext, state: RunState, setup: Setup, schedule: Schedule, draws: int, store: bool
) -> StageResult:
    """Run a part of the adaptation; Ctrl-C, even where it ends a stage with what there is, ends the whole run."""
    done = context.runner.run("adapt", state, setup, schedule, draws, store=store, trace=True)
    if done.interrupted:
        raise KeyboardInterrupt
    return done


def _look_for_modes(draws: Draw, finder: ModeFinder, modes: Modes) -> tuple[ModeFinder, Modes, int]:
    """Return a finder that knows the draws, the modes it finds, and the gradients spent."""
    by_chain = np.swapaxes(draws.position, 0, 1)
    finder = finder.with_draws(posterior_draws(by_chain, np.asarray(draws.log_weight).T))
    found = finder.find(lowest_draws(by_chain, draws.total_energy.T), modes)
    return finder, found.jumps, found.spent


def freeze(state: RunState, visits: np.ndarray, plan: Plan) -> RunState:
    """Return the state to draw from: averaged step sizes, averaged theta unless it goes on learning, no round trips.

    ``visits`` are those to each region during the adaptation.
    """
    theta = state.sahmc.theta
    if plan.adapt == "tune":
        best = theta.average if int(theta.num_averaged) else theta.theta
        theta = theta._replace(theta=jnp.asarray(freeze_theta(np.asarray(best), visits), theta.theta.dtype))
    return state._replace(
        sahmc=state.sahmc._replace(theta=theta),
        steps=state.steps._replace(log_step=state.steps.log_average),
        trips=init_round_trips(plan.chains),
    )


def without_ladder(begun: RunState, adapted: Adapted, kernel: Kernel, step_size: float) -> tuple[RunState, Setup]:
    """Return a state and a setup in which chains move at beta = 1 alone, from where they were before the adaptation.

    The draws are then plain ones with jumps between the known modes, all of equal weight. That is unbiased: the ladder
    is given up before the first draw is made, and the kernel leaves the posterior invariant. ``begun`` holds the
    chains, ``kernel`` is the one for beta = 1, and ``step_size`` the step size there.
    """
    dtype = adapted.setup.desired.dtype
    setup = replace(
        adapted.setup,
        tilt=TemperedTilt(TemperatureLadder.single(1.0)),
        kernel=kernel,
        desired=desired_frequencies(None, 1).astype(dtype),
    )
    theta = init_theta(jnp.zeros(1, dtype))
    state = adapted.state._replace(
        sahmc=adapted.state.sahmc._replace(chains=begun.sahmc.chains, theta=theta),
        steps=init_step_size(jnp.full(1, step_size, dtype), eager=False),
        trips=init_round_trips(len(begun.sahmc.chains.energy)),
    )
    return state, setup


def favour_posterior(state: RunState, setup: Setup, plan: Plan, easy: bool) -> tuple[RunState, Setup]:
    """Let chains spend more of their time at beta = 1 while draws are made: where they jump, or the posterior is easy.

    It is where one mode is known, in which plain moves mix.

    theta, which contains -log(desired), is shifted as the desired frequencies change. Nothing changes where the tilt is
    not tempered, theta goes on learning, or frequencies were given; nor with several modes where there is a prior, or
    where chains do not jump.
    """
    jumps = isinstance(setup.kernel, Jump) and (setup.kernel.reference is not None or not plan.has_prior)
    frozen = plan.adapt == "tune" and isinstance(setup.tilt, TemperedTilt)
    if not frozen or plan.desired is not None or not (jumps or easy) or setup.tilt.num_regions == 1:
        return state, setup
    regions, share = setup.tilt.num_regions, ONE_MODE_SHARE if easy else POSTERIOR_SHARE
    values = [share] + [(1 - share) / (regions - 1)] * (regions - 1)
    desired = desired_frequencies(values, regions).astype(setup.desired.dtype)
    theta = state.sahmc.theta
    theta = theta._replace(theta=theta.theta - jnp.log(desired / setup.desired))
    return state._replace(sahmc=state.sahmc._replace(theta=theta)), replace(setup, desired=desired)
