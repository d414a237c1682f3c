"""The bulk: where the chains of the pilot were, which need not be near any minimum.

In a funnel the density is highest where there is hardly any volume, and chains leave that place. By Laplace's
approximation the surroundings of the minimum then have next to no mass, compared with a Gaussian around the draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sahmc._support.traced import TracedFunction
from sahmc.landscape.curvature import LAPLACE_DIM, energies_and_gradients

DISPLACED_NATS, DISPLACED_PER_DIM = 12.0, 0.5
"""The nats, and more for each dimension, that count as far more. If the bulk has far more mass than any minimum, the
posterior is where the draws are. If it has far less, the posterior is where the heaviest minimum is."""
TOGETHER = 2.0
"""The largest spread of the means of chains, in units of the spread within them, if they are all in one place."""
ENERGIES = 256
"""The number of draws whose energies tell the mass."""


@dataclass(frozen=True)
class Bulk:
    """The place where chains were."""

    log_mass: float
    """The log of the mass there, by the covariance within chains and the median of the energy, less the constant of
    Gaussians."""
    dim: int
    """The dimension."""
    together: bool
    """Whether most chains were in the same place."""

    @classmethod
    def of(cls, energy_fn: TracedFunction, draws: np.ndarray) -> Bulk | None:
        """Return that of draws (draw, chain, dim); None where they are too few to tell, or the dimension too large."""
        num, chains, dim = draws.shape
        if dim > LAPLACE_DIM or num < 2 or num * chains < 4 * dim or not np.isfinite(draws).all():
            return None
        means = draws.mean(axis=0, dtype=float)
        away = (draws - means).reshape(-1, dim)
        sd = away.std(axis=0)
        if not (sd > 0).all():
            return None
        sign, log_det = np.linalg.slogdet((away / sd).T @ (away / sd) / len(away))
        flat = draws.reshape(-1, dim)
        energy = energies_and_gradients(energy_fn, flat[np.linspace(0, len(flat) - 1, ENERGIES).astype(int)])[0]
        log_mass = np.log(sd).sum() + 0.5 * log_det - np.median(energy) + 0.5 * dim
        spread = 1.4826 * np.median(np.abs(means - np.median(means, axis=0)), axis=0)
        ok = sign > 0 and np.isfinite(log_mass)
        return cls(float(log_mass), dim, bool((spread < TOGETHER * sd).all())) if ok else None

    def outweighs(self, log_mass: np.ndarray) -> bool:
        """Tell whether it has far more mass than the surroundings of each minimum, of which these are the logs."""
        return bool(self.log_mass > log_mass.max(initial=-np.inf) + self._far)

    def is_outweighed(self, log_mass: np.ndarray) -> bool:
        """Tell whether it has far less mass than the surroundings of some minimum: chains have not come down to it."""
        return bool(self.log_mass < log_mass.max(initial=-np.inf) - self._far)

    @property
    def _far(self) -> float:
        """The nats that are far more."""
        return DISPLACED_NATS + DISPLACED_PER_DIM * self.dim
