"""The bulk: where the chains of the pilot were, which need not be near any minimum.

In a funnel the density is highest where there is hardly any volume, and chains leave that place. The Laplace
approximation then assigns almost no mass to the minimum, compared with a Gaussian around the draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sahmc._support.thinning import some_chains
from sahmc._support.traced import TracedFunction
from sahmc.models.evaluation import energies_and_gradients
from sahmc.modes.curvature import LAPLACE_DIM

DISPLACED_NATS, DISPLACED_PER_DIM = 12.0, 0.5
"""The nats, plus an amount for each dimension, that count as far more. If the bulk has far more mass than any minimum,
the posterior is where the draws are. If it has far less, the posterior is at the heaviest minimum."""
TOGETHER = 2.0
"""The largest spread of the chain means, in units of the spread within chains, for all chains to be in one place."""
ENERGIES = 256
"""The number of draws whose energies are used to estimate the mass."""


@dataclass(frozen=True)
class Bulk:
    """The region where the chains were."""

    log_mass: float
    """The log of its mass, from the covariance within chains and the median energy, without the constant of
    Gaussians."""
    dim: int
    """The dimension."""
    together: bool
    """Whether most chains were in the same place."""

    @classmethod
    def of(cls, energy_fn: TracedFunction, draws: np.ndarray) -> Bulk | None:
        """Return the bulk of draws (draw, chain, dim); None if there are too few draws or too many dimensions."""
        draws = some_chains(draws)
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
        """Tell whether it has far more mass than any minimum, given the logs of the masses around the minima."""
        return bool(self.log_mass > log_mass.max(initial=-np.inf) + self._far)

    def is_outweighed(self, log_mass: np.ndarray) -> bool:
        """Tell whether it has far less mass than some minimum, so that chains have not yet descended to that."""
        return bool(self.log_mass < log_mass.max(initial=-np.inf) - self._far)

    @property
    def _far(self) -> float:
        """The difference in nats that counts as far more."""
        return DISPLACED_NATS + DISPLACED_PER_DIM * self.dim
