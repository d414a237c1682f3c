"""Probes: points far from the known modes with one gradient each; the strangest of them descend.

A narrow mode beside a wide one has a basin that is a small ball in a large space. Hot chains miss it, and so do the few
points that descend from everywhere. But one gradient shows whether a point is in the basin. A mode of width L gives
gradients with |L^T grad|^2 = 2 (U - U_min); in a basin s times as narrow this is 1 / s^2 times as large.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from sahmc.models.evaluation import energies_and_gradients
from sahmc.modes.basins import BasinMap
from sahmc.modes.descent import DESCENTS_AT_ONCE
from sahmc.modes.discovery import QUENCH_STEPS, counting, masses

PROBES_PER_DESCENT = 256
"""The number of probes for each one that descends."""
MOST_ROUNDS, MOST_NUMBERS = 16, 2**23
"""The largest number of rounds of probes, and the largest number of coordinates of all probes together, limited by
memory."""
ENERGY_BINS = 16
"""The number of groups of similar energy; the strangest probes of each group descend."""
NEAREST_WIDTH, REACH, FAR_WIDTH, FURTHEST_WIDTH = 1.25, 10.0, 16.0, 1000.0
"""The widths of the Gaussians around modes from which probes are drawn, in units of a mode's own. Probes near a mode
have at least the first width, and lie up to the second number of widths beyond its rim. Some probes go up to the third
width, and a few up to the last."""
BANDS = {"inside": 0.05, "near": 0.47, "far": 0.1, "furthest": 0.05, "sparse": 0.33}
"""The shares of the probes drawn inside modes, near them, further out, further still, and far in only some
coordinates."""
FAR_REACH = 100.0
"""The number of widths beyond the rim of a mode at which the furthest needle is placed; needles near it go up to
REACH."""
COUNTED_MASS = 0.01
"""The minimum mass of a mode that is used to measure the widths of modes and the distances between them."""
MOST_COORDINATES, SPARSE_NEAREST, SPARSE_FURTHEST, SPARSE_WIDTH = 4, 2.5, 40.0, 0.7
"""The rules for a sparse probe. The first is the largest number of coordinates in which it is far from a mode, then
come the smallest and the largest distance in units of scale. The last is the width of the Gaussian around the mode for
all coordinates."""
HIGHEST = 1e300
"""The cap on energies above a mode and on squared gradients, which keeps the strangeness finite."""
MOST_PICTURES = 64
"""The largest number of modes around which probes are drawn."""


class Pictures(NamedTuple):
    """The known modes, each described by a Gaussian at its bottom, from the Hessian; lengths are in units of scale.

    Where the Hessian is not measured, the Gaussian has unit covariance.
    """

    scale: np.ndarray
    """The unit of length of each coordinate."""
    minimum: np.ndarray
    """The lowest points, (mode, dim)."""
    energy: np.ndarray
    """The energies there."""
    factor: np.ndarray
    """The Cholesky factors of the covariances, (mode, dim, dim), or (mode, 1, 1) for unit Gaussians."""
    log_mass: np.ndarray
    """The log masses by the Laplace approximation, without the constant of Gaussians."""

    @classmethod
    def of(cls, basins: BasinMap) -> Pictures:
        """Return the descriptions of the modes with the largest mass."""
        lowest, log_mass = masses(basins)
        order = np.argsort(-log_mass, kind="stable")[:MOST_PICTURES]
        order = order[np.isfinite(log_mass[order])]
        some = lowest[order]
        found = [basins.laplace(int(k)) for k in some]
        factor = np.stack([np.eye(1) if cov is None else np.linalg.cholesky(cov) for cov in found])
        return cls(basins.scale, basins.anchor[some] / basins.scale, basins.energy[some], factor, log_mass[order])

    @property
    def dim(self) -> int:
        """The dimension."""
        return self.minimum.shape[1]

    @property
    def log_total(self) -> float:
        """The log mass of all modes together, as in ``log_mass``."""
        return float(np.logaddexp.reduce(self.log_mass))

    @property
    def log_width(self) -> np.ndarray:
        """The log of the square root of the determinant of each covariance, as in ``log_mass``."""
        return self.log_mass + self.energy

    @property
    def has_factors(self) -> bool:
        """Whether the Hessian of modes was measured."""
        return self.factor.shape[1] == self.dim

    @property
    def narrowest(self) -> float:
        """The width of the narrowest mode, relative to that of the widest, among modes of at least COUNTED_MASS."""
        width = self.log_width[self._counted] / self.dim
        return float(np.exp(width.min() - width.max()))

    @property
    def furthest(self) -> float:
        """The largest distance of a mode from its nearest neighbour, in widths of the wider of both; 0 for one mode."""
        some = self._counted
        if len(some) < 2:
            return 0.0
        away = self.minimum[some] - self.minimum[some][:, None]
        if self.has_factors:
            away = np.linalg.solve(self.factor[some], np.swapaxes(away, 1, 2)).swapaxes(1, 2)
        apart = np.linalg.norm(away, axis=2)
        apart = np.minimum(apart, apart.T) + np.where(np.eye(len(some)) > 0, np.inf, 0.0)
        return float(apart.min(axis=1).max())

    @property
    def _counted(self) -> np.ndarray:
        """The modes with more than COUNTED_MASS."""
        return np.flatnonzero(self.log_mass - self.log_total > math.log(COUNTED_MASS))

    def draw(self, num: int, place: str | None, rng: np.random.Generator) -> np.ndarray:
        """Draw ``num`` points (point, dim), in units of scale, at one kind of ``place``; None draws them as probes are.

        Places ``inside`` a mode are like its draws. Those ``near`` it are up to REACH widths beyond its rim, and those
        ``far`` from it between REACH and FAR_REACH.
        """
        mode, names = rng.integers(len(self.minimum), size=num), list(BANDS)
        shares = np.cumsum(list(BANDS.values()))
        if place is None:
            band = np.searchsorted(shares, rng.random(num) * shares[-1])
        else:
            band = np.full(num, names.index(place))
        widest = NEAREST_WIDTH + REACH / math.sqrt(self.dim)
        furthest = max(widest, FAR_WIDTH) if place is None else NEAREST_WIDTH + FAR_REACH / math.sqrt(self.dim)
        low = np.array([1.0, NEAREST_WIDTH, widest, FAR_WIDTH, SPARSE_WIDTH])[band]
        high = np.array([1.0, widest, furthest, FURTHEST_WIDTH, SPARSE_WIDTH])[band]
        noise = rng.normal(size=(num, self.dim))
        if place in ("near", "far"):
            noise *= math.sqrt(self.dim) / np.linalg.norm(noise, axis=1, keepdims=True)
        noise *= (low * (high / low) ** rng.random(num))[:, None]
        points = self.minimum[mode] + self._by_mode(mode, noise, transposed=False)
        sparse = np.flatnonzero(band == names.index("sparse"))
        points[sparse] += self._sparse(len(sparse), rng)
        return points

    def _sparse(self, num: int, rng: np.random.Generator) -> np.ndarray:
        """Draw ``num`` displacements (point, dim) along a few coordinates each."""
        wanted = rng.integers(1, MOST_COORDINATES + 1, size=num)
        way = np.zeros((num, self.dim))
        for k in range(MOST_COORDINATES):  # a coordinate drawn twice counts once
            some = np.flatnonzero(wanted > k)
            way[some, rng.integers(self.dim, size=len(some))] = rng.normal(size=len(some))
        far = SPARSE_NEAREST * (SPARSE_FURTHEST / SPARSE_NEAREST) ** rng.random(num)
        return way * (far / np.linalg.norm(way, axis=1))[:, None]

    def owner(self, points: np.ndarray) -> np.ndarray:
        """Return the nearest mode of each point (point, dim), in units of scale."""
        return np.asarray(cKDTree(self.minimum).query(points, workers=-1)[1])

    def strangeness(self, points: np.ndarray, energy: np.ndarray, grad: np.ndarray) -> np.ndarray:
        """Return the log of how much steeper the energy is at points (point, dim) than the nearest mode explains.

        Gradients (point, dim) are in units of scale.
        """
        owner = self.owner(points)
        with np.errstate(over="ignore"):  # a cliff may overflow
            steep = np.sum(self._by_mode(owner, grad, transposed=True) ** 2, axis=1)
        return self.strange(owner, energy, steep)

    def strange(self, mode: np.ndarray | int, energy: np.ndarray, steep: np.ndarray) -> np.ndarray:
        """Return the same for points near ``mode``, from squared gradients in units of its width.

        It is about 0 in a Gaussian mode. A point below the mode's minimum is strange too.
        """
        above, steep = 2 * np.minimum(energy - self.energy[mode], HIGHEST), np.minimum(steep, HIGHEST)
        return np.log((steep + np.maximum(-above, 0.0) + 1e-30) / (np.maximum(above, 0.0) + self.dim))

    def _by_mode(self, mode: np.ndarray, vectors: np.ndarray, transposed: bool) -> np.ndarray:
        """Return vectors (point, dim) multiplied by the factors of their modes, or by the transposed factors."""
        if not self.has_factors:
            return vectors
        made = np.empty_like(vectors)
        for k in np.unique(mode):
            factor = self.factor[k].T if not transposed else self.factor[k]
            made[mode == k] = vectors[mode == k] @ factor
        return made


class Look(NamedTuple):
    """A round of probes: their places, and how strange a probe had to be to descend."""

    position: np.ndarray
    """The probes, (probe, dim), in units of scale."""
    energy: np.ndarray
    """The energies there; infinite ones are replaced by the highest finite one."""
    edges: np.ndarray
    """The energies that separate the groups of similar energy."""
    bar: np.ndarray
    """The strangeness of the least strange probe that descended, for each group."""
    found: bool = False
    """Whether a probe reached an unknown mode with non-negligible mass."""

    @classmethod
    def of_descents(cls, position: np.ndarray, energy: np.ndarray) -> Look:
        """Return the look of points that descended however strange they were."""
        return cls(position, _finite(energy), np.zeros(0), np.full(1, -np.inf))


def look_around(basins: BasinMap, num: int, seed: int, place: str | None = None) -> list[Look]:
    """Make about ``num`` probes, and let the strangest descend.

    The modes they reach are added to ``basins``; later rounds draw around these too. All probes lie at one kind of
    ``place``, as in ``Pictures.draw``; None spreads them.
    """
    rng, looks = np.random.default_rng(seed), list[Look]()
    num = min(num, MOST_NUMBERS // len(basins.scale))
    rounds = int(np.clip(num // (PROBES_PER_DESCENT * DESCENTS_AT_ONCE), 1, MOST_ROUNDS))
    for _ in range(rounds if num else 0):
        pictures = Pictures.of(basins)
        looks.append(_look(basins, pictures, pictures.draw(num // rounds, place, rng)))
    return looks


def _look(basins: BasinMap, pictures: Pictures, points: np.ndarray) -> Look:
    """Examine points (point, dim), in units of scale, with one gradient each, and let the strangest descend."""
    points = basins.folded(points)
    whole = (points * basins.scale).astype(basins.dtype)
    energy, grad = energies_and_gradients(basins.energy_fn, whole)
    basins.spent += len(points)
    fine = np.isfinite(energy) & np.isfinite(grad).all(axis=1)
    every, looked = points, _finite(np.where(fine, energy, np.inf))
    whole, points, energy, grad = (part[fine] for part in (whole, points, energy, grad))
    strange = pictures.strangeness(points, energy, grad * basins.scale)
    edges = np.quantile(energy, np.arange(1, ENERGY_BINS) / ENERGY_BINS) if len(energy) else np.zeros(ENERGY_BINS - 1)
    group, bar = np.searchsorted(edges, energy), np.full(ENERGY_BINS, -np.inf)
    chosen = [np.zeros(0, int)]
    for k in range(ENERGY_BINS):
        mine = np.flatnonzero(group == k)
        top = mine[np.argsort(-strange[mine], kind="stable")[: DESCENTS_AT_ONCE // ENERGY_BINS]]
        bar[k] = strange[top].min(initial=np.inf) if len(top) < len(mine) else -np.inf
        chosen.append(top)
    before = basins.basin[counting(basins)]
    basins.settle(whole[np.concatenate(chosen)], QUENCH_STEPS)
    found = not np.isin(basins.basin[counting(basins)], before).all()
    return Look(every.astype(np.float32), looked, edges, bar, found)


def _finite(energy: np.ndarray) -> np.ndarray:
    """Return the energies with infinite ones replaced by the highest finite one."""
    fine = np.isfinite(energy)
    return np.where(fine, energy, energy[fine].max(initial=0.0))
