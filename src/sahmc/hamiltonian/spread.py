"""How draws spread within chains: what a metric is made of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

NOISE = 10
"""The number of draws of a chain taken for one independent draw, where it is asked whether a direction stands out."""


class LadderSpread(NamedTuple):
    """The variance of each coordinate at both ends of a ladder."""

    posterior: np.ndarray
    """The variances at beta = 1, (dim,)."""
    prior: np.ndarray
    """Those at beta = 0, (dim,)."""

    def at(self, betas: np.ndarray | float) -> np.ndarray:
        """Return the variances at inverse temperatures, (dim,) of one, (beta, dim) of several.

        Precisions add up, as they do where both ends are Gaussian: 1 / v = beta / posterior + (1 - beta) / prior.
        """
        beta = np.asarray(betas, float)[..., None]
        return 1 / (beta / self.posterior + (1 - beta) / self.prior)


class Spread(NamedTuple):
    """The spread of draws within chains, because between chains it would be the distance of modes."""

    rows: np.ndarray
    """The draws less the mean of their chain, (draw, dim)."""
    freedom: int
    """The degrees of freedom of ``rows``; with none every estimate is that of ``believed``, or of unit variances."""
    believed: np.ndarray | None = None
    """The variances that are believed without any draws, (dim,); None for a typical one of those that were seen."""
    grads: np.ndarray | None = None
    """The gradients of the energy at some draws, (draw, dim), for draws that have not yet come far; None if they have.

    A coordinate of scale s whose chains have moved by a little, m, has the variance m^2, and its gradients m^2 / s^4:
    the scale shows in the ratio long before a chain has crossed it."""

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
        """Return the spread of no draws, from which every estimate is that of unit variances."""
        return cls(np.empty((0, dim)), 0)

    def variance(self) -> np.ndarray:
        """Return the variance of each coordinate, drawn a little, on a log scale, towards what is believed of it."""
        raw, believed = self._variance()
        share = self.freedom / (self.freedom + 5.0)
        return raw**share * believed ** (1 - share)

    def covariance(self) -> np.ndarray:
        """Return the covariance of the coordinates, shrunk a little towards its diagonal."""
        share = self.freedom / (self.freedom + 5.0 + self.rows.shape[1])
        full = np.nan_to_num(self.rows.T @ self.rows / max(1, self.freedom))
        return share * full + (1 - share) * np.diag(self._variance()[0])

    def directions(self, most: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Return up to ``most`` directions that stand out, the variances along them, and that of the rest.

        Directions are unit vectors (dim, most) in coordinates of unit variance. They stand out of what independent
        coordinates would show by chance (the edges of Marchenko and Pastur); places that are left over hold a vector of
        zeros, and the variance of the rest.
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
        """Return the variance of each coordinate, and that which is believed, for coordinates that did not move."""
        variance = (self.rows**2).sum(axis=0) / max(1, self.freedom)
        if self.grads is not None and len(self.grads) > 1:
            steep = self.grads.var(axis=0)
            usable = np.isfinite(steep) & (steep > 0)
            variance = np.where(usable, np.sqrt(variance / np.where(usable, steep, 1.0)), variance)
        moved = np.isfinite(variance) & (variance > 0)
        typical = float(np.exp(np.log(variance[moved]).mean())) if moved.any() else 1.0
        believed = np.full(len(variance), typical) if self.believed is None else self.believed
        return np.where(moved, variance, believed), believed
