"""The findings and choices of the warm-up, as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sahmc._support.frozen import Frozen
from sahmc._support.words import counted

FEWEST_CHAINS = 8
"""The minimum number of chains to judge whether chains forget their mode."""
MASS_ERROR = 0.1
"""The maximum standard error of the log mass of an unnormalised prior; above it the evidence is unknown."""
FORGOTTEN = 0.8
"""The maximum correlation of mean positions of chains between rungs at which they count as having forgotten."""
LEAST_RUNGS = 10
"""The minimum number of temperatures of a climb that shows anything."""
SEARCH_PLACES = ("inside", "near", "far")
"""The places for which the power of the search is known.

They are inside the known modes, up to ten widths beyond the rim of one, and 10 to 100 widths beyond it."""
FAR_APART = 10.0
"""The minimum distance between the rims of known modes, in widths, at which unknown modes may be far away too."""


def temperature(beta: float) -> float:
    """Return the temperature 1 / beta; inf is the prior."""
    return 1.0 / beta if beta > 0 else math.inf


@dataclass(frozen=True)
class Pilot:
    """The findings of the pilot run, plain moves from the starting points, as a Gaussian model of the well.

    At inverse temperature beta the mean energy of the well is u_min + (d/2)/(beta + r) by equipartition, where d is
    ``dim`` and r is ``prior_share``.
    """

    dim: float
    """The dimension of the position; if the variance of U is far from a Gaussian's, twice that variance."""
    mean_energy: float
    """The mean energy at beta = 1."""
    u_min: float
    """The energy at the bottom of the well."""
    prior_share: float
    """The ratio r of the curvature of the prior to that of the likelihood; 0 without a prior."""
    step_size: float
    """The step size at beta = 1."""
    step_size_prior: float | None = None
    """The step size at beta = 0, if there is a prior."""
    quarter: float = 1.0
    """A quarter of the slowest period within a mode, in steps."""
    stranded: int = 0
    """The number of chains that could not descend from their start, and were moved to the positions of others."""

    def log_z(self, betas: np.ndarray) -> np.ndarray:
        """Return log Z at inverse temperatures, up to a constant: the integral of minus the mean energy."""
        return -betas * self.u_min - 0.5 * self.dim * np.log(betas + self.prior_share)

    def above(self, energy: np.ndarray) -> np.ndarray:
        """Return energies above the bottom of the well, but at least ``flat_below``."""
        return np.maximum(energy - self.u_min, self.flat_below)

    @property
    def flat_below(self) -> float:
        """The height of the typical set above the bottom; flattening below it only wastes draws."""
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
    """The behaviour of the chains at one inverse temperature; lengths are in units of their spread at beta = 1."""

    beta: float
    """The inverse temperature."""
    mean_energy: float
    """The mean of the energy."""
    var_energy: float
    """The variance of the energy."""
    step_size: float
    """The tuned step size."""
    wander: float
    """The variance within a chain: median over chains, then maximum over coordinates."""
    memory: float
    """The correlation of chain means with those of the previous rung, maximum over coordinates; nan at the first."""
    inside: float = 1.0
    """The share of the draws with non-zero likelihood; only these count in the statistics of energies."""


@dataclass(frozen=True)
class Climb:
    """The record of a climb to a high temperature and of the descent."""

    up: tuple[Rung, ...]
    """The rungs from beta = 1 upwards; empty if the top is a prior."""
    down: tuple[Rung, ...]
    """The rungs from the hottest down to beta = 1; the last one is long."""
    ran_away: bool
    """Whether the climb ended because chains ran away: the tails are too heavy for a higher temperature."""
    slow: bool
    """Whether chains that start together do not forget their positions even within one mode."""
    planned: int | None = None
    """The number of temperatures for which there was a budget; None in files of older versions."""

    @property
    def too_short(self) -> bool:
        """Whether the budget was too small for the climb to show anything, heavy tails included."""
        few = len(self.down) < LEAST_RUNGS
        return few and (not self.ran_away or (self.planned is not None and self.planned < LEAST_RUNGS))

    @property
    def hottest(self) -> float:
        """The highest temperature reached; inf is the prior."""
        return temperature(self.down[0].beta)

    @property
    def melting(self) -> float:
        """The lowest temperature at and above which chains forget their positions; inf if there is none."""
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
    """The record of the reference q at the end of the ladder, a mixture of Gaussians, and of the descent from it.

    If tails are heavy, some components are Student's t with two degrees of freedom.
    """

    parts: int
    """The number of components."""
    broad: bool
    """Whether it is one Gaussian over all modes, because there are too many modes to list."""
    overlap: float
    """The probability that a draw from it would be accepted as a posterior draw, estimated in the warm-up."""
    down: tuple[Rung, ...]
    """The rungs from the reference, beta = 0, down to beta = 1. Energies are -log density + log q."""
    shifts: int = 0
    """The number of displacements between modes, by which chains jump if the reference is ``broad``."""
    heavy: int = 0
    """The number of components with heavy tails."""
    ran_away: bool = False
    """Whether chains ran away at high temperature, because the tails of the posterior are heavy."""

    def __str__(self) -> str:
        shape = "one Gaussian" if self.parts == 1 else f"{self.parts} Gaussians around the modes"
        if self.heavy:
            shape = f"{self.parts} parts around the modes, {self.heavy} of them with heavy tails"
            shape = "one Student's t with two degrees of freedom" if self.parts == 1 else shape
        shape += f", over all modes, between which {self.shifts} displacements lead" if self.shifts else ""
        shape += ", over all modes" if self.broad and not self.shifts else ""
        return f"{shape}; {self.overlap:.0%} of its draws would do for draws of the posterior"


FEWEST_ARRIVALS, FEWEST_DESCENTS = 3, 64
"""The minimum number of descents from elsewhere that must reach a mode. If some modes were reached only once, others
may have been missed. The second number is that of descents from which this can be seen."""
NEEDLE_MASS = 0.25
"""The mass of the needle, a hypothetical narrow mode, in the summary and the finding."""
NEEDLE_WIDTH, LEAST_VOLUME = 0.5, 0.01
"""The width of the needle and its minimum volume, both relative to the nearest mode."""
NARROW_WIDTH, NARROW_VOLUME = 1 / 3, 1e-4
"""The minimum width and volume of the needle where the widths of known modes differ."""


@dataclass(frozen=True)
class SearchPower:
    """The power of the search for modes: the share of needles at random positions that it would have found.

    A needle is a Gaussian with the shape of the nearest mode.
    """

    widths: tuple[float, ...]
    """The widths of the needles, relative to the nearest mode."""
    log_odds: tuple[float, ...]
    """The log odds of the mass of the needles."""
    found: tuple[tuple[tuple[float, ...], ...], ...]
    """The share of needles that would have been found, by place (SEARCH_PLACES), width and log odds.

    It is nan where hardly any needle would be a separate mode."""
    probes: int
    """The number of points that the search examined."""
    dim: int
    """The dimension of the position."""
    narrowest: float = 1.0
    """The width of the narrowest known mode, relative to the widest."""
    furthest: float = 0.0
    """The distance of the most isolated mode from its nearest neighbour, in widths of the wider one; 0 without one."""
    flat: bool = False
    """Whether the density is flat along a coordinate inside the known modes. Gradients show nothing; shares are nan."""
    descents: int = 0
    """The number of descents, from points that hot chains reached, that came to rest."""
    arrivals: int = 0
    """How many of them ended in the known mode that most of them reached."""

    def __post_init__(self) -> None:
        if len(self.found) != len(SEARCH_PLACES) or not isinstance(self.found[0][0], tuple):
            raise TypeError("found must hold a table for each of SEARCH_PLACES")  # a record of an earlier version

    def at(self, mass: float, width: float, place: str | None = None) -> float:
        """Return the share of found needles of this mass and width, interpolated.

        ``place`` is one of SEARCH_PLACES, or None for the minimum over all relevant places. Needles narrower than any
        that was tried count as missed. Wider ones give nan.
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
        """The places where a mode could be; "far" is among them only if known modes are as far apart."""
        return SEARCH_PLACES if self.furthest > FAR_APART + math.sqrt(self.dim) else SEARCH_PLACES[:2]

    def without_descents(self) -> SearchPower:
        """Return the power without a count of descents, where the mass is at no minimum."""
        return replace(self, descents=0, arrivals=0)

    def after(self, first: SearchPower) -> SearchPower:
        """Return the power with the descents of an earlier search for the same modes added."""
        return replace(self, descents=self.descents + first.descents, arrivals=self.arrivals + first.arrivals)

    @property
    def rugged(self) -> bool:
        """Whether known modes are so hard to reach by descents that another one may well have been missed."""
        return self.descents >= FEWEST_DESCENTS and self.arrivals < FEWEST_ARRIVALS

    @property
    def needle(self) -> float:
        """The width of the needle in the summary.

        In many dimensions a slightly smaller width means a far smaller volume, so the volume has a minimum. If known
        modes differ in width, unknown ones may too, so the needle is as much narrower than the narrowest of them.
        """
        width = max(NEEDLE_WIDTH, LEAST_VOLUME ** (1 / self.dim))
        return min(width, max(width * self.narrowest, NARROW_WIDTH, NARROW_VOLUME ** (1 / self.dim)))

    def by_place(self) -> dict[str, float]:
        """Return the probability of finding this needle at each place where it is known."""
        found = {place: self.at(NEEDLE_MASS, self.needle, place) for place in SEARCH_PLACES}
        return {place: share for place, share in found.items() if not math.isnan(share)}

    @property
    def weakest(self) -> tuple[str, float]:
        """The relevant place where this needle is found least, and the probability there; 1 where nothing is known."""
        found = {place: share for place, share in self.by_place().items() if place in self.relevant}
        return min(found.items(), key=lambda item: item[1], default=("near", 1.0))


@dataclass(frozen=True, repr=False)
class WarmupRecord(Frozen):
    """The findings and choices of the warm-up; print it."""

    pilot: Pilot | None
    """The findings of the pilot run; None if nothing was left to find."""
    climb: Climb | None
    """The record of the climb; None if the partition was given."""
    reference: LearntReference | None
    """The reference at the end of the ladder; None if the ladder ends at a prior or at a high temperature."""
    top: float | None
    """The highest temperature of the ladder: inf is the prior or the reference; None without a ladder."""
    barrier: float | None
    """The barrier Lambda between posterior and top; None if it was not measured.

    It is about the number of rejections that a chain meets on its way through a ladder of many levels."""
    lost: int
    """The number of chains that did not return from the climb, and were reset to their earlier positions."""
    num_modes: int
    """The number of known modes; 1 if there was no search or it found no other."""
    still_new: bool
    """Whether the search for modes ran out of budget while it still found new ones."""
    power: SearchPower | None
    """The power of the search for modes; None without a search."""
    kernel: Mapping[str, Any]
    """The tuned kernel: its name, its metric, and the moves per iteration and their lengths in steps."""
    tilt: str
    """The name of the tilt."""
    theta_0: np.ndarray
    """The theta at the start of the adaptation."""
    theta: np.ndarray
    """The theta at the end of the adaptation."""
    visit_clock: float
    """The ratio of observed to desired visits in the least visited region; 1 if all are as desired."""
    gradients: Mapping[str, int]
    """The number of gradient evaluations in each stage, by name."""
    late: int = 0
    """The number of modes found only in the draws of a first run, after which everything was run again."""
    untravelled: bool = False
    """Whether the ladder kept chains away from the posterior, so that all draws were made at beta = 1."""

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
        """The notes on problems that the warm-up solved; they do not affect the draws."""
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
