"""The mode finder, which looks for modes among the draws of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sahmc._support.traced import TracedFunction
from sahmc.landscape.basins import find_minima
from sahmc.landscape.descent import energies
from sahmc.landscape.modes import Modes, fit_modes, nearest_modes
from sahmc.results.records import ModeAssignment
from sahmc.tilt.importance import log_normalise, systematic_resample

DESCENTS, CHOSEN_DESCENTS, DESCENT_STEPS = 96, 32, 100
"""The number of points that roll down to find the modes; how many of them are chosen; and the steps they take."""
REMEMBERED_DRAWS = 20_000
"""The largest number of draws remembered of each stage."""
SORT_BYTES = 2**25
"""The bytes of draws that are sorted into modes at once."""


@dataclass(frozen=True)
class ModeFinder:
    """Draws that show where the posterior is, and the search for modes among them."""

    energy_fn: TracedFunction
    """The traced energy of the model, a function of a flat position."""
    scale: np.ndarray
    """The spread of each coordinate within a mode, (dim,)."""
    draws: np.ndarray
    """Draws (draw, dim) near the posterior, of whatever modes were seen."""

    @classmethod
    def of(cls, energy_fn: TracedFunction, draws: np.ndarray) -> ModeFinder:
        """Return a finder that knows draws (draw, chain, dim) made at beta = 1."""
        return cls(energy_fn, spread_within(draws), _remembered(draws))

    def with_draws(self, draws: np.ndarray) -> ModeFinder:
        """Return a finder that knows further draws (draw, chain, dim) of the posterior."""
        return replace(self, draws=np.concatenate([self.draws, _remembered(draws)]))

    def find(self, first: np.ndarray, known: Modes) -> tuple[Modes, int]:
        """Return the modes, and the gradients spent.

        ``first`` are points (point, dim) to roll down from before any others; ``known`` are modes found earlier.
        """
        minima, _, spent = self._minima(first, known)
        return fit_modes(self.draws, minima, self.scale, self.draws.dtype), spent

    def assign(self, draws: np.ndarray, first: np.ndarray, known: Modes) -> tuple[ModeAssignment, int]:
        """Return the modes in draws (chain, draw, dim) and the mode of each draw, and the gradients spent.

        ``first`` are points (point, dim) to roll down from before any others; ``known`` are modes found earlier.
        """
        minima, was_known, spent = self._minima(first, known)
        modes = fit_modes(self.draws, minima, self.scale, self.draws.dtype)
        num = int(modes.num)
        step = max(1, SORT_BYTES // (draws[:, 0].size * draws.itemsize))
        parts = [nearest_modes(modes, draws[:, i : i + step]).astype(np.int8) for i in range(0, draws.shape[1], step)]
        minimum = np.asarray(modes.minimum)[:num]
        energy = np.asarray(energies(self.energy_fn, modes.minimum)[0], float)[:num]
        height = np.asarray(modes.log_det, float)[:num] - energy
        expected = np.exp(height - height.max()) / np.exp(height - height.max()).sum()
        old = np.array([was_known[(minima == position).all(axis=1)].any() for position in minimum])
        return ModeAssignment(minimum, energy, old, expected, np.concatenate(parts, axis=1)), spent

    def _minima(self, first: np.ndarray, known: Modes) -> tuple[np.ndarray, np.ndarray, int]:
        """Return the minima that are found, which of them were known, and the gradients spent.

        Points that roll down are the minima known, some of ``first``, and draws at random.
        """
        rng = np.random.default_rng(len(self.draws))
        old = np.asarray(known.minimum)[: int(known.num)]
        first = rng.permutation(first)[:CHOSEN_DESCENTS]
        others = self.draws[rng.integers(len(self.draws), size=DESCENTS - len(first) - len(old))]
        points = np.concatenate([old, first, others])
        minima, label, spent = find_minima(self.energy_fn, points, self.scale, DESCENT_STEPS)
        return minima, np.isin(np.arange(len(minima)), label[: len(old)]), spent


def _remembered(draws: np.ndarray) -> np.ndarray:
    """Return draws (draw, chain, dim) as (draw, dim), evenly chosen if they are too many to be remembered."""
    flat, most = draws.reshape(-1, draws.shape[-1]), _room(draws)
    return flat[np.linspace(0, len(flat) - 1, most).astype(int)] if len(flat) > most else flat


def _room(draws: np.ndarray) -> int:
    """Return how many of draws (..., dim) a finder has room for."""
    return max(DESCENTS, min(REMEMBERED_DRAWS, SORT_BYTES // (draws.shape[-1] * draws.itemsize)))


def spread_within(draws: np.ndarray) -> np.ndarray:
    """Return the sd of each coordinate of draws (draw, chain, dim) within chains; 1 where nothing moved."""
    if not len(draws):
        return np.ones(draws.shape[-1])
    spread = np.sqrt(draws.astype(float).var(axis=0).mean(axis=0))
    return np.where(spread > 0, spread, 1.0)


def posterior_draws(position: np.ndarray, log_weight: np.ndarray) -> np.ndarray:
    """Return equal-weight draws (draw, 1, dim), resampled from positions (chain, draw, dim) by their weights.

    They are half as many as there were, or as many as a finder has room for.
    """
    weight = np.exp(log_normalise(log_weight.astype(float))).ravel()
    index = systematic_resample(weight, min(_room(position), max(1, weight.size // 2)), np.random.default_rng(0))
    return position[np.unravel_index(index, position.shape[:2])][:, None]


def lowest_draws(position: np.ndarray, energy: np.ndarray) -> np.ndarray:
    """Return the draw of lowest energy of each chain, (chain, dim), of positions (chain, draw, dim)."""
    return position[np.arange(len(energy)), energy.argmin(axis=1)]
