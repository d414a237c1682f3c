"""The scout: looks for modes among all draws near the posterior that the warm-up has made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from sahmc._support.traced import Program
from sahmc.landscape.modes import Modes, energies, find_minima, fit_modes, nearest_modes
from sahmc.tilt.importance import log_normalise, systematic_resample

POINTS, FIRST, STEPS = 96, 32, 100
"""Points that roll down to find the modes; how many of them are chosen; and steps they take."""
KEPT = 20_000
"""Draws remembered of each stage."""
BLOCK = 2**25
"""Bytes of draws that are sorted into modes at once."""


class Sightings(NamedTuple):
    """The modes in the draws of a run, one entry each: the lowest point and its energy, whether the warm-up knew the
    mode, and the mass it would have were all of them Gaussian; and the mode of each draw (chain, draw).
    """

    minimum: np.ndarray
    energy: np.ndarray
    known: np.ndarray
    expected: np.ndarray
    label: np.ndarray

    def mass(self, weight: np.ndarray) -> np.ndarray:
        return np.array([weight[self.label == k].sum() for k in range(len(self.energy))])

    def chains(self, cold: np.ndarray) -> np.ndarray:
        """How many chains were there, by draws that are ``cold``: made at beta = 1."""
        return np.array([(cold & (self.label == k)).any(axis=1).sum() for k in range(len(self.energy))])


@dataclass(frozen=True)
class Scout:
    """``scale`` is the spread within a mode; ``draws`` (draw, dim) are cold ones, of whatever modes were seen."""

    program: Program
    scale: np.ndarray
    draws: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "draws", _flat(self.draws))

    def with_draws(self, draws: np.ndarray) -> Scout:
        return replace(self, draws=np.concatenate([self.draws, _flat(draws)]))

    def look(self, first: np.ndarray, known: Modes) -> tuple[Modes, int]:
        """The modes, and the gradients spent. ``first`` are points to look at in any case."""
        minima, _, spent = self._minima(first, known)
        return fit_modes(self.draws, minima, self.scale, self.draws.dtype), spent

    def _minima(self, first: np.ndarray, known: Modes) -> tuple[np.ndarray, np.ndarray, int]:
        """The minima to which known minima, points ``first`` and others, by chance, roll down; and which were known."""
        rng = np.random.default_rng(len(self.draws))
        old = np.asarray(known.minimum)[: int(known.num)]
        first = rng.permutation(first)[:FIRST]
        others = self.draws[rng.integers(len(self.draws), size=POINTS - len(first) - len(old))]
        minima, label, spent = find_minima(self.program, np.concatenate([old, first, others]), self.scale, STEPS)
        return minima, np.isin(np.arange(len(minima)), label[: len(old)]), spent

    def sight(self, draws: np.ndarray, first: np.ndarray, known: Modes) -> tuple[Sightings, int]:
        """The modes in draws (chain, draw, dim), and the gradients spent."""
        minima, was_known, spent = self._minima(first, known)
        modes = fit_modes(self.draws, minima, self.scale, self.draws.dtype)
        num = int(modes.num)
        step = max(1, BLOCK // (draws[:, 0].size * draws.itemsize))
        parts = [nearest_modes(modes, draws[:, i : i + step]).astype(np.int8) for i in range(0, draws.shape[1], step)]
        minimum = np.asarray(modes.minimum)[:num]
        energy = np.asarray(energies(self.program, modes.minimum)[0], float)[:num]
        height = np.asarray(modes.log_det, float)[:num] - energy
        expected = np.exp(height - height.max()) / np.exp(height - height.max()).sum()
        old = np.array([was_known[(minima == position).all(axis=1)].any() for position in minimum])
        return Sightings(minimum, energy, old, expected, np.concatenate(parts, axis=1)), spent


def _flat(draws: np.ndarray) -> np.ndarray:
    """Draws (draw, chain, dim) in one row, evenly spread if they are too many to be remembered."""
    flat, most = draws.reshape(-1, draws.shape[-1]), remembered(draws)
    return flat[np.linspace(0, len(flat) - 1, most).astype(int)] if len(flat) > most and draws.ndim == 3 else flat


def remembered(draws: np.ndarray) -> int:
    """How many of draws (..., dim) a scout has room for."""
    return max(POINTS, min(KEPT, BLOCK // (draws.shape[-1] * draws.itemsize)))


def spread_within(draws: np.ndarray) -> np.ndarray:
    """Standard deviation of each coordinate of draws (draw, chain, dim) within chains; 1 where nothing moved."""
    if not len(draws):
        return np.ones(draws.shape[-1])
    spread = np.sqrt(draws.astype(float).var(axis=0).mean(axis=0))
    return np.where(spread > 0, spread, 1.0)


def posterior_draws(position: np.ndarray, log_weight: np.ndarray) -> np.ndarray:
    """Equal-weight draws (draw, 1, dim): half as many as were made under the tilt, or as many as can be remembered."""
    weight = np.exp(log_normalise(log_weight.astype(float))).ravel()
    index = systematic_resample(weight, min(remembered(position), max(1, weight.size // 2)), np.random.default_rng(0))
    return position[np.unravel_index(index, position.shape[:2])][:, None]


def lowest_draws(position: np.ndarray, energy: np.ndarray) -> np.ndarray:
    """The draw of lowest energy of each chain, of draws (chain, draw, dim)."""
    return position[np.arange(len(energy)), energy.argmin(axis=1)]
