"""Basins: the places where descents end, and which of them are separated by a barrier."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from sahmc._support.traced import TracedFunction
from sahmc.models.evaluation import ENERGIES_AT_ONCE, energies_and_gradients
from sahmc.modes.curvature import LAPLACE_DIM, NARROWEST, laplace_covariance
from sahmc.modes.descent import DESCENTS_AT_ONCE, roll_down, start_descent
from sahmc.modes.quench import quench_all
from sahmc.symmetry.alike import changed
from sahmc.symmetry.fold import Fold

BARRIER_NATS = 2.0
"""The minimum height in nats of a barrier: two minima are one mode if the straight line between them rises by less
above the higher one."""
SETTLED_NATS = 0.01
"""The largest loss in nats of a point at rest over ROLL_STEPS steps. Descents end early once all points are at rest."""
REST_NATS, FURTHER = 0.1, 4
"""The largest loss in nats of a point at rest over a whole descent, and how often the descent is extended for points
that are near no anchor."""
ROLL_STEPS = 25
"""The number of descent steps after which the stopping rule is checked."""
SOUNDINGS, SOUND_NATS = 8, 10.0
"""The test that a minimum is more than a pit. The first is the number of points tested half a width away, the second
the largest median rise in nats there, plus one for each dimension. It is also the most that a step of Newton's method
may gain from a minimum."""
INNER_NATS, INNER_SQUARE = 6.0, 25.0
"""The test for a narrow basin inside a wide one, without a barrier between them. The first is the minimum difference of
the logs of their volumes: a chain finds the narrow one as seldom as it would cross a barrier of that height. The second
is the minimum squared distance between their minima, in widths of the narrow one."""
NEAREST = 4
"""The number of nearest anchors to which straight lines are examined."""
SAME_PLACE, SAME_NATS = 0.02, 0.1
"""The largest distance, in units of the scale of each coordinate, and the largest energy difference in nats between two
points that count as the same."""
GOLDEN = (5**0.5 - 1) / 2
"""The golden ratio minus 1. The fractional parts of its multiples fill a line evenly and never fall in step with a
lattice."""
FIRST_LOOK = GOLDEN * np.arange(1, 8) % 1
"""The points of a line that are examined first, as fractions of its length."""
CLOSE_LOOK = np.concatenate(
    [0.5 / 1.7 ** np.arange(12), 1 - 0.5 / 1.7 ** np.arange(1, 12), GOLDEN * np.arange(8, 16) % 1]
)
"""The points examined if the first ones found no barrier. They are dense near both ends, since the path out of a narrow
mode rises close to its minimum, however far away the other end is."""


class BasinMap:
    """The basins found so far; their number grows as more points descend.

    A basin is represented by its anchors: points at its bottom, usually one. A straight line without a barrier joins a
    further point to one of the nearest anchors. A point that no line joins becomes the anchor of a new basin. Where
    modes have copies, all points are in the domain of ``fold``, and copies are one basin.
    """

    def __init__(self, energy_fn: TracedFunction, scale: np.ndarray, dtype: Any, fold: Fold | None = None):
        self.energy_fn, self.dtype, self.fold = energy_fn, dtype, fold
        self.scale = np.asarray(scale, float)
        self.has_gradient = jax.eval_shape(energy_fn, np.zeros(len(scale), dtype))[1] is not None
        self.spent = 0
        """The number of gradients and energies computed."""
        self.anchor = np.zeros((0, len(scale)))
        self.energy = np.zeros(0)
        """The energy of each anchor."""
        self.reach = np.zeros(0)
        """The highest energy on the path from each anchor to the lowest one of its basin."""
        self.basin = np.zeros(0, int)
        """A number for each anchor; anchors of the same basin have the same number."""
        self.unlike = np.zeros((0, len(scale)))
        """The points at rest whose energy the fold seems to change, so that it uses a false symmetry."""
        self.inner: set[int] = set()
        """The basins that never merge with others: narrow ones inside wide ones, and these wide ones."""
        self.narrow: set[int] = set()
        """The narrow ones among them."""
        self._laplace: dict[int, np.ndarray] = {}
        self._sound: dict[int, bool] = {}

    def number(self) -> np.ndarray:
        """Return the basin number of each anchor; the deepest basin is number 0."""
        names, inverse = np.unique(self.basin, return_inverse=True)
        low = np.array([self.energy[self.basin == name].min() for name in names])
        return np.argsort(np.argsort(low, kind="stable"))[inverse] if len(names) else self.basin

    def lowest(self) -> np.ndarray:
        """Return the lowest anchor of each basin, in the order of ``number``."""
        number, order = self.number(), np.argsort(self.energy, kind="stable")
        return order[np.unique(number[order], return_index=True)[1]]

    def minima(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lowest point of each basin, (basin, dim), and its energy, in the order of ``number``."""
        lowest = self.lowest()
        return self.anchor[lowest], self.energy[lowest]

    def add(
        self, points: np.ndarray, scale: np.ndarray | None = None, steps: int = 100, inner: bool = False
    ) -> np.ndarray:
        """Let points (point, dim) descend, and return the anchor at which each one ends.

        They take at most ``steps`` steps in units of ``scale``, (dim,) or (point, dim). Points that are then neither at
        rest nor near an anchor, as in a curved valley, take more. Points without a finite energy, or whose descent does
        not end, are marked -1. If points may be in narrow basins inside wide ones, ``inner`` looks for these too.
        """
        scale = np.broadcast_to(self.scale if scale is None else scale, points.shape)
        label, position, left = np.full(len(points), -1), points.astype(float), np.arange(len(points))
        for further in range(FURTHER + 1):
            ends = [
                self._roll(position[left[i : i + DESCENTS_AT_ONCE]], scale[left[i : i + DESCENTS_AT_ONCE]], steps)
                for i in range(0, len(left), DESCENTS_AT_ONCE)
            ]
            if not ends:
                break
            end, energy, lately, fallen = (np.concatenate(part) for part in zip(*ends, strict=True))
            at_rest = lately < SETTLED_NATS if not further else fallen < REST_NATS
            position[left], label[left] = end, self._place(end, energy, at_rest)
            left = left[(label[left] < 0) & np.isfinite(energy)]
        return self._set_apart(position, label) if inner else label

    def _set_apart(self, points: np.ndarray, label: np.ndarray) -> np.ndarray:
        """Give points (point, dim) at rest in a far narrower or wider place than their anchors a basin of their own.

        Points that are still on their way keep their anchors. No barrier separates such basins, but chains hardly find
        the narrow one. Return the anchor of each point.
        """
        if len(self.scale) > LAPLACE_DIM or not self.has_gradient:
            return label
        points = points if self.fold is None else self.fold(points)
        energy, grad = energies_and_gradients(self.energy_fn, points.astype(self.dtype))
        self.spent += len(points)
        for i in np.argsort(energy, kind="stable"):
            if label[i] < 0 or not np.isfinite(energy[i]):
                continue
            far = np.abs((self.anchor - points[i]) / self.scale).max(axis=1)
            if far.min() < SAME_PLACE:
                label[i] = far.argmin()
                continue
            shape, cost = laplace_covariance(self.energy_fn, points[i].astype(self.dtype), self.scale)
            self.spent += cost
            slope = self.scale * grad[i]
            if not 0.5 * slope @ shape @ slope < REST_NATS:
                continue
            square = self._squares(points[i], shape)
            near, mine = int(square.argmin()), np.flatnonzero(self.basin == self.basin[label[i]])
            if square[near] < INNER_SQUARE and abs(self._larger(shape, near)) <= INNER_NATS:
                label[i] = near
                continue
            near = int(mine[square[mine].argmin()])
            larger = self._larger(shape, near)
            square = square if larger < 0 else self._squares(points[i], self._shape(near))
            if abs(larger) > INNER_NATS and square[near] > INNER_SQUARE:
                label[i], number = len(self.anchor), int(self.basin.max()) + 1
                self.inner |= {number, int(self.basin[near])}
                self.narrow.add(number if larger < 0 else int(self.basin[near]))
                self._new_anchor(points[i], energy[i], energy[i], number)
        return label

    def _shape(self, anchor: int) -> np.ndarray:
        """Return the covariance of the Laplace approximation at an anchor, where it can be measured."""
        found = self.laplace(anchor)
        assert found is not None
        return found

    def _squares(self, point: np.ndarray, shape: np.ndarray) -> np.ndarray:
        """Return the squared distance of each anchor from a point, under a covariance in units of ``scale``."""
        away = (self.anchor - point) / self.scale
        return (away * np.linalg.solve(shape, away.T).T).sum(axis=1)

    def _larger(self, shape: np.ndarray, anchor: int) -> float:
        """Return the log volume of a covariance in units of ``scale``, minus that around an anchor."""
        return 0.5 * float(np.linalg.slogdet(shape)[1] - np.linalg.slogdet(self._shape(anchor))[1])

    def _new_anchor(self, point: np.ndarray, energy: float, reach: float, basin: int) -> None:
        """Make a point an anchor of a basin."""
        self.anchor = np.concatenate([self.anchor, point[None]])
        self.energy, self.reach = np.append(self.energy, energy), np.append(self.reach, reach)
        self.basin = np.append(self.basin, basin)

    def folded(self, points: np.ndarray) -> np.ndarray:
        """Return points (point, dim), in units of ``scale``, in the domain of ``fold`` if there is one."""
        return points if self.fold is None else self.fold(points * self.scale) / self.scale

    def energies(self, points: np.ndarray) -> np.ndarray:
        """Return the energies of points (point, dim); +inf replaces NaN."""
        energy, _ = energies_and_gradients(self.energy_fn, points.astype(self.dtype))
        self.spent += len(points)
        return np.where(np.isnan(energy), np.inf, energy)

    def settle(self, points: np.ndarray, most: int) -> np.ndarray:
        """Let points (point, dim) go to the bottom of some basin, and return the anchor at which each one ends.

        They take at most ``most`` steps of ``quench``, which may cross from one basin into another. -1 marks points
        that are not at rest at the end.
        """
        label = np.full(len(points), -1)
        unit = self.scale.astype(self.dtype)
        end, energy, at_rest, spent = quench_all(self.energy_fn, points.astype(self.dtype), unit, most)
        self.spent += spent
        for i in range(0, len(points), DESCENTS_AT_ONCE):
            kept = i + np.flatnonzero(at_rest[i : i + DESCENTS_AT_ONCE])
            label[kept] = self._place(end[kept].astype(float), energy[kept], np.full(len(kept), True))
        return label

    def laplace(self, anchor: int) -> np.ndarray | None:
        """Return the covariance of the Laplace approximation at an anchor, in units of ``scale``, (dim, dim).

        It is None in more than LAPLACE_DIM dimensions, or without gradients.
        """
        if len(self.scale) > LAPLACE_DIM or not self.has_gradient:
            return None
        if anchor not in self._laplace:
            point = self.anchor[anchor].astype(self.dtype)
            self._laplace[anchor], cost = laplace_covariance(self.energy_fn, point, self.scale)
            self.spent += cost
        return self._laplace[anchor]

    def is_sound(self, anchor: int) -> bool:
        """Tell whether the Laplace approximation at an anchor roughly describes its surroundings.

        It does not where rounding has dug a pit into the energy, far out in the tails.
        """
        found = self.laplace(anchor)
        if found is None:
            return True
        if anchor not in self._sound:
            noise = np.random.default_rng(anchor).normal(size=(SOUNDINGS, len(self.scale)))
            around = self.anchor[anchor] + 0.5 * self.scale * (noise @ np.linalg.cholesky(found).T)
            rise = self.energies(around.astype(self.dtype)) - self.energy[anchor]
            self._sound[anchor] = bool(np.median(rise) < SOUND_NATS + len(self.scale))
        return self._sound[anchor]

    def is_bottom(self, anchor: int) -> bool:
        """Tell whether a sound minimum is at an anchor, and not a place on a slope.

        A density that is unbounded at some place has no minimum there. A descent ends on the way, or was cut short,
        where the slope and the curvature still promise more than SOUND_NATS further down.
        """
        found = self.laplace(anchor)
        if found is None:
            return True
        _, grad = energies_and_gradients(self.energy_fn, self.anchor[[anchor]].astype(self.dtype))
        self.spent += 1
        slope = grad[0] * self.scale
        return self.is_sound(anchor) and bool(0.5 * slope @ found @ slope < SOUND_NATS)

    def log_width(self, anchor: int, widest: float = np.inf) -> float:
        """Return the log of the square root of the determinant of the inverse Hessian at an anchor.

        Axes along which the basin is wider than ``widest``, in units of ``scale``, count as that wide.
        """
        found = self.laplace(anchor)
        value = np.ones(1) if found is None else np.clip(np.linalg.eigvalsh(found), NARROWEST**2, widest**2)
        return float(np.log(self.scale).sum() + 0.5 * np.log(value).sum())

    def _roll(self, points: np.ndarray, scale: np.ndarray, steps: int) -> tuple[np.ndarray, ...]:
        """Return where at most DESCENTS_AT_ONCE points descend to, the energy there, and how far they fell.

        The last two arrays are the nats lost in the last ROLL_STEPS steps and in total. Points do not move if there are
        no gradients, or if their energy is not finite.
        """
        num = len(points)
        padded, lengths = self._padded(points, DESCENTS_AT_ONCE), self._padded(scale, DESCENTS_AT_ONCE)
        if not self.has_gradient:
            return points.astype(float), self.energies(points), np.zeros(num), np.zeros(num)
        start = start_descent(self.energy_fn, padded)
        first = np.asarray(start.energy)
        finite = np.isfinite(first) & np.isfinite(start.grad).all(axis=1)
        now = start._replace(energy=np.where(finite, first, -np.inf))  # from -inf no step leads further down
        lately = np.full(num, np.inf)
        self.spent += num
        for done in range(0, steps, ROLL_STEPS):
            after = roll_down(self.energy_fn, now, lengths, min(ROLL_STEPS, steps - done))
            self.spent += num * min(ROLL_STEPS, steps - done)
            lately = _fall(now.energy, after.energy, finite)[:num]
            now = after
            if (lately < SETTLED_NATS).all():
                break
        energy = np.where(finite, np.asarray(now.energy, float), np.inf)[:num]
        return np.asarray(now.position, float)[:num], energy, lately, _fall(first, now.energy, finite)[:num]

    def _fold(self, points: np.ndarray, energy: np.ndarray) -> np.ndarray:
        """Return points (point, dim) in the domain of the fold, and record those where it changes the ``energy``."""
        assert self.fold is not None
        inside = self.fold(points)
        moved = np.flatnonzero((inside != points).any(axis=1) & np.isfinite(energy))
        if len(moved):
            other = moved[changed(energy[moved], self.energies(inside[moved]))]
            self.unlike = np.concatenate([self.unlike, points[other]])
        return inside

    def _place(self, points: np.ndarray, energy: np.ndarray, at_rest: np.ndarray) -> np.ndarray:
        """Return the anchor to which each point belongs; points that belong to none become new anchors.

        The lowest point comes first. A point that no line joins to an anchor may still be joined to other points of its
        basin, along a curved valley.
        """
        if self.fold is not None:
            points = self._fold(points, energy)
        label, reach = np.full(len(points), -1), np.full(len(points), np.inf)
        left, tested = np.isfinite(energy), 0
        while left.any():
            tested = self._match(points, energy, np.flatnonzero(left), tested, label, reach)
            left &= label < 0
            rest = np.flatnonzero(left & at_rest) if len(self.anchor) else np.flatnonzero(left)
            if not len(rest):
                break
            i = rest[np.argmin(energy[rest])]
            placed = np.flatnonzero(label >= 0)
            near = placed[self._nearest(points[i : i + 1], points[placed])[0]] if len(placed) else placed
            here = np.full(len(near), i)
            path = np.maximum(self._path(points[here], energy[here], points[near], energy[near]), reach[near])
            path = np.where(path < self._deepest_rim(label[near], energy[i]), path, np.inf)
            joined = len(near) > 0 and path.min() < np.inf
            basin = self.basin[label[near[np.argmin(path)]]] if joined else self.basin.max(initial=-1) + 1
            label[i], reach[i] = len(self.anchor), path.min() if joined else energy[i]
            self._new_anchor(points[i], energy[i], reach[i], int(basin))
            left[i] = False
        return label

    def _match(
        self,
        points: np.ndarray,
        energy: np.ndarray,
        left: np.ndarray,
        tested: int,
        label: np.ndarray,
        reach: np.ndarray,
    ) -> int:
        """Join points ``left`` to anchors from number ``tested`` on, filling in ``label`` and ``reach``.

        Return the number of anchors. Basins that share a point are merged, unless that point is higher than a barrier.
        """
        if tested == len(self.anchor):
            return tested
        near = self._nearest(points[left], self.anchor)
        row, column = np.nonzero(near >= tested)
        point, anchor = left[row], near[row, column]
        same = np.abs(energy[point] - self.energy[anchor]) < SAME_NATS
        same &= (np.abs(points[point] - self.anchor[anchor]) < SAME_PLACE * self.scale).all(axis=1)
        path = np.where(same, np.maximum(energy[point], self.energy[anchor]), np.inf)
        ask = ~same & ~np.isin(point, point[same])
        ends = point[ask], anchor[ask]
        path[ask] = self._path(points[ends[0]], energy[ends[0]], self.anchor[ends[1]], self.energy[ends[1]])
        path = np.maximum(path, self.reach[anchor])
        for i in np.unique(point[np.isfinite(path)]):
            mine = np.flatnonzero((point == i) & np.isfinite(path))
            mine = mine[np.argsort(path[mine], kind="stable")]
            label[i], reach[i] = anchor[mine[0]], path[mine[0]]
            for j in mine[1:]:
                self._merge(int(anchor[mine[0]]), int(anchor[j]), float(max(path[mine[0]], path[j])))
        return len(self.anchor)

    def _merge(self, one: int, two: int, path: float) -> None:
        """Merge the basins of two anchors if ``path``, the highest energy between them, is not a barrier."""
        basins = self.basin[one], self.basin[two]
        if self.inner.intersection(basins):
            return
        low = [self.energy[self.basin == basin].min() for basin in basins]
        if path < max(low) + BARRIER_NATS:
            self.basin[self.basin == max(basins)] = min(basins)

    def _deepest_rim(self, anchors: np.ndarray, energy: float) -> np.ndarray:
        """Return the energy at which a barrier between a point and the basins of ``anchors`` begins."""
        low = np.array([self.energy[self.basin == self.basin[k]].min() for k in anchors])
        return np.maximum(low, energy) + BARRIER_NATS

    def _nearest(self, points: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return the indices of the NEAREST of ``others`` (other, dim) to each of ``points``, (point, number)."""
        from scipy.spatial.distance import cdist

        far = cdist(points / self.scale, others / self.scale)
        return np.argsort(far, axis=1, kind="stable")[:, :NEAREST]

    def _path(self, one: np.ndarray, energy_one: np.ndarray, two: np.ndarray, energy_two: np.ndarray) -> np.ndarray:
        """Return the highest energy on straight lines between paired points; +inf where there is a barrier."""
        ends = np.maximum(energy_one, energy_two)
        path = np.maximum(self._highest(one, two, FIRST_LOOK), ends)
        clear = path < ends + BARRIER_NATS
        path[clear] = np.maximum(path[clear], self._highest(one[clear], two[clear], CLOSE_LOOK))
        return np.where(path < ends + BARRIER_NATS, path, np.inf)

    def _highest(self, one: np.ndarray, two: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """Return the highest energy at ``shares`` of each line from a point of ``one`` to its partner in ``two``."""
        found, step = [], max(1, ENERGIES_AT_ONCE * 8 // len(shares))
        for i in range(0, len(one), step):
            start, end = one[i : i + step], two[i : i + step]
            line = start[:, None] + shares[:, None] * (end - start)[:, None]
            energy = self.energies(line.reshape(-1, one.shape[1]))
            found.append(energy.reshape(line.shape[:2]).max(axis=1))
        return np.concatenate(found) if found else np.zeros(0)

    def _padded(self, points: np.ndarray, size: int) -> np.ndarray:
        """Return points (point, dim), padded to ``size`` with copies of the first."""
        return np.concatenate([points, np.repeat(points[:1], size - len(points), axis=0)]).astype(self.dtype)


def _fall(before: Any, after: Any, finite: np.ndarray) -> np.ndarray:
    """Return the nats that each point lost in its descent, 0 where the energy was not ``finite``."""
    return np.subtract(before, after, where=finite, out=np.zeros(len(finite)), dtype=float)


def find_minima(
    energy_fn: TracedFunction, points: np.ndarray, scale: np.ndarray, steps: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the lowest point of each mode that ``points`` descend to, the mode of each, and the gradients spent.

    Points (point, dim) take at most ``steps`` descent steps, in units of ``scale``, a length for each coordinate. They
    do not move if ``energy_fn`` has no gradients. -1 marks points that belong to no mode.
    """
    basins = BasinMap(energy_fn, scale, points.dtype)
    anchor = basins.add(points, steps=steps)
    minima, _ = basins.minima()
    return minima.astype(points.dtype), np.where(anchor >= 0, basins.number()[anchor], -1), basins.spent
