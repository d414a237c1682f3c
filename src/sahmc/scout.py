"""The scout: looks for modes among all draws near the posterior that the warm-up has made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sahmc.importance import log_normalise, systematic_resample
from sahmc.modes import Modes, energies, find_minima, fit_modes
from sahmc.program import Program

POINTS, FIRST, STEPS = 96, 32, 100
"""Points that roll down to find the modes; how many of them are chosen; and steps they take."""
KEPT = 20_000
"""Draws remembered of each stage."""


@jax.jit
def _nearest(modes: Modes, draws: Any) -> Any:
    return jax.vmap(jax.vmap(modes.nearest))(draws)


class Sighting(NamedTuple):
    """A mode in the draws of a run: its lowest point, its mass, how many chains were there at beta = 1, whether it was
    known before, which draws (chain, draw) are its own, and the mass it would have were all modes Gaussian.
    """

    position: np.ndarray
    mass: float
    chains: int
    known: bool
    mine: np.ndarray
    expected: float


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

    def sight(
        self, draws: np.ndarray, weight: np.ndarray, cold: np.ndarray, first: np.ndarray, known: Modes
    ) -> tuple[list[Sighting], int]:
        """The modes in weighted draws (chain, draw, dim), of which the ``cold`` show who was where; gradients spent."""
        minima, was_known, spent = self._minima(first, known)
        modes = fit_modes(self.draws, minima, self.scale, self.draws.dtype)
        label = np.asarray(_nearest(modes, jnp.asarray(draws)))
        height = np.asarray(modes.log_det - energies(self.program, modes.minimum)[0], float)[: int(modes.num)]
        expected = np.exp(height - height.max()) / np.exp(height - height.max()).sum()
        sightings = []
        for k in range(int(modes.num)):
            mine, position = label == k, np.asarray(modes.minimum[k])
            old = bool(was_known[(minima == position).all(axis=1)].any())
            chains = int((mine & cold).any(axis=1).sum())
            sightings.append(Sighting(position, float(weight[mine].sum()), chains, old, mine, float(expected[k])))
        return sightings, spent


def _flat(draws: np.ndarray) -> np.ndarray:
    """Draws (draw, chain, dim) in one row, at most KEPT of them, evenly spread."""
    flat = draws.reshape(-1, draws.shape[-1])
    return flat[np.linspace(0, len(flat) - 1, KEPT).astype(int)] if len(flat) > KEPT and draws.ndim == 3 else flat


def spread_within(draws: np.ndarray) -> np.ndarray:
    """Standard deviation of each coordinate of draws (draw, chain, dim) within chains; 1 where nothing moved."""
    if not len(draws):
        return np.ones(draws.shape[-1])
    spread = np.sqrt(draws.astype(float).var(axis=0).mean(axis=0))
    return np.where(spread > 0, spread, 1.0)


def posterior_draws(draws: Any) -> np.ndarray:
    """Half as many draws as were made under the tilt, resampled to have equal weight."""
    weight = np.exp(log_normalise(draws.log_weight.astype(float))).ravel()
    index = systematic_resample(weight, max(1, weight.size // 2), np.random.default_rng(0))
    return draws.position.reshape(-1, 1, draws.position.shape[-1])[index]


def lowest_draws(draws: Any) -> np.ndarray:
    """The draw of lowest energy of each chain."""
    total = draws.energy if draws.base_energy is None else draws.energy + draws.base_energy
    return draws.position[total.argmin(axis=0), np.arange(total.shape[1])]
