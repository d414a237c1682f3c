"""The search for modes far from the known ones, from points that descend to the bottom of some basin.

Heating alone misses some modes. A long narrow valley, or a sign that must change in ten coordinates at once, stops a
hot chain; a point simply placed elsewhere is not stopped. No single width is right, so points are drawn around known
modes at widths from twice to a thousand times that of a mode.
"""

from __future__ import annotations

import math

import numpy as np

from sahmc._support.validate import require
from sahmc.modes.basins import BasinMap
from sahmc.modes.descent import DESCENTS_AT_ONCE
from sahmc.results.warmup_record import FEWEST_ARRIVALS

WIDTHS = 2.0 ** np.arange(1, 11)
"""The widths at which points are drawn around a mode, in units of the spread within it."""
BETWEEN = 1.5
"""The width of a further Gaussian, in units of the spread of the modes themselves."""
QUENCH_STEPS = 100
"""The largest number of downhill steps of a point."""
FEWEST_BATCHES = 3
"""The minimum number of consecutive batches that must find nothing new."""
LEAST_NEW = 0.01
"""The minimum share of the mass in newly found modes for them to matter."""
WIDEST, MOST_MEASURED = 1e4, 512
"""The largest ratio of the widths of two modes, in each direction, and the largest number of basins, lowest first,
whose width is measured."""
NEGLIGIBLE_NATS = 12.0
"""A mode is negligible if its log mass is at least this far below the largest, in nats."""


class Discovery:
    """A search that records at which widths points left the mode around which they were drawn."""

    def __init__(self, basins: BasinMap, seed: int):
        self.basins = basins
        self.rng = np.random.default_rng(seed)
        self.left = np.ones(len(WIDTHS) + 1)
        """One plus the number of points that reached another mode, at each width and, last, at the spread of modes."""
        self.arrivals: dict[int, int] = {}
        """The number of points from outside its own basin that reached each mode, by its lowest anchor."""
        self.tried = [np.zeros((0, len(basins.scale)))]
        """The points that descended, (point, dim)."""
        self.looked = [np.zeros(0, int)]
        """The anchors at which points ended that came from anywhere."""
        self.complete = False
        """Whether further modes are unlikely to be found."""
        self.still_new = False
        """Whether the last batch, unless it was the only one, found modes with more than LEAST_NEW of the mass."""

    def look(self, points: np.ndarray, at_minima: bool = False) -> None:
        """Let points (point, dim) descend, from wherever they are.

        Points ``at_minima`` show where these are, but not how hard they are to reach.
        """
        if not len(points):
            return
        self.tried.append(points)
        label = self.basins.settle(points, QUENCH_STEPS)
        if not at_minima:
            self.looked.append(label[label >= 0])
            self._count(label, np.full(len(points), -1))

    def reached(self) -> tuple[int, int]:
        """Return how many points from anywhere came to rest, and how many at the mode that most of them reached."""
        ends = np.concatenate(self.looked)
        bottom = self.basins.lowest()[self.basins.number()[ends]] if len(ends) else ends
        return len(ends), max((int((bottom == mode).sum()) for mode in counting(self.basins)), default=0)

    def search(self, most: int) -> None:
        """Draw up to ``most`` batches of points around the known modes, and stop early if nothing new turns up.

        The search is complete when every mode has been reached FEWEST_ARRIVALS times from outside its own basin, and
        FEWEST_BATCHES in a row found nothing.
        """
        idle = 0
        for batch in range(most):
            known = counting(self.basins)
            require(
                len(known),
                "the log density must have a maximum that descents can come to",
                "none: from all points they go on and on",
                "look for a missing minus sign, or for a direction in which the density does not fall",
            )
            arm = self.rng.choice(len(self.left), DESCENTS_AT_ONCE, p=self.left / self.left.sum())
            centre = known[self.rng.integers(len(known), size=len(arm))]
            self.tried.append(self._points(known, centre, arm))
            label = self.basins.settle(self.tried[-1], QUENCH_STEPS)
            moved = self._count(label, centre)
            np.add.at(self.left, arm[moved], 1.0)
            share = self._share_new(known)
            self.still_new, idle = share > LEAST_NEW and batch > 0, 0 if share > 0 else idle + 1
            seldom = sum(number < FEWEST_ARRIVALS for number in self.arrivals.values())
            self.complete = idle >= FEWEST_BATCHES and (len(self.arrivals) < 2 or not seldom)
            if self.complete:
                break

    def _share_new(self, known: np.ndarray) -> float:
        """Return the mass share, by the Laplace approximation, of non-negligible modes that are not in ``known``."""
        lowest, log_mass = masses(self.basins)
        mass = np.exp(log_mass - log_mass.max(initial=-math.inf))
        new = ~np.isin(self.basins.basin[lowest], self.basins.basin[known]) & np.isin(lowest, counting(self.basins))
        return float(mass[new].sum() / max(mass.sum(), 1e-300))

    def _points(self, known: np.ndarray, centre: np.ndarray, arm: np.ndarray) -> np.ndarray:
        """Return points (point, dim) around the anchors ``centre`` or across all ``known`` ones, at widths ``arm``."""
        basins, noise = self.basins, self.rng.normal(size=(len(arm), len(self.basins.scale)))
        near = basins.anchor[centre] + np.append(WIDTHS, 1.0)[arm][:, None] * basins.scale * noise
        minima = basins.anchor[known]
        across = minima.mean(axis=0) + BETWEEN * np.hypot(minima.std(axis=0), basins.scale) * noise
        return np.where((arm == len(WIDTHS))[:, None], across, near)

    def _count(self, label: np.ndarray, centre: np.ndarray) -> np.ndarray:
        """Count arrivals at anchors ``label`` of points drawn around the anchors ``centre``, -1 for points around none.

        Return which points reached a non-negligible mode other than the one around which they were drawn.
        """
        lowest, number = self.basins.lowest(), self.basins.number()

        def bottom(anchors: np.ndarray) -> np.ndarray:
            return np.where(anchors >= 0, lowest[number[anchors]], -1)

        modes = counting(self.basins)
        arrivals = dict.fromkeys(modes.tolist(), 0)
        before = np.array(list(self.arrivals), int)
        moved = np.isin(bottom(label), modes) & (bottom(label) != bottom(centre))
        for anchor, times in [
            *zip(bottom(before), self.arrivals.values(), strict=True),
            *((k, 1) for k in bottom(label)[moved]),
        ]:
            if anchor in arrivals:
                arrivals[int(anchor)] += times
        self.arrivals = arrivals
        return moved


def counting(basins: BasinMap) -> np.ndarray:
    """Return the lowest anchors of the basins with non-negligible mass."""
    lowest, log_mass = masses(basins)
    return lowest[log_mass > log_mass.max(initial=-math.inf) - NEGLIGIBLE_NATS]


def masses(basins: BasinMap) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest anchor of each basin, and the log of its mass by the Laplace approximation.

    The log mass is -inf for basins that are mere pits, or too high to count at any width. A mode WIDEST times as wide
    as another may be higher by the log of the ratio of their volumes.
    """
    lowest = basins.lowest() if len(basins.anchor) else np.zeros(0, int)
    low = basins.energy[lowest] <= np.sort(basins.energy[lowest])[:MOST_MEASURED].max(initial=-np.inf)
    sound = np.array([m and basins.is_sound(int(k)) for k, m in zip(lowest, low, strict=True)], bool)
    energy = np.where(sound | (low & ~sound.any()), basins.energy[lowest], np.inf)
    high = energy.min(initial=np.inf) + NEGLIGIBLE_NATS + math.log(WIDEST) * len(basins.scale)
    mass = [basins.log_width(int(k)) - e if e < high else -np.inf for k, e in zip(lowest, energy, strict=True)]
    return lowest, np.array(mass)
