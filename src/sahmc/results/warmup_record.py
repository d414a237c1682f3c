"""What the warm-up has found and chosen, as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sahmc._support.frozen import Frozen

FORGOTTEN = 0.8
"""Chains have melted where their mean positions correlate less than this from one rung to the next."""


def temperature(beta: float) -> float:
    """Return 1 / beta; inf is the prior."""
    return 1.0 / beta if beta > 0 else math.inf


@dataclass(frozen=True)
class Pilot:
    """What plain HMC from the starting points has shown: the picture of a Gaussian well.

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
    """r: 0 for a flat base measure."""
    step_size: float
    step_size_prior: float | None = None
    """The step size at beta = 0, where there is a prior."""
    quarter: float = 1.0
    """A quarter of the slowest period within a mode, in steps."""
    stranded: int = 0
    """Chains that could not come down from where they started, and were put where others are."""

    def log_z(self, betas: np.ndarray) -> np.ndarray:
        """Return log Z(beta) up to a constant: the integral of the mean energy."""
        return -betas * self.u_min - 0.5 * self.dim * np.log(betas + self.prior_share)

    def above(self, energy: np.ndarray) -> np.ndarray:
        """Return energies above the bottom of the well, at least ``flat_below``."""
        return np.maximum(energy - self.u_min, self.flat_below)

    @property
    def flat_below(self) -> float:
        """The height above the bottom below which flattening only wastes draws: that of the typical set."""
        half = 0.5 * self.dim
        return max(half - math.sqrt(half), half / 4)

    def highest(self, t_max: float) -> float:
        """Return the mean energy above the bottom at the top temperature."""
        return 0.5 * self.dim * min(t_max, (1 + self.prior_share) / max(self.prior_share, 1e-12))


@dataclass(frozen=True)
class Rung:
    """What the chains did at one inverse temperature, lengths in units of their spread at beta = 1."""

    beta: float
    mean_energy: float
    var_energy: float
    step_size: float
    wander: float
    """Variance within a chain, median over chains, of the coordinate where it is largest."""
    memory: float
    """The largest correlation, over coordinates, of the chains' mean positions with those of the rung before; nan for
    the first."""


@dataclass(frozen=True)
class Climb:
    """What climbing to a high temperature and coming down again has shown."""

    up: tuple[Rung, ...]
    """From beta = 1; empty where a prior is the top."""
    down: tuple[Rung, ...]
    """From the hottest to beta = 1, the last one long."""
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
        """T of the coolest rung at and above which chains forget where they were; inf if they never do."""
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


@dataclass(frozen=True, repr=False)
class WarmupRecord(Frozen):
    """What the warm-up has found and chosen; print it."""

    pilot: Pilot | None
    climb: Climb | None
    top: float | None
    """The highest temperature of the ladder: inf is the prior; None where there is no ladder."""
    lost: int
    """Chains that did not come down from the climb, and were put back to where they were before it."""
    num_modes: int
    """Modes among which chains jump; 1 if none were looked for or no other was found."""
    kernel: Mapping[str, Any]
    """The kernel that was tuned: its name, metric, and how many moves of how many steps make an iteration."""
    tilt: str
    """The name of the tilt."""
    theta_0: np.ndarray
    """Where theta began."""
    theta: np.ndarray
    """Where it ended."""
    visit_clock: float
    """The time from which theta has learnt, by the clock of the region seen least, over the moves it made."""
    gradients: Mapping[str, int]
    """Gradients spent on each stage."""

    def __repr__(self) -> str:
        lines = [f"<sahmc warm-up, {sum(self.gradients.values()):,} gradients"]
        if self.pilot is not None:
            lines.append(
                f"pilot       step size {self.pilot.step_size:.3g}, lowest energy about {self.pilot.u_min:.4g}, "
                f"effective dimension {self.pilot.dim:.3g}"
            )
        if self.climb is not None:
            lines.append(f"climb       {self.climb}")
            lines.append(f"modes       {self.num_modes} known")
        regions = self.theta.shape[-1]
        if self.top is not None:
            top = "the prior" if math.isinf(self.top) else f"T = {self.top:.3g}"
            lines.append(f"ladder      {regions} {self.tilt} levels, up to {top}")
        if regions > 1:
            moved = np.abs(np.subtract(self.theta, self.theta[..., :1]) - self.theta_0)
            lines.append(
                f"adaptation  theta moved by at most {moved.max():.2g}; the level seen least was seen "
                f"{self.visit_clock:.0%} as often as desired"
            )
        return "\n  ".join(lines) + ">"
