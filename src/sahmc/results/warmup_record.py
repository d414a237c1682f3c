"""The findings and choices of the warm-up, as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sahmc._support.frozen import Frozen
from sahmc._support.words import counted

FEWEST_CHAINS = 8
"""The number of chains below which it cannot be seen whether they forget their mode."""
MASS_ERROR = 0.1
"""The largest error of the log mass of a prior, where it is not known to be 1, with which the evidence is known."""
FORGOTTEN = 0.8
"""The correlation of the chains' mean positions from one rung to the next below which they forget where they were."""

SEARCH_PLACES = ("inside", "near", "far")
"""The places where it is known what the search would have found: inside the known modes, up to ten widths beyond the
rim of one, and 10 to 100 widths."""
FAR_APART = 30.0
"""The widths between the rims of known modes from which on others may be far away."""


def temperature(beta: float) -> float:
    """Return the temperature 1 / beta; inf is the prior."""
    return 1.0 / beta if beta > 0 else math.inf


@dataclass(frozen=True)
class Pilot:
    """The findings of the pilot run, plain moves from the starting points, as the picture of a Gaussian well.

    At inverse temperature beta the energy of the well is u_min + (d/2)/(beta + r) in the mean (equipartition), where d
    is ``dim`` and r is ``prior_share``.
    """

    dim: float
    """The dimension of the position or, where the variance of U is nothing like a Gaussian's, twice that variance."""
    mean_energy: float
    """The mean energy at beta = 1."""
    u_min: float
    """The energy at the bottom of the well."""
    prior_share: float
    """r, the curvature of the prior over that of the likelihood; 0 without a prior."""
    step_size: float
    """The step size at beta = 1."""
    step_size_prior: float | None = None
    """The step size at beta = 0, where there is a prior."""
    quarter: float = 1.0
    """A quarter of the slowest period within a mode, in steps."""
    stranded: int = 0
    """The number of chains that could not come down from where they started, and were put where others are."""

    def log_z(self, betas: np.ndarray) -> np.ndarray:
        """Return log Z at inverse temperatures, up to a constant: the integral of minus the mean energy."""
        return -betas * self.u_min - 0.5 * self.dim * np.log(betas + self.prior_share)

    def above(self, energy: np.ndarray) -> np.ndarray:
        """Return energies above the bottom of the well, at least ``flat_below``."""
        return np.maximum(energy - self.u_min, self.flat_below)

    @property
    def flat_below(self) -> float:
        """The height above the bottom below which flattening only wastes draws: that of the typical set."""
        half = 0.5 * self.dim
        return max(half - math.sqrt(half), half / 4)

    def reach(self, t_max: float) -> float:
        """Return the temperature at which the well alone, without a prior, would be as wide as it is at ``t_max``."""
        return min(t_max, (1 + self.prior_share) / max(self.prior_share, 1e-12))

    def highest(self, t_max: float) -> float:
        """Return the mean energy above the bottom of the well at the temperature ``t_max``, which may be inf."""
        return 0.5 * self.dim * self.reach(t_max)


@dataclass(frozen=True)
class Rung:
    """The behaviour of the chains at one inverse temperature, lengths in units of their spread at beta = 1."""

    beta: float
    """The inverse temperature."""
    mean_energy: float
    """The mean of the energy."""
    var_energy: float
    """The variance of the energy."""
    step_size: float
    """The step size that was found."""
    wander: float
    """The variance within a chain, median over chains, of the coordinate where it is largest."""
    memory: float
    """The largest correlation, over coordinates, of the chains' mean positions with those of the rung before; nan for
    the first."""
    inside: float = 1.0
    """The share of the draws at which the likelihood is not zero, which alone tell of energies."""


@dataclass(frozen=True)
class Climb:
    """The record of a climb to a high temperature, and of the way down again."""

    up: tuple[Rung, ...]
    """The rungs from beta = 1 upwards; empty where a prior is the top."""
    down: tuple[Rung, ...]
    """The rungs from the hottest down to beta = 1, the last one long."""
    ran_away: bool
    """Whether the climb ended because chains ran away: tails too heavy for more heat."""
    slow: bool
    """Whether chains that start together do not even forget where they were in one mode."""

    @property
    def hottest(self) -> float:
        """The highest temperature reached; inf is the prior."""
        return temperature(self.down[0].beta)

    @property
    def melting(self) -> float:
        """The temperature of the coolest rung at and above which chains forget where they were; inf if none."""
        melted = math.inf
        for rung in self.down:
            if rung.memory > FORGOTTEN:
                break
            melted = temperature(rung.beta)
        return melted

    def __str__(self) -> str:
        if not self.up:
            return "came down from the prior"
        end = "where chains ran away" if self.ran_away else "and back"
        forgot = f"T = {self.melting:.3g} and above" if math.isfinite(self.melting) else "no temperature"
        return f"climbed to T = {self.hottest:.3g} {end}; chains forget their mode at {forgot}"


@dataclass(frozen=True)
class LearntReference:
    """The record of the reference in which the ladder ends, a mixture of Gaussians, and of the way down from it.

    Where tails are heavy some parts are Student's t with two degrees of freedom.
    """

    parts: int
    """The number of parts."""
    broad: bool
    """Whether it is one Gaussian over all modes, because there are more modes than can be known."""
    overlap: float
    """The chance that a draw of it would be accepted in place of one of the posterior, as far as the warm-up saw."""
    down: tuple[Rung, ...]
    """The rungs from the reference, beta = 0, down to beta = 1. Energies are -log density + log q."""
    shifts: int = 0
    """The number of displacements that lead from mode to mode, by which chains jump where ``broad``."""
    heavy: int = 0
    """The number of parts with heavy tails."""
    ran_away: bool = False
    """Whether chains ran away from heat, because the tails of the posterior are heavy."""

    def __str__(self) -> str:
        shape = "one Gaussian" if self.parts == 1 else f"{self.parts} Gaussians around the modes"
        if self.heavy:
            shape = f"{self.parts} parts around the modes, {self.heavy} of them with heavy tails"
            shape = "one Student's t with two degrees of freedom" if self.parts == 1 else shape
        shape += f", over all modes, between which {self.shifts} displacements lead" if self.shifts else ""
        shape += ", over all modes" if self.broad and not self.shifts else ""
        return f"{shape}; {self.overlap:.0%} of its draws would do for draws of the posterior"


@dataclass(frozen=True)
class SearchPower:
    """What the search for modes would have found: the share of needles, put at random places, that it would have seen.

    A needle is a Gaussian of the shape of the nearest mode.
    """

    widths: tuple[float, ...]
    """The widths of the needles, in units of the nearest mode's."""
    log_odds: tuple[float, ...]
    """The logs of the odds of their mass."""
    found: tuple[tuple[tuple[float, ...], ...], ...]
    """The share of needles that would have been found, for each of SEARCH_PLACES, each width and each of the odds; nan
    where hardly any would be a mode of its own."""
    probes: int
    """The number of points that were looked at."""
    dim: int
    """The dimension of the position."""
    narrowest: float = 1.0
    """The width of the narrowest mode that is known, in units of the widest."""
    furthest: float = 0.0
    """The distance of the mode that is furthest from its neighbours, in its own widths; 0 if only one is known."""

    def __post_init__(self) -> None:
        if len(self.found) != len(SEARCH_PLACES) or not isinstance(self.found[0][0], tuple):
            raise TypeError("found must hold a table for each of SEARCH_PLACES")  # a record of an earlier version

    def at(self, mass: float, width: float, place: str | None = None) -> float:
        """Return the share for a needle of this mass and width, interpolated.

        ``place`` is one of SEARCH_PLACES; None for the least over all places where one of the known modes could be.
        Needles narrower than all that were tried count as missed. For wider ones it is nan, since they were not tried.
        """
        if place is None:
            found = [self.at(mass, width, place) for place in self.relevant]
            return float(np.nanmin(found)) if np.isfinite(found).any() else math.nan
        odds = math.log(mass / (1 - mass))
        rows = self.found[SEARCH_PLACES.index(place)]
        by_width = [float(np.interp(odds, self.log_odds, row)) for row in rows]
        return float(np.interp(math.log(width), np.log(self.widths), by_width, left=0.0, right=math.nan))

    @property
    def relevant(self) -> tuple[str, ...]:
        """The places where one of the known modes could be: those far away count if modes are as far apart."""
        return SEARCH_PLACES if self.furthest > FAR_APART + math.sqrt(self.dim) else SEARCH_PLACES[:2]


@dataclass(frozen=True, repr=False)
class WarmupRecord(Frozen):
    """The findings and choices of the warm-up; print it."""

    pilot: Pilot | None
    """The findings of the pilot run; None where it had nothing to find."""
    climb: Climb | None
    """The record of the climb; None where the partition was given."""
    reference: LearntReference | None
    """The reference in which the ladder ends; None where that is a prior, or heat."""
    top: float | None
    """The highest temperature of the ladder: inf is the prior or the reference; None where there is no ladder."""
    barrier: float | None
    """The barrier Lambda between posterior and top: about how often a ladder of many levels turns a chain back on its
    way. None where it was not measured."""
    lost: int
    """The number of chains that did not come down from the climb, and were put back where they were before it."""
    num_modes: int
    """The number of modes that are known; 1 if none were looked for or no other was found."""
    still_new: bool
    """Whether the search for modes ended, for want of budget, while it still brought new ones."""
    power: SearchPower | None
    """What the search for modes would have found; None where it did not look."""
    kernel: Mapping[str, Any]
    """The kernel that was tuned: its name, metric, and how many moves of how many steps make an iteration."""
    tilt: str
    """The name of the tilt."""
    theta_0: np.ndarray
    """theta at the beginning of the adaptation."""
    theta: np.ndarray
    """theta at its end."""
    visit_clock: float
    """The visits to the region seen least, over those desired of it: 1 if all were seen as often as desired."""
    gradients: Mapping[str, int]
    """The gradients spent on each stage, by its name."""
    late: int = 0
    """The number of modes that only the draws of a first run had shown, for which all was run again."""
    untravelled: bool = False
    """Whether the ladder kept chains away from the posterior, so that draws were made at beta = 1 alone."""

    def __repr__(self) -> str:
        lines = [f"<sahmc warm-up, {sum(self.gradients.values()):,} gradients"]
        if self.pilot is not None:
            lines.append(
                f"pilot       step size {self.pilot.step_size:.3g}, lowest energy about {self.pilot.u_min:.4g}, "
                f"which spreads as in {self.pilot.dim:.3g} dimensions"
            )
        if self.climb is not None:
            lines.append(f"climb       {self.climb}")
            lines.append(f"modes       {self.num_modes} known")
        if self.reference is not None:
            lines.append(f"reference   {self.reference}")
        regions = self.theta.shape[-1]
        if self.top is not None:
            top = "the prior" if math.isinf(self.top) else f"T = {self.top:.3g}"
            top = top if self.reference is None else "the reference"
            barrier = "" if self.barrier is None else f"; barrier {self.barrier:.2g}"
            lines.append(f"ladder      {regions} {self.tilt} levels, up to {top}{barrier}")
        if regions > 1:
            moved = np.abs(np.subtract(self.theta, self.theta[..., :1]) - self.theta_0)
            lines.append(
                f"adaptation  theta moved by at most {moved.max():.2g}; the level seen least was seen "
                f"{self.visit_clock:.0%} as often as desired"
            )
        lines += [f"note        {note}" for note in self.notes]
        return "\n  ".join(lines) + ">"

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes on what went wrong on the way and was dealt with, which is no fault of the posterior's draws."""
        found = []
        if self.late:
            found.append(f"draws showed {counted(self.late, 'more mode')}: all was run again, knowing them")
        if self.pilot is not None and self.pilot.stranded:
            what = counted(self.pilot.stranded, "chain")
            found.append(f"{what} could not come down from the start: put where others are")
        if self.lost:
            found.append(f"{counted(self.lost, 'chain')} did not come back from high temperatures: put where they were")
        if self.untravelled:
            found.append("chains did not come back from the ladder: draws were made at beta = 1 alone")
        if self.climb is not None and self.climb.ran_away:
            found.append(f"chains run away above T = {self.climb.hottest:.2g}, for heavy tails: the ladder ends there")
        return tuple(found)
