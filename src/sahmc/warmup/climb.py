"""The climb to high temperatures and back, which shows how hot the top must be and what the ladder looks like.

Chains that all start in one mode agree with each other, however wrong they are. So they are heated until they forget
where they were, then cooled, which spreads them over the modes. Below some temperature a cooling chain stays in its
mode; the top of the ladder must lie above it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sahmc._support.thinning import some_chains
from sahmc.engine.move import Draw, RunState
from sahmc.hamiltonian.spread import LadderSpread
from sahmc.kernels.base import Kernel
from sahmc.results.warmup_record import FORGOTTEN, Climb, Pilot, Rung
from sahmc.warmup.tempered import WarmupContext, bring_inside, run_at_temperature

CLIMB_TO = 1e3
"""The temperature that every climb reaches, unless chains run away."""
CLIMB_LIMIT = 1e6
"""The highest temperature of any climb, even if its chains still remember where they were."""
RUNAWAY_LEAP, RUNAWAY_GROWTH = 10.0, 3.0
"""The signs of chains running away. Their variance over T grows by more than the first factor from one rung to the
next, then by more than the second at the same temperature."""
SCOUTED = (1e4, 1e5, 1e6)
"""The temperatures above CLIMB_TO at which copies of the chains look for modes too far away for the climb."""
FURTHEST = 1e9
"""The distance, in units of the spread, beyond which a point is useless."""
MODEST_TEMPERATURE = 1.5
"""The top temperature of a climb in which chains ran away at once."""
FEWEST_RUNGS, MOST_RUNGS = 4, 18
"""The smallest and the largest number of rungs of a climb."""


class ClimbOutcome(NamedTuple):
    """The outcome of the climb."""

    climb: Climb
    """The record of the climb."""
    state: RunState
    """The chains after cooling."""
    draws: np.ndarray
    """The draws at beta = 1 after cooling, (draw, chain, dim)."""
    hot: np.ndarray
    """The points (point, dim) that some chains reached at all temperatures, including those far above the top."""
    gradients: int
    """The gradients spent."""


class Visit(NamedTuple):
    """A stay at one temperature."""

    rung: Rung
    """The record of the stay."""
    state: RunState
    """The chains at the end of the stay."""
    draws: Draw
    """The draws, arrays (draw, chain, ...)."""
    centres: np.ndarray
    """The mean position of each chain that is examined, (chain, dim), in units of the spread at beta = 1."""
    gradients: int
    """The gradients spent."""


class Ascent(NamedTuple):
    """The outcome of heating the chains."""

    visits: list[Visit]
    """The stays from beta = 1 upwards, without those at which chains ran away."""
    ran_away: bool
    """Whether chains ran away, because the tails are too heavy for higher temperatures."""
    slow: bool
    """Whether chains mix so slowly that those started together do not forget their places even within one mode."""
    gradients: int
    """The gradients spent."""
    away: tuple[Visit, ...] = ()
    """The stays at which chains ran away, or reached a much wider mode; only a descent can decide between the two."""


@dataclass(frozen=True)
class Climber:
    """The climber, which moves the chains from one temperature to the next."""

    context: WarmupContext
    """The context that all stages of the warm-up share."""
    kernel: Kernel
    """The kernel that moves the chains."""
    pilot: Pilot
    """The findings of the pilot run, including the step size at beta = 1."""
    scale: np.ndarray
    """The spread of each coordinate at beta = 1: the unit of length."""
    spreads: LadderSpread | None = None
    """The variances at both ends of the ladder, if the metric follows them."""

    def visit(self, state: RunState, beta: float, before: Visit | None, moves: int, thin: int = 1) -> Visit:
        """Stay at inverse temperature ``beta`` for ``moves`` moves, and keep every ``thin``-th.

        ``before`` is the previous stay, whose step size is rescaled to this temperature; None for the first stay.
        """
        kernel, step, share = self.kernel, self.pilot.step_size, self.pilot.prior_share
        if self.spreads is not None:
            kernel = kernel.with_variances(self.spreads.at(beta))
            step = self.pilot.step_size_prior or step if before is None else before.rung.step_size
        elif before is not None:
            step = before.rung.step_size * math.sqrt((before.rung.beta + share) / (beta + share))
        made = run_at_temperature(self.context, "climb", state, kernel, beta, step, moves, thin=thin)
        rung, centres = describe_rung(
            beta, made.draws, made.step_size, self.scale, None if before is None else before.centres
        )
        return Visit(rung, made.state, made.draws, centres, made.gradients)


def run_climb(
    context: WarmupContext,
    state: RunState,
    kernel: Kernel,
    pilot: Pilot,
    scale: np.ndarray,
    home: np.ndarray,
    moves: int,
    spreads: LadderSpread | None = None,
) -> ClimbOutcome:
    """Heat the chains and cool them again: a third of the ``moves`` up, a third down, a third at beta = 1 again.

    With a prior there is only the descent from it. ``scale`` is the spread of each coordinate at beta = 1, and ``home``
    are draws (draw, dim) made there. ``spreads`` are the variances at both ends, if the metric follows them.
    """
    climber = Climber(context, kernel, pilot, scale, spreads)
    count = int(np.clip(moves / 3 / kernel.rung_moves, FEWEST_RUNGS, MOST_RUNGS))
    ascent = Ascent([], False, False, 0)
    if context.plan.has_prior:
        share = pilot.prior_share
        betas = list(np.geomspace(share, 1 + share, count + 1) - share)
        betas[0], betas[-1] = 0.0, 1.0
    else:
        ascent = _go_up(climber, state, count, max(2, moves // (3 * count)))
        state = ascent.visits[-1].state
        betas = [visit.rung.beta for visit in reversed(ascent.visits)]

    scouts, scouted = _scout(climber, ascent, max(2, moves // (3 * count)))
    down: list[Visit] = []
    before = ascent.visits[-1] if ascent.visits else None
    for beta in betas[:-1]:
        before = climber.visit(state, float(beta), before, max(2, moves // (3 * len(betas))))
        down.append(before)
        state = bring_inside(context, before.state, before.draws, home)
    last = climber.visit(state, 1.0, before, max(4, moves // 3), thin=4)
    down.append(last)
    late = last.draws.position[len(last.draws.position) // 4 :]
    up_rungs, down_rungs = (tuple(visit.rung for visit in way) for way in (ascent.visits, down))
    spent = ascent.gradients + scouted + sum(visit.gradients for visit in down)
    climb = Climb(up_rungs, down_rungs, ascent.ran_away, ascent.slow, count)
    ends = [some_chains(visit.draws.position[-1:])[0] for visit in (*ascent.visits, *ascent.away, *down)]
    hot = np.concatenate([*ends, scouts])
    hot = hot[(np.abs(hot / scale) < FURTHEST).all(axis=1)]
    return ClimbOutcome(climb, last.state, late, hot, spent)


def _scout(climber: Climber, ascent: Ascent, moves: int) -> tuple[np.ndarray, int]:
    """Return positions of copies of the chains after ``moves`` moves at each temperature of SCOUTED, and the gradients.

    The spread of a well grows without limit as the temperature rises, so no temperature proves that nothing lies
    further out. The chains themselves stay where they are. There are no scouts where chains ran away or a prior is the
    top.
    """
    seen, spent = list[np.ndarray](), 0
    if ascent.visits and not ascent.ran_away:
        last = ascent.visits[-1]
        for beta in (1 / hot for hot in SCOUTED if 1 / hot < last.rung.beta):
            last = climber.visit(last.state, beta, last, moves)
            spent += last.gradients
            seen.append(some_chains(last.draws.position[-1:])[0])
    return np.concatenate(seen) if seen else np.empty((0, climber.scale.size)), spent


def _go_up(climber: Climber, state: RunState, count: int, moves: int) -> Ascent:
    """Heat the chains in steps by the factor CLIMB_TO^(1/``count``), with ``moves`` moves at each temperature."""
    ratio = CLIMB_TO ** (1 / count)
    last = climber.visit(state, 1.0, None, moves)
    visits, spent = [last], last.gradients
    ran_away = slow = False
    while not ran_away and not _high_enough(last.rung, slow):
        before, last = last, climber.visit(last.state, last.rung.beta / ratio, last, moves)
        spent += last.gradients
        if not last.rung.wander < RUNAWAY_LEAP * ratio * before.rung.wander:
            again = climber.visit(last.state, last.rung.beta, last, moves)
            spent += again.gradients
            ran_away = not again.rung.wander < RUNAWAY_GROWTH * last.rung.wander
            last = again
        visits.append(last)
        slow = slow or (len(visits) == 2 and last.rung.memory > FORGOTTEN)
    away: tuple[Visit, ...] = ()
    if ran_away:
        kept = visits[:-2] or visits[:1]
        visits, away = kept, tuple(visits[len(kept) :])
    if len(visits) == 1:
        visits.append(climber.visit(visits[0].state, 1 / MODEST_TEMPERATURE, last, moves))
        spent += visits[-1].gradients
    return Ascent(visits, ran_away, slow, spent, away)


def _high_enough(rung: Rung, slow: bool) -> bool:
    """Tell whether to stop: at CLIMB_TO, or later if chains still remember where they were and are not slow."""
    hot = 1 / rung.beta
    return hot >= CLIMB_LIMIT or (hot >= CLIMB_TO and (slow or not rung.memory > FORGOTTEN))


def describe_rung(
    beta: float, draws: Draw, step_size: float, scale: np.ndarray, centres_before: np.ndarray | None
) -> tuple[Rung, np.ndarray]:
    """Return the rung that the second half of draws (draw, chain, ...) shows, and the mean position of each chain.

    Where there are many chains, only some are examined. The draws were made with ``beta`` and ``step_size``. Lengths
    are in units of ``scale``. ``centres_before`` are the mean positions at the rung before; None for the first rung.
    """
    late = slice(len(draws.energy) // 2, None)
    position, energy = (some_chains(np.asarray(part[late])).astype(float) for part in (draws.position, draws.energy))
    position /= scale
    inside = np.isfinite(energy)
    within = inside.any(axis=0)  # the likelihood was zero at every draw of other chains
    by_chain = np.where(within, np.where(inside, energy, 0.0).sum(axis=0) / np.maximum(1, inside.sum(axis=0)), np.inf)
    centres = position.mean(axis=0)
    usual = np.flatnonzero(within)[_no_outliers(by_chain[within])]
    energy = energy[:, usual][inside[:, usual]] if usual.size else np.zeros(1)
    wander = float(np.median(position.var(axis=0), axis=0).max())
    memory = math.nan if centres_before is None else _largest_correlation(centres, centres_before)
    rung = Rung(beta, float(energy.mean()), float(energy.var()), step_size, wander, memory, float(inside.mean()))
    return rung, centres


def _no_outliers(values: np.ndarray) -> np.ndarray:
    """Return a mask of the values that are no outliers: a few lost chains must not determine the ladder."""
    off = np.abs(values - np.median(values))
    return off <= 10 * np.median(off) + 1e-6 * np.abs(values)


def _largest_correlation(one: np.ndarray, two: np.ndarray) -> float:
    """Return the largest correlation over chains of any coordinate of two arrays (chain, coordinate)."""
    one, two = one - one.mean(axis=0), two - two.mean(axis=0)
    norm = np.sqrt((one**2).sum(axis=0) * (two**2).sum(axis=0))
    return float(np.max((one * two).sum(axis=0) / np.where(norm > 0, norm, np.inf)))
