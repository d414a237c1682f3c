"""What the climb has shown, as a curve along the ladder: log Z, distances between levels, step sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sahmc.results.warmup_record import Climb

MOST_RELATIVE_SPREAD = 5.0
"""Largest credible sd(beta U) over that of a Gaussian well; more is lack of equilibrium."""
LADDER_SIZES = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
"""Numbers of levels. Few, so that runs that differ little share compiled code; one more level costs next to nothing."""


@dataclass(frozen=True)
class LadderCurve:
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
        count = next((size for size in LADDER_SIZES if size >= wanted), LADDER_SIZES[-1])
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


def fit_curve(climb: Climb, share: float, reference: float, dim: float) -> LadderCurve:
    """Thermodynamic integration in s, where a Gaussian well has constant integrands.

    Slow chains lag behind the temperature, below on the way up and above on the way down: the two are averaged. Lag
    adds to the spread of energies, so the smaller is taken.
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

    return LadderCurve(grid, share, integral(mean), integral(spread), np.log([r.step_size for r in down]))
