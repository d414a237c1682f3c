"""The search for symmetries: maps that leave the log density unchanged at random points, up to rounding."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cache, cached_property

import jax
import jax.numpy as jnp
import numpy as np

from sahmc._support.types import Unravel
from sahmc.models.energy import trace_energy
from sahmc.models.evaluation import exact_energies
from sahmc.models.lines import bending_lengths
from sahmc.models.model import Model
from sahmc.models.positions import named
from sahmc.symmetry.maps import Axes, Flip, Ids, Involution, Move, Parted, Permute, Symmetry

POINTS, SPREAD = 8, 2.0
"""The number of random points at which a map is tried, and their spread around starts in each coordinate, both in the
given units and in the model's natural ones."""
MAGNITUDES, MOST_LENGTHS = 10.0 ** np.arange(-18, 19), 64
"""The lengths tried in search of the natural units, and the maximum number of units: with more coordinates, neighbours
share one."""
ROUNDING, BAD_ROUNDING = 1e3, 1e7
"""The tolerances for a change of energy, relative to its rounding error: at most points, and at every point. Far from
the mode a covariance may be nearly singular, and many digits are lost."""
TELLING = 0.1
"""The maximum tolerance in nats at which a symmetry is believed. If the energies are so large that rounding exceeds it,
any map looks like a symmetry."""
MOST_CHOICES = 4096
"""The maximum number of combinations of arrays and axes that are tried, fewest arrays first."""
MOST_REVERSED = 2
"""The maximum number of arrays that may change sign when two parts of others change places."""
QUICK_POINTS, QUICK = 4, 1e-4
"""The number of points of the quick test, and the relative change of energy that it allows at half of them. The test
runs in 32 bits, and energies are inexact far from the mode."""


Energies = Callable[[np.ndarray], np.ndarray]
"""A function from points (point, dim) to their energies and the prior's share, (point, 2)."""


def search_symmetries(trial: Trial, ids: Ids) -> tuple[Symmetry, ...]:
    """Return the symmetries of positions; the arrays ``ids`` hold the index of each number."""
    lengths = sorted({size for part in ids.values() for size in part.shape if size > 1})
    found: list[Parted] = []
    for length in lengths:
        found += _confirmed(trial, ids, length, Permute)
    for length in lengths:
        found += _confirmed(trial, ids, length, Flip)
    sliced = {name for one in found if isinstance(one, Flip) for name in one.names}
    whole = [Flip(names, ((),) * len(names)) for names in _subsets([n for n in ids if n not in sliced])]
    found += _minimal(trial, ids, whole)
    return (*found, *_exchanges_that_reverse(trial, ids, found))


class Trial:
    """The points at which maps are tried, in 64 bits, to distinguish exact symmetries from approximate ones.

    ``starts`` are flat positions (start, dim) around which points are drawn; ``unravel`` maps one to the user's
    structure. ``quick`` computes energies that may be wrong in the fifth digit.
    """

    def __init__(self, model: Model, starts: np.ndarray, unravel: Unravel, seed: int, quick: Energies | None = None):
        self.centre = starts[np.arange(POINTS) % len(starts)].astype(float)
        self.noise = SPREAD * np.random.default_rng(seed).normal(size=self.centre.shape)
        self.points, self.quick = self.centre + self.noise, quick
        self._program = cache(lambda: trace_energy(model, unravel, jnp.asarray(starts[0]), False))

    def those_that_hold(self, maps: Sequence[Move]) -> list[int]:
        """Return the indices of the maps that ``holds``; those that fail the quick test are not tried exactly."""
        likely: list[int] = np.flatnonzero(self._possible(maps)).tolist() if maps else []
        return list(itertools.compress(likely, self.holds([maps[k] for k in likely]))) if likely else []

    def _possible(self, maps: Sequence[Move]) -> np.ndarray:
        """Tell which maps may leave the energy unchanged, by a quick test."""
        if self.quick is None:
            return np.full(len(maps), True)
        points = self.points[:QUICK_POINTS]
        images = np.concatenate([points, *(each(points) for each in maps)])
        energy = self.quick(images).reshape(len(maps) + 1, len(points), 2)
        return (_alike(energy[1:], energy[0], QUICK).mean(axis=1) >= 0.5) | ~np.isfinite(energy[0]).all()

    def holds(self, maps: Sequence[Move]) -> np.ndarray:
        """Tell which maps leave likelihood and prior unchanged at all points where these are finite.

        This is also tested in the model's natural units, at points where rounding is small enough. Two given units from
        a start, the likelihood of a small parameter may be so steep that its rounding hides an asymmetry of the prior.
        """
        found = self._hold(maps, self.points, self._far)
        if found.any():
            near, energy = self._near
            some = np.flatnonzero(found)
            found[some] = len(near) > 0 and self._hold([maps[int(k)] for k in some], near, energy)
        return found

    def _hold(self, maps: Sequence[Move], points: np.ndarray, before: np.ndarray) -> np.ndarray:
        """Tell which maps leave the energies ``before`` (point, 2) of points unchanged; all, if none is finite."""
        fine = np.isfinite(before).all(axis=1)
        if not fine.any():
            return np.ones(len(maps), bool)
        before, eps = before[fine], float(np.finfo(float).eps)
        images = np.concatenate([each(points[fine]) for each in maps])
        after = self._energies(images).reshape(len(maps), *before.shape)
        most = _alike(after, before, ROUNDING * eps).mean(axis=1) > 0.5
        return most & _alike(after, before, BAD_ROUNDING * eps).all(axis=1)

    @cached_property
    def _far(self) -> np.ndarray:
        """Return the energies of the points."""
        return self._energies(self.points)

    @cached_property
    def _near(self) -> tuple[np.ndarray, np.ndarray]:
        """Return points near the starts in natural units, with rounding too small to matter, and their energies."""

        def total(points: np.ndarray) -> np.ndarray:
            with np.errstate(invalid="ignore", over="ignore"):
                return np.asarray(self._energies(points).sum(axis=1))

        home = self.centre[np.nan_to_num(total(self.centre), nan=np.inf).argmin()]
        dim = len(home)
        group = np.arange(dim) * min(dim, MOST_LENGTHS) // dim
        lengths, _ = bending_lengths(lambda by: total(home + by[:, group]), np.zeros(group[-1] + 1), MAGNITUDES)
        points = self.centre + lengths[group] * self.noise
        energy = self._energies(points)
        telling = ROUNDING * np.finfo(float).eps * np.abs(energy).max(axis=1) < TELLING
        return points[telling], energy[telling]

    def _energies(self, points: np.ndarray) -> np.ndarray:
        return exact_energies(self._program(), points)


def _alike(after: np.ndarray, before: np.ndarray, rounding: float) -> np.ndarray:
    """Tell where the energies ``after`` (map, point, 2) equal those ``before`` (point, 2), within ``rounding``."""
    with np.errstate(invalid="ignore"):
        return np.asarray((np.abs(after - before) <= rounding * (1 + np.abs(before))).all(axis=2))


def _confirmed(trial: Trial, ids: Ids, length: int, kind: type[Permute | Flip]) -> list[Parted]:
    """Return the symmetries of one kind among axes of one length; two axes of an array may be permuted together."""
    choices: dict[str, list[Axes]] = {}
    for name, part in ids.items():
        axes = [axis for axis, size in enumerate(part.shape) if size == length]
        choices[name] = [(axis,) for axis in axes]
        choices[name] += itertools.combinations(axes, 2) if kind is Permute else []
    candidates: list[Parted] = []
    for names in _subsets([name for name in ids if choices[name]]):
        candidates += [kind(names, axes) for axes in itertools.product(*(choices[name] for name in names))]
    return _minimal(trial, ids, candidates[:MOST_CHOICES])


def _minimal(trial: Trial, ids: Ids, candidates: Sequence[Parted]) -> list[Parted]:
    """Return the candidates that hold and are not composed of smaller ones."""
    found: list[Parted] = []
    for k in trial.those_that_hold([one.generators(ids)[0] for one in candidates]):
        one = candidates[k]
        known = {pair for other in found if set(other.pairs) <= set(one.pairs) for pair in other.pairs}
        if known != set(one.pairs) and trial.holds(one.generators(ids)).all():
            found.append(one)
    return found


def _exchanges_that_reverse(trial: Trial, ids: Ids, found: Sequence[Parted]) -> list[Involution]:
    """Return symmetries that exchange two parts of some arrays and flip others; arrays in ``found`` are left out.

    An example is a mixture of two components with weights p and 1 - p.
    """
    known = {name for one in found for name in one.names}
    axes = {name: [k for k, size in enumerate(part.shape) if size == 2] for name, part in ids.items()}
    double = [name for name in ids if axes[name] and name not in known]
    single = [name for name in ids if not axes[name] and name not in known]
    reversed_ = [some for size in range(1, MOST_REVERSED + 1) for some in itertools.combinations(single, size)]
    every = (
        (Permute(some, chosen), Flip(others, ((),) * len(others)))
        for others in reversed_
        for some in _subsets(double)
        for chosen in itertools.product(*(axes[name] for name in some))
    )
    candidates = list(itertools.islice(every, MOST_CHOICES))
    maps = [Move(one.generators(ids)[0].places, two.generators(ids)[0].sign) for one, two in candidates]
    made: list[Involution] = []
    used: set[str] = set()
    for k in trial.those_that_hold(maps):
        (one, two), image = candidates[k], maps[k]
        if used.isdisjoint({*one.names, *two.names}):
            used |= {*one.names, *two.names}
            name = f"exchanging the parts of {' and '.join(one.names)} and reversing {' and '.join(two.names)}"
            zero = np.zeros(len(image.sign))
            made.append(Involution(name, *(tuple(x.tolist()) for x in (image.places, image.sign, zero))))
    return made


def _subsets(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return all subsets, the smallest first, up to MOST_CHOICES of them."""
    every = (some for size in range(1, len(names) + 1) for some in itertools.combinations(names, size))
    return list(itertools.islice(every, MOST_CHOICES))


def places(unravel: Unravel, example: jax.Array | np.ndarray) -> Ids:
    """Return the arrays that ``unravel`` makes of a flat position like ``example``, with the index of each number."""
    whole = unravel(jnp.arange(len(example), dtype=example.dtype))
    return {name: np.asarray(leaf).astype(int) for name, leaf in named(whole).items()}
