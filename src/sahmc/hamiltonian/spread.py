"""The spread of draws within chains, from which a metric is estimated."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

NOISE = 10
"""The assumed number of draws per independent draw, in the test of whether a direction stands out."""


class LadderSpread(NamedTuple):
    """The variance of each coordinate at both ends of a ladder."""

    posterior: np.ndarray
    """The variances at beta = 1, (dim,)."""
    prior: np.ndarray
    """The variances at beta = 0, (dim,)."""

    def at(self, betas: np.ndarray | float) -> np.ndarray:
        """Return the variances at one inverse temperature, (dim,), or at several, (beta, dim).

        Precisions are interpolated: 1 / v = beta / posterior + (1 - beta) / prior. This is exact if both ends are
        Gaussian.
        """
        beta = np.asarray(betas, float)[..., None]
        return 1 / (beta / self.posterior + (1 - beta) / self.prior)


class Spread(NamedTuple):
    """The spread of draws within chains. The spread between chains would measure the distance of modes instead."""

    rows: np.ndarray
    """The draws minus the mean of their chain, (draw, dim)."""
    freedom: int
    """The degrees of freedom of ``rows``. If 0, estimates are ``believed``, or unit variances."""
    believed: np.ndarray | None = None
    """The prior guess of the variances, (dim,); None to use a typical observed variance."""
    grads: np.ndarray | None = None
    """The gradients of the energy at some draws, (draw, dim), while chains have moved little; None later.

    Suppose that chains have moved by a small distance m in a coordinate of scale s. Then draws have variance m^2 and
    gradients m^2 / s^4, so their ratio shows the scale long before a chain has crossed it."""

    @classmethod
    def of(cls, draws: np.ndarray, believed: np.ndarray | None = None, grads: np.ndarray | None = None) -> Spread:
        """Return the spread of draws (draw, chain, dim)."""
        num, chains, dim = draws.shape
        if num < 2:
            return cls(np.empty((0, dim)), 0, believed)
        rows = (draws - draws.mean(axis=0)).reshape(-1, dim).astype(float)
        return cls(rows, (num - 1) * chains, believed, grads)

    @classmethod
    def unknown(cls, dim: int) -> Spread:
        """Return the spread before any draw: unit variance in every coordinate."""
        return cls(np.empty((0, dim)), 0)

    def variance(self) -> np.ndarray:
        """Return the variance of each coordinate, shrunk a little towards the believed variance on a log scale."""
        raw, believed = self._variance()
        share = self.freedom / (self.freedom + 5.0)
        return raw**share * believed ** (1 - share)

    def covariance(self) -> np.ndarray:
        """Return the covariance of the coordinates, shrunk a little towards its diagonal."""
        share = self.freedom / (self.freedom + 5.0 + self.rows.shape[1])
        full = np.nan_to_num(self.rows.T @ self.rows / max(1, self.freedom))
        return share * full + (1 - share) * np.diag(self._variance()[0])

    def directions(self, most: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Return up to ``most`` directions that stand out, the variances along them, and the remaining variance.

        Directions are unit vectors, (dim, most), in coordinates of unit variance. A direction stands out if its
        variance lies beyond the Marchenko-Pastur edges, the range that independent coordinates show by chance. Unused
        columns are zero and have the remaining variance.
        """
        dim, independent = self.rows.shape[1], self.freedom // NOISE
        vectors, values = np.zeros((dim, most)), np.ones(most)
        if not independent:
            return vectors, values, 1.0
        _, singular, rows = np.linalg.svd(np.nan_to_num(self.rows) / np.sqrt(self.variance()), full_matrices=False)
        found, edge = singular**2 / self.freedom, np.sqrt(dim / independent)
        wide = found > (1 + edge) ** 2
        rest = float(found[~wide].sum() / max(1, dim - wide.sum())) or 1.0
        stands_out = (found > rest * (1 + edge) ** 2) | (found < rest * max(0.0, 1 - edge) ** 2)
        order = np.argsort(-np.abs(np.log(np.maximum(found / rest, 1e-30))) * stands_out)[:most]
        order = order[stands_out[order]]
        vectors[:, : len(order)], values = rows[order].T, np.full(most, rest)
        values[: len(order)] = found[order]
        return vectors, values, rest

    def _variance(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the variance of each coordinate, and the believed variance, used for coordinates that never moved."""
        variance = (self.rows**2).sum(axis=0) / max(1, self.freedom)
        if self.grads is not None and len(self.grads) > 1:
            steep = self.grads.var(axis=0)
            usable = np.isfinite(steep) & (steep > 0)
            variance = np.where(usable, np.sqrt(variance / np.where(usable, steep, 1.0)), variance)
        moved = np.isfinite(variance) & (variance > 0)
        typical = float(np.exp(np.log(variance[moved]).mean())) if moved.any() else 1.0
        believed = np.full(len(variance), typical) if self.believed is None else self.believed
        return np.where(moved, variance, believed), believed
