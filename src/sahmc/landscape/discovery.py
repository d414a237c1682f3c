"""The search for modes by points far from those that are known, each of which goes to the bottom of some basin.

Heat alone does not find everything: a valley that is long and narrow, or a sign that must change in ten coordinates at
once, stops a hot chain long before it stops a point that is simply put elsewhere. Points are drawn around known modes,
at widths from twice to a thousand times that of a mode, since no one width serves.
"""

from __future__ import annotations

import math

import numpy as np

from sahmc._support.validate import require
from sahmc.landscape.basins import BasinMap
from sahmc.landscape.descent import DESCENTS_AT_ONCE

WIDTHS = 2.0 ** np.arange(1, 11)
"""The widths at which points are drawn around a mode, in units of the spread within it."""
BETWEEN = 1.5
"""The width of a further Gaussian, in units of how modes themselves spread."""
QUENCH_STEPS = 100
"""The most steps of a point downhill."""
FEWEST_BATCHES = 3
"""The number of batches in a row that must bring nothing new."""
FEWEST_ARRIVALS = 3
"""The points from elsewhere that must have come to each mode: while some were seen once, others may be unseen."""
LEAST_NEW = 0.01
"""The share of the mass that the modes of the last batch must have, or it does not matter that they were new."""
WIDEST, MOST_MEASURED = 1e4, 512
"""How much wider a mode may be than another, in each direction, and the largest number of basins, the lowest, whose
width is measured."""
NEGLIGIBLE_NATS = 12.0
"""The nats by which the mass of a mode is below the largest, from which on it does not count."""


class Discovery:
    """A search, which remembers at which widths points have left the mode around which they were drawn."""

    def __init__(self, basins: BasinMap, seed: int):
        self.basins = basins
        self.rng = np.random.default_rng(seed)
        self.left = np.ones(len(WIDTHS) + 1)
        """The number of points that came to another mode, for each width and, last, for that of the modes themselves,
        and one more."""
        self.arrivals: dict[int, int] = {}
        """How many points from elsewhere came to each mode, by the anchor at its bottom."""
        self.tried = [np.zeros((0, len(basins.scale)))]
        """The points that went downhill, (point, dim)."""
        self.complete = False
        """Whether it is unlikely that more would be found."""
        self.still_new = False
        """Whether the last batch, of several, brought modes with more than LEAST_NEW of the mass."""

    def look(self, points: np.ndarray) -> None:
        """Let points (point, dim) go downhill, from wherever they are."""
        if len(points):
            self.tried.append(points)
            self._count(self.basins.settle(points, QUENCH_STEPS), np.full(len(points), -1))

    def search(self, most: int) -> None:
        """Draw points around the modes that are known, ``most`` batches of them or fewer if nothing new turns up.

        It is done when every mode was come to from elsewhere FEWEST_ARRIVALS times, and at least FEWEST_BATCHES
        brought nothing.
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
        """Return the share of the mass, by Laplace's approximation, in modes that count and are not those ``known``."""
        lowest, log_mass = masses(self.basins)
        mass = np.exp(log_mass - log_mass.max(initial=-math.inf))
        new = ~np.isin(self.basins.basin[lowest], self.basins.basin[known]) & np.isin(lowest, counting(self.basins))
        return float(mass[new].sum() / max(mass.sum(), 1e-300))

    def _points(self, known: np.ndarray, centre: np.ndarray, arm: np.ndarray) -> np.ndarray:
        """Return points (point, dim) around the anchors ``centre``, or across all ``known`` ones, by their ``arm``."""
        basins, noise = self.basins, self.rng.normal(size=(len(arm), len(self.basins.scale)))
        near = basins.anchor[centre] + np.append(WIDTHS, 1.0)[arm][:, None] * basins.scale * noise
        minima = basins.anchor[known]
        across = minima.mean(axis=0) + BETWEEN * np.hypot(minima.std(axis=0), basins.scale) * noise
        return np.where((arm == len(WIDTHS))[:, None], across, near)

    def _count(self, label: np.ndarray, centre: np.ndarray) -> np.ndarray:
        """Count the arrivals at anchors ``label`` of points drawn around the anchors ``centre``, -1 if around none.

        Return which of the points came to a mode that counts, and to another than they were drawn around.
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
    """Return the anchors at the bottom of those basins whose mass counts."""
    lowest, log_mass = masses(basins)
    return lowest[log_mass > log_mass.max(initial=-math.inf) - NEGLIGIBLE_NATS]


def masses(basins: BasinMap) -> tuple[np.ndarray, np.ndarray]:
    """Return the anchor at the bottom of each basin, and the log of its mass by Laplace's approximation.

    Basins that are too high to count whatever their width, or mere pits, have -inf: a mode that is WIDEST times as wide
    as another may be as much higher as its volume is larger.
    """
    lowest = basins.lowest() if len(basins.anchor) else np.zeros(0, int)
    low = basins.energy[lowest] <= np.sort(basins.energy[lowest])[:MOST_MEASURED].max(initial=-np.inf)
    sound = np.array([m and basins.is_sound(int(k)) for k, m in zip(lowest, low, strict=True)], bool)
    energy = np.where(sound | (low & ~sound.any()), basins.energy[lowest], np.inf)
    high = energy.min(initial=np.inf) + NEGLIGIBLE_NATS + math.log(WIDEST) * len(basins.scale)
    mass = [basins.log_width(int(k)) - e if e < high else -np.inf for k, e in zip(lowest, energy, strict=True)]
    return lowest, np.array(mass)
