"""Climb and come down: how hot the top must be, what the ladder looks like, and chains spread over the modes.

All chains may start in one mode, and then they agree with each other however wrong they are. So heat them until they
forget where they were, and cool them again. On the way down there is a temperature below which a chain keeps to
the mode it is in: the top of the ladder must lie above it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sahmc.kernels.base import Kernel
from sahmc.run.loop import Draw, RunState
from sahmc.warmup.pilot import Pilot
from sahmc.warmup.tempered import Bench, Stretch

CLIMB_TO = 1e3
"""The temperature to which every search goes."""
LIMIT = 1e6
"""And beyond which none goes, though its chains still remember where they were."""
FORGOTTEN = 0.8
"""Chains have melted where their mean positions correlate less than this from one rung to the next."""
LEAP, GROWTH = 10.0, 3.0
"""A chain runs away if its variance over T leaps by the first factor from one rung to the next, and then, at the same
temperature, goes on to grow by the second."""
T_MODEST = 1.5
"""The top where chains ran away at once."""
MOST_SPREAD = 5.0
"""Largest credible sd(beta U) over that of a Gaussian well; more is lack of equilibrium."""
SIZES = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
"""Of ladders. Few, so that runs that differ little share compiled code; one more level costs next to nothing."""


@dataclass(frozen=True)
class Rung:
    """What chains did at one inverse temperature. Positions are in units of their spread at beta = 1."""

    beta: float
    mean_energy: float
    var_energy: float
    energies: np.ndarray
    """Mean energy of each chain."""
    step_size: float
    centres: np.ndarray
    """Mean position of each chain, (chains, dim)."""
    wander: float
    """Variance within a chain, median over chains, of the coordinate where it is largest."""
    memory: float
    """Largest correlation, over coordinates, of ``centres`` with those of the rung before; nan for the first."""


def temperature(beta: float) -> float:
    """1 / beta; inf is the prior."""
    return 1.0 / beta if beta > 0 else math.inf


class Search(NamedTuple):
    """What the search has shown."""

    up: list[Rung]
    """From beta = 1; empty where a prior is the top."""
    down: list[Rung]
    """From the hottest to beta = 1, the last one long."""
    ran_away: bool
    """Whether the climb ended because chains ran away: tails too heavy for more heat."""
    slow: bool
    """Whether chains that start together do not even forget where they were in one mode."""
    draws: np.ndarray
    """At beta = 1, after cooling: (draw, chain, dim)."""
    gradients: int

    @property
    def hottest(self) -> float:
        return temperature(self.down[0].beta)

    def __str__(self) -> str:
        if not self.up:
            return "came down from the prior"
        end = "where chains ran away" if self.ran_away else "and back"
        forgot = f"T = {self.melting:.3g} and above" if math.isfinite(self.melting) else "no temperature"
        return f"climbed to T = {self.hottest:.3g} {end}; chains forget their mode at {forgot}"

    @property
    def melting(self) -> float:
        """T of the coolest rung at and above which chains forget where they were; inf if they never do."""
        melted = math.inf
        for rung in self.down:
            if rung.memory > FORGOTTEN:
                break
            melted = temperature(rung.beta)
        return melted


def run_search(
    bench: Bench, state: RunState, kernel: Kernel, pilot: Pilot, scale: np.ndarray
) -> tuple[Search, RunState]:
    """A third of the moves to climb, a third to come down, a third at beta = 1 again. From a prior only down."""
    moves = bench.plan.search_moves
    spent = 0

    def visit(state: RunState, beta: float, before: Rung | None, moves: int, thin: int = 1) -> tuple[Rung, Stretch]:
        nonlocal spent
        step = pilot.step_size
        if before is not None:
            step = before.step_size * math.sqrt((before.beta + pilot.prior_share) / (beta + pilot.prior_share))
        stretch = bench.plain("search", state, kernel, beta, step, moves, thin=thin)
        spent += stretch.gradients
        return look(beta, stretch, scale, before), stretch

    up: list[Rung] = []
    ran_away = slow = False
    count = int(np.clip(moves / 3 / kernel.rung_moves, 4, 18))
    if bench.plan.has_prior:
        share = pilot.prior_share
        betas = list(np.geomspace(share, 1 + share, count + 1) - share)
        betas[0], betas[-1] = 0.0, 1.0
    else:
        each = max(2, moves // (3 * count))
        ratio = CLIMB_TO ** (1 / count)
        rung, stretch = visit(state, 1.0, None, each)
        up, states = [rung], [stretch.state]
        slow = False
        while not ran_away and not _high_enough(up, slow):
            rung, stretch = visit(states[-1], rung.beta / ratio, rung, each)
            if not rung.wander < LEAP * ratio * up[-1].wander:
                again, stretch = visit(stretch.state, rung.beta, rung, each)
                ran_away = not again.wander < GROWTH * rung.wander
                rung = again
            up.append(rung)
            states.append(stretch.state)
            slow = slow or (len(up) == 2 and rung.memory > FORGOTTEN)
        if ran_away:
            up = up[:-2] or up[:1]
        state = states[len(up) - 1]
        if len(up) == 1:
            rung, stretch = visit(state, 1 / T_MODEST, rung, each)
            up, state = [*up, rung], stretch.state
        betas = [rung.beta for rung in reversed(up)]

    down: list[Rung] = []
    before = up[-1] if up else None
    for beta in betas[:-1]:
        before, stretch = visit(state, float(beta), before, max(2, moves // (3 * len(betas))))
        down.append(before)
        state = stretch.state
    last, stretch = visit(state, 1.0, before, max(4, moves // 3), thin=4)
    late = stretch.draws.position[len(stretch.draws.position) // 4 :]
    return Search(up, [*down, last], ran_away, slow, late, spent), stretch.state


def _high_enough(up: list[Rung], slow: bool) -> bool:
    """At CLIMB_TO, or later when chains there still remember where they were though they are not slow."""
    hot = 1 / up[-1].beta
    return hot >= LIMIT or (hot >= CLIMB_TO and (slow or not up[-1].memory > FORGOTTEN))


def look(beta: float, stretch: Stretch, scale: np.ndarray, before: Rung | None) -> Rung:
    """Sum up the second half of a rung's draws (draw, chain, ...)."""
    draws: Draw = stretch.draws
    late = slice(len(draws.energy) // 2, None)
    position, energy = draws.position[late].astype(float) / scale, draws.energy[late].astype(float)
    by_chain, centres = energy.mean(axis=0), position.mean(axis=0)
    energy = energy[:, _usual(by_chain)]
    wander = float(np.median(position.var(axis=0), axis=0).max())
    memory = math.nan if before is None else _largest_correlation(centres, before.centres)
    return Rung(beta, float(energy.mean()), float(energy.var()), by_chain, stretch.step_size, centres, wander, memory)


def _usual(values: np.ndarray) -> np.ndarray:
    """Which values are no outliers: a few chains that lost their way must not decide on the ladder."""
    off = np.abs(values - np.median(values))
    return off <= 10 * np.median(off) + 1e-6 * np.abs(values)


def _largest_correlation(one: np.ndarray, two: np.ndarray) -> float:
    one, two = one - one.mean(axis=0), two - two.mean(axis=0)
    norm = np.sqrt((one**2).sum(axis=0) * (two**2).sum(axis=0))
    return float(np.max((one * two).sum(axis=0) / np.where(norm > 0, norm, np.inf)))


@dataclass(frozen=True)
class Curve:
    """log Z, the distance between levels and the step size along the ladder, from what rungs have shown.

    ``grid`` is s = log(beta + r), falling, where r is the prior's share (0 without a prior).
    """

    grid: np.ndarray
    share: float
    log_z: np.ndarray
    """log of the integral of exp(-beta (U - reference)), less that at beta = 1."""
    length: np.ndarray
    """Integral of sd(U) d beta from beta = 1: levels overlap equally where it is cut into equal pieces."""
    log_step: np.ndarray

    def levels(self, beta_top: float, spacing: float, least: int) -> np.ndarray:
        """Inverse temperatures from 1 to ``beta_top``, at most about ``spacing`` apart in ``length``."""
        end = float(np.interp(-math.log(beta_top + self.share), -self.grid, self.length))
        wanted = max(least, math.ceil(end / spacing) + 1)
        count = next((size for size in SIZES if size >= wanted), SIZES[-1])
        betas = np.exp(-np.interp(np.linspace(0, end, count), self.length, -self.grid)) - self.share
        betas[0], betas[-1] = 1.0, beta_top
        return betas

    def hottest_within(self, length: float) -> float:
        """The temperature at this ``length`` from beta = 1."""
        return 1 / max(math.exp(-np.interp(length, self.length, -self.grid)) - self.share, 1e-300)

    def at(self, betas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log Z and step size at these inverse temperatures."""
        s = -np.log(np.asarray(betas, float) + self.share)
        return np.interp(s, -self.grid, self.log_z), np.exp(np.interp(s, -self.grid, self.log_step))


def fit_curve(search: Search, share: float, reference: float, dim: float) -> Curve:
    """Thermodynamic integration in s, where a Gaussian well has constant integrands.

    Slow chains lag behind the temperature, below on the way up and above on the way down: the two are averaged. Lag
    adds to the spread of energies, so the smaller is taken.
    """
    down = search.down[::-1]
    both = [down, search.up or down]
    beta = np.array([r.beta for r in down])
    grid = np.log(beta + share)
    mean = (np.mean([[r.mean_energy for r in rungs] for rungs in both], axis=0) - reference) * (beta + share)
    spread = np.sqrt(np.min([[r.var_energy for r in rungs] for rungs in both], axis=0)) * (beta + share)
    most = MOST_SPREAD * math.sqrt(0.5 * dim)
    spread = np.clip(spread, max(0.1 * min(most, np.max(spread)), 0.01 * most), most)

    def integral(f: np.ndarray) -> np.ndarray:
        return np.concatenate([[0.0], np.cumsum(0.5 * (f[1:] + f[:-1]) * -np.diff(grid))])

    return Curve(grid, share, integral(mean), integral(spread), np.log([r.step_size for r in down]))
