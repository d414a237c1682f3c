"""What is found out before draws are made, stage by stage: pilot, search, ladder, adaptation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammainc, gammaln

from sahmc.kernels.base import Kernel
from sahmc.kernels.jump import Jump
from sahmc.landscape.mode_finder import Scout, lowest_draws, posterior_draws, spread_within
from sahmc.landscape.modes import Modes, no_modes
from sahmc.run.loop import NEVER, Draw, RunState, Schedule, Setup, total_energy
from sahmc.run.plan import Plan
from sahmc.run.round_trips import init_round_trips
from sahmc.run.stage import Path, Runner
from sahmc.run.step_size import init_step_size
from sahmc.tilt.partition import EnergyPartition, TemperatureLadder, ladder_size
from sahmc.tilt.theta import desired_frequencies, evidence, freeze_theta, init_theta
from sahmc.tilt.tilts import LinearTilt, StepTilt, TemperedTilt, Tilt
from sahmc.warmup.climb import Curve, Search, fit_curve, run_search, temperature
from sahmc.warmup.pilot import Pilot, run_pilot
from sahmc.warmup.tempered import Bench, memory_thin

ABOVE_MELTING = 4.0
"""The top over the temperature at which chains forget where they were."""
T_LEAST = 10.0
"""The lowest top: where one mode was seen, a look-out for others."""
T_BLIND = 30.0
"""The top where chains are too few to see whether they forget."""
FEW = 8
"""Fewer chains than this are too few for that."""
SPACING = 2 / 3
"""Of levels, in sd(U) d beta: neighbours then overlap well in energy."""
AT_HOME = 0.5
"""Desired share of the posterior itself, beta = 1, when draws are made and chains jump. Otherwise, and where there is
a prior, whose draws tell the evidence, levels share alike."""
LOOK_OUT = 6.0
"""Longest ladder, in sd(U) d beta, where one mode was seen."""
WIDTH = 2.0
"""Energy width of a subregion, as the paper advises."""
LOST = 20.0
"""Nats, and five more for each dimension, above the pilot's energies where a chain that cools has lost its way."""
THIN = 8
"""Moves between draws kept of the adaptation."""


@dataclass(frozen=True)
class Warmup:
    """What the warm-up has found and chosen."""

    pilot: Pilot | None
    search: Search | None
    top: float | None
    """Highest temperature of the ladder: inf is the prior."""
    lost: int
    """Chains that did not come down from the search, and were put back to where they were before it."""
    num_modes: int
    """Modes among which chains jump; 1 if none were looked for or no other was found."""
    kernel: Kernel
    tilt: Tilt
    theta_0: np.ndarray
    theta: np.ndarray
    evidence: float
    """Moves from which theta has learnt, by the clock of the level seen least, over all it made."""
    gradients: dict[str, int]

    def __repr__(self) -> str:
        lines = [f"<sahmc.Warmup, {sum(self.gradients.values()):,} gradients"]
        if self.pilot is not None:
            lines.append(
                f"pilot       step size {self.pilot.step_size:.3g}, lowest energy about {self.pilot.u_min:.4g}, "
                f"effective dimension {self.pilot.dim:.3g}"
            )
        if self.search is not None:
            lines.append(f"search      {self.search}")
            lines.append(f"modes       {self.num_modes} known")
        if self.top is not None:
            top = "the prior" if math.isinf(self.top) else f"T = {self.top:.3g}"
            lines.append(f"ladder      {self.tilt.num_regions} {self.tilt.name} levels, up to {top}")
        if self.tilt.num_regions > 1:
            moved = np.abs(np.subtract(self.theta, self.theta[..., :1]) - self.theta_0)
            lines.append(
                f"adaptation  theta moved by at most {moved.max():.2g}; evidence {self.evidence:.0%} of the time spent"
            )
        return "\n  ".join(lines) + ">"


class Ready(NamedTuple):
    """All that drawing needs."""

    runner: Runner
    setup: Setup
    state: RunState
    visits: np.ndarray
    record: Warmup
    scout: Scout
    modes: Modes
    path: Path | None
    draws: Draw | None
    """Of the adaptation."""


def warm_up(bench: Bench, state: RunState, save: bool = False) -> Ready:
    """All stages, each of which hands a new kernel, ladder or theta to the next; ``save`` keeps adaptation's draws."""
    plan, dtype, dim = bench.plan, state.sahmc.chains.position.dtype, state.sahmc.chains.position.shape[1]
    pilot, kernel, state, cold, spent = run_pilot(bench, state)
    gradients = {"pilot": spent, "search": 0, "modes": 0}
    scout = Scout(bench.program, spread_within(cold), cold)
    modes, search, lost = no_modes(dim, dtype), None, np.zeros(plan.chains, bool)
    if plan.searches:
        assert pilot is not None
        home = state
        search, state = run_search(bench, state, kernel, pilot, scout.scale)
        lost = ~(search.down[-1].energies < pilot.mean_energy + LOST + 5 * dim)
        state = _put_back(state, home, lost)
        gradients["search"] = search.gradients
        if plan.scouts:
            back = search.draws[:, ~lost]
            scout = scout.with_draws(back)
            modes, gradients["modes"] = scout.look(back[-1], modes)

    tilt, curve, top = _build_tilt(plan, pilot, search, int(modes.num) > 1 or not plan.scouts)
    desired = desired_frequencies(plan.desired, tilt.num_regions).astype(dtype)
    if pilot is not None and int(modes.num) < 2:
        kernel = kernel.lengthened(pilot.quarter)
    plan = replace(plan, moves=kernel.moves)
    theta_0 = starting_theta(tilt, pilot, curve, desired)
    if search is not None and plan.jumps:
        kernel = Jump(kernel, modes)
    setup = Setup(bench.program, tilt, kernel, desired, plan.gain_used, plan.target_accept)
    state = _begin(state, setup, plan.theta, theta_0, level_steps(tilt, plan.kernel, pilot, curve))

    runner = replace(bench.runner, worth=bench.plan.moves / plan.moves)
    adapted = _adapt(Bench(runner, bench.program, plan), state, setup, scout, modes, save)
    state, setup = adapted.state, adapted.setup
    gradients["adapt"], gradients["modes"] = adapted.moved, gradients["modes"] + adapted.looked
    theta = state.sahmc.theta
    shared = theta.theta.ndim == 1
    proof = float(evidence(theta.seen, setup.desired)) / max(1, int(state.t)) if shared else 1.0
    state = _freeze(state, adapted.visits, plan.chains, plan.adapt)
    frozen = np.array(state.sahmc.theta.theta)
    if (
        isinstance(setup.kernel, Jump)
        and isinstance(tilt, TemperedTilt)
        and plan.adapt == "tune"
        and not plan.has_prior
    ):
        state, setup = _stay_at_home(state, setup)
    known = max(1, int(adapted.modes.num))
    record = Warmup(pilot, search, top, int(lost.sum()), known, setup.kernel, tilt, theta_0, frozen, proof, gradients)
    return Ready(
        runner, setup, state, adapted.visits, record, adapted.scout, adapted.modes, adapted.path, adapted.draws
    )


class Adapted(NamedTuple):
    """Where adaptation led; gradients of the moves, and of looking for modes."""

    state: RunState
    visits: np.ndarray
    setup: Setup
    scout: Scout
    modes: Modes
    moved: int
    looked: int
    path: Path | None
    draws: Draw | None


def _adapt(bench: Bench, state: RunState, setup: Setup, scout: Scout, modes: Modes, save: bool) -> Adapted:
    """Learn theta and step sizes, average theta over the second half, look for new modes after each half."""
    plan, regions = bench.plan, setup.tilt.num_regions
    total = plan.stages["adapt"]
    schedule = Schedule(
        learn_theta=regions > 1,
        on_evidence=plan.gain is None and plan.theta == "shared",
        learn_step=plan.kernel.tunes_step_size,
        average_from=total // 2 if plan.adapt == "tune" else NEVER,
        top=regions - 1,
    )
    visits: Any = 0
    moved = looked = 0
    paths, kept = [], []
    for moves in (total // 2, total - total // 2):
        thin = min(max(THIN, memory_thin(state.sahmc.chains.position, moves)), max(1, moves))
        stages = [(moves // thin, thin, plan.scouts or save), (moves % thin, 1, False)]
        for draws, thin, keep in stages:
            outcome = bench.runner.stage(
                "adapt", state, setup, schedule._replace(thin=thin), draws, keep=keep, trace=True
            )
            paths.append(outcome.path)
            state, visits, moved = outcome.state, visits + outcome.visits, moved + outcome.tally.gradients
            if outcome.interrupted:
                raise KeyboardInterrupt
            if outcome.draws is not None and save:
                kept.append(outcome.draws)
            if outcome.draws is not None and plan.scouts:
                by_chain = np.swapaxes(outcome.draws.position, 0, 1)
                scout = scout.with_draws(posterior_draws(by_chain, outcome.draws.log_weight.T))
                modes, spent = scout.look(lowest_draws(by_chain, total_energy(outcome.draws).T), modes)
                looked += spent
                if isinstance(setup.kernel, Jump):
                    setup = replace(setup, kernel=Jump(setup.kernel.kernel, modes))
    drawn = jax.tree.map(lambda *parts: np.concatenate(parts), *kept) if kept else None
    return Adapted(state, visits, setup, scout, modes, moved, looked, Path.join(*paths), drawn)


def _put_back(state: RunState, home: RunState, lost: np.ndarray) -> RunState:
    """Chains that did not come down again are put back where they were before the search."""
    chosen = jnp.asarray(lost)

    def pick(new: Any, old: Any) -> Any:
        return jnp.where(chosen.reshape(-1, *(1,) * (new.ndim - 1)), old, new)

    chains = jax.tree.map(pick, state.sahmc.chains, home.sahmc.chains)
    return state._replace(sahmc=state.sahmc._replace(chains=chains))


def _build_tilt(
    plan: Plan, pilot: Pilot | None, search: Search | None, many: bool
) -> tuple[Tilt, Curve | None, float | None]:
    """The tilt, with a partition made from what was learnt if it was not given; and the top temperature."""
    if search is None:
        tilt = plan.tilt
        assert isinstance(tilt, Tilt)
        top = temperature(float(tilt.partition.betas[-1])) if isinstance(tilt, TemperedTilt) else None
        return tilt, None, top
    assert pilot is not None
    curve = fit_curve(search, pilot.prior_share, pilot.u_min, pilot.dim)
    top = find_top(search, plan.chains, many, plan.has_prior)
    if not many and not plan.has_prior:
        top = min(top, curve.hottest_within(LOOK_OUT))
    kind = plan.tilt
    if kind is TemperedTilt:
        betas = curve.levels(0.0 if math.isinf(top) else 1 / top, SPACING, 4)
        return TemperedTilt(TemperatureLadder(betas, pilot.u_min, pilot.prior_share)), curve, top
    highest = pilot.highest(top)
    if kind is LinearTilt:
        nodes = np.geomspace(
            pilot.flat_below, max(highest, 2 * pilot.flat_below), ladder_size(pilot.dim, math.log(top))
        )
        return LinearTilt(EnergyPartition(pilot.u_min + nodes)), curve, top
    count = max(2, math.ceil((highest - pilot.flat_below) / WIDTH) + 1)
    return StepTilt(EnergyPartition(pilot.u_min + pilot.flat_below + WIDTH * np.arange(count))), curve, top


def find_top(search: Search, chains: int, many: bool, has_prior: bool) -> float:
    """The temperature of the top: the prior, or well above where chains forget which mode they were in."""
    if has_prior:
        return math.inf
    wanted = T_LEAST
    if chains < FEW or (many and search.slow and math.isinf(search.melting)):
        wanted = T_BLIND
    elif many:
        wanted = max(T_LEAST, ABOVE_MELTING * search.melting)
    return min(wanted, search.hottest)


def _stay_at_home(state: RunState, setup: Setup) -> tuple[RunState, Setup]:
    """Desired frequencies with AT_HOME at beta = 1, for drawing: theta, which holds -log(desired), moves with them."""
    regions = setup.tilt.num_regions
    values = [AT_HOME] + [(1 - AT_HOME) / (regions - 1)] * (regions - 1)
    desired = desired_frequencies(values, regions).astype(setup.desired.dtype)
    theta = state.sahmc.theta
    theta = theta._replace(theta=theta.theta - jnp.log(desired / setup.desired))
    return state._replace(sahmc=state.sahmc._replace(theta=theta)), replace(setup, desired=desired)


def starting_theta(tilt: Tilt, pilot: Pilot | None, curve: Curve | None, desired: Any) -> np.ndarray:
    """theta_0: zero (the paper) without a pilot, else from what was measured on the way down or, where nothing was,
    from equipartition, so that only the rest is learnt.
    """
    if pilot is None or not isinstance(tilt, (TemperedTilt, LinearTilt, StepTilt)):
        return np.zeros(tilt.num_regions)
    half, steep = 0.5 * pilot.dim, 1.0 + pilot.prior_share
    if isinstance(tilt, TemperedTilt):
        betas, reference = np.asarray(tilt.partition.betas, float), float(jnp.asarray(tilt.partition.reference))
        theta = pilot.log_z(betas) + betas * reference if curve is None else curve.at(betas)[0]
    elif isinstance(tilt, LinearTilt):
        s = pilot.above(np.asarray(tilt.partition.edges, float))
        theta = half * np.log(s) - steep * s
    else:
        edges = np.asarray(tilt.partition.edges, float)
        s = pilot.above(edges)
        middle = 0.5 * (s[1:] + s[:-1])
        inner = (
            half * np.log(steep) + (half - 1) * np.log(middle) - steep * middle - gammaln(half) + np.log(np.diff(edges))
        )
        below = np.log(gammainc(half, steep * s[0]))
        above = half * np.log(steep) + (half - 1) * np.log(s[-1]) - steep * s[-1] - gammaln(half)
        theta = np.concatenate([[below], inner, [above]])
    theta = theta - np.log(np.asarray(desired, float))
    return theta - theta[0]


def level_steps(tilt: Tilt, kernel: Kernel, pilot: Pilot | None, curve: Curve | None) -> np.ndarray:
    """First step sizes of the levels, as multiples of the kernel's: from what was measured, or the tilt's own."""
    scale = np.asarray(tilt.step_scale, float)
    if pilot is None or not kernel.tunes_step_size:
        return scale
    if curve is not None and isinstance(tilt, TemperedTilt):
        return curve.at(np.asarray(tilt.partition.betas, float))[1]
    if pilot.step_size_prior is not None and len(scale) > 1:
        ratio = math.log(pilot.step_size_prior / pilot.step_size)
        scale = np.exp(ratio * np.log(scale) / np.log(scale[-1]))
    return pilot.step_size * scale


def _begin(state: RunState, setup: Setup, own: str, theta: np.ndarray, steps: np.ndarray) -> RunState:
    """The chains as they are, theta and the step sizes at their first values."""
    dtype, chains = setup.desired.dtype, len(state.sahmc.chains.energy)
    theta = theta if own == "shared" else np.tile(theta, (chains, 1))
    return state._replace(
        sahmc=state.sahmc._replace(theta=init_theta(jnp.asarray(theta, dtype))),
        steps=init_step_size(jnp.asarray(steps, dtype), eager=False),
    )


def _freeze(state: RunState, visits: np.ndarray, chains: int, adapt: str) -> RunState:
    """The state to draw from: averaged theta unless it goes on learning, averaged step sizes, counters at zero."""
    theta = state.sahmc.theta
    if adapt == "tune":
        best = theta.average if int(theta.num_averaged) else theta.theta
        theta = theta._replace(theta=jnp.asarray(freeze_theta(np.asarray(best), visits), theta.theta.dtype))
    return state._replace(
        sahmc=state.sahmc._replace(theta=theta),
        steps=state.steps._replace(log_step=state.steps.log_average),
        trips=init_round_trips(chains),
    )
