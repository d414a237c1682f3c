"""Curves along the ladder, fitted to the climb: log Z, distances between levels, step sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sahmc.results.warmup_record import Climb

MOST_RELATIVE_SPREAD = 5.0
"""The largest credible sd(beta U), relative to that of a Gaussian well. Anything larger shows lack of equilibrium."""
LEAST_INSIDE = 1e-3
"""The minimum share of prior draws with a finite likelihood for a ladder to start at the prior."""
LADDER_SIZES = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
"""The possible numbers of levels. They are few, so that similar runs share compiled code; a few extra levels cost
little."""


@dataclass(frozen=True)
class LadderCurve:
    """Curves along the ladder, known at the rungs of the climb and interpolated between them."""

    grid: np.ndarray
    """The rungs as s = log(beta + r), falling from beta = 1, where r is ``share``."""
    share: float
    """r, the curvature of the prior relative to that of the likelihood; 0 without a prior."""
    log_z: np.ndarray
    """The log of the integral of exp(-beta (U - reference)), minus its value at beta = 1."""
    length: np.ndarray
    """The integral of sd(U) d beta from beta = 1. Levels that cut it into equal pieces overlap equally."""
    log_step: np.ndarray
    """The log of the step size."""

    def levels(self, beta_top: float, spacing: float, least: int) -> np.ndarray:
        """Return at least ``least`` inverse temperatures from 1 to ``beta_top``.

        They are at most about ``spacing`` apart in ``length``, unless that takes more levels than any ladder has.
        """
        end = float(np.interp(-math.log(beta_top + self.share), -self.grid, self.length))
        wanted = max(least, math.ceil(end / spacing) + 1)
        count = next((size for size in LADDER_SIZES if size >= wanted), LADDER_SIZES[-1])
        betas = np.exp(-np.interp(np.linspace(0, end, count), self.length, -self.grid)) - self.share
        betas[0], betas[-1] = 1.0, beta_top
        return betas

    def barrier(self, beta_top: float) -> float:
        """Return the barrier Lambda up to ``beta_top``, the integral of E|E_1 - E_2| / 2 d beta (Syed et al., 2022).

        It assumes that energies are normal at each level. It is roughly how often a ladder of many levels turns a chain
        back.
        """
        end = np.interp(-math.log(beta_top + self.share), -self.grid, self.length)
        return float(end) / math.sqrt(math.pi)

    def hottest_within(self, length: float) -> float:
        """Return the temperature at this ``length`` from beta = 1."""
        return 1 / max(math.exp(-np.interp(length, self.length, -self.grid)) - self.share, 1e-300)

    def at(self, betas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log Z and the step size at these inverse temperatures."""
        s = -np.log(np.asarray(betas, float) + self.share)
        return np.interp(s, -self.grid, self.log_z), np.exp(np.interp(s, -self.grid, self.log_step))


def fit_curve(climb: Climb, share: float, reference: float, dim: float) -> LadderCurve:
    """Fit the curves by thermodynamic integration over s = log(beta + r), with r = ``share``.

    For a Gaussian well the integrands are constant in s. Energies are counted from ``reference``, and ``dim`` is the
    dimension of the well. Energies of slow chains lag behind the temperature: too low during heating, too high during
    cooling. The two are therefore averaged. Lag also inflates the spread of energies, so the smaller spread is taken.
    """
    down = climb.down[::-1]
    both = [down, climb.up or down]
    beta = np.array([r.beta for r in down])
    grid = np.log(beta + share)
    mean = (np.mean([[r.mean_energy for r in rungs] for rungs in both], axis=0) - reference) * (beta + share)
    spread = np.sqrt(np.min([[r.var_energy for r in rungs] for rungs in both], axis=0)) * (beta + share)
    most = MOST_RELATIVE_SPREAD * math.sqrt(0.5 * dim)
    spread = np.clip(spread, max(0.1 * min(most, np.max(spread)), 0.01 * most), most)

    def integral(f: np.ndarray) -> np.ndarray:
        return np.concatenate([[0.0], np.cumsum(0.5 * (f[1:] + f[:-1]) * -np.diff(grid))])

    log_z = integral(mean)
    log_z[-1] -= math.log(max(down[-1].inside, LEAST_INSIDE))  # prior mass of zero likelihood counts too
    return LadderCurve(grid, share, log_z, integral(spread), np.log([r.step_size for r in down]))
