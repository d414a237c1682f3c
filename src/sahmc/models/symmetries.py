"""The symmetries of the posterior of a run, as that run uses them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sahmc.models.group import Exchange, Group, Move, make_group
from sahmc.models.positions import Unpacker, named
from sahmc.models.symmetry import Axes, Flip, Ids, Permute, Symmetry

KINDS: dict[str, type[Symmetry]] = {"permute": Permute, "flip": Flip}
"""The kinds of symmetry, by the names that they have in files."""
SAME = 1e-4
"""The share of its size by which a variable may be off, by rounding, where it should be carried along."""


@dataclass(frozen=True)
class Symmetries:
    """Symmetries of flat positions."""

    each: tuple[Symmetry, ...]
    """The symmetries, by names and axes."""
    ids: Ids
    """The place in the flat position of each number of the arrays that have these names."""
    given: bool = False
    """Whether they were given, and are to be used even if no mode has copies."""

    @property
    def group(self) -> Group:
        """The group that they make."""
        return make_group(self.each, self.ids)

    def only(self, group: Group) -> Symmetries:
        """Return those whose exchanges and flips are in a group."""
        mine = self.group
        tables, theirs = ([*map(_places, each.exchanges), *each.flips] for each in (mine, group))
        ordered = sorted(self.each, key=lambda one: isinstance(one, Flip))
        kept = [one for one, table in zip(ordered, tables, strict=True) if any(_equal(table, t) for t in theirs)]
        return Symmetries(tuple(kept), self.ids)

    def random_copies(self, positions: np.ndarray, rng: np.random.Generator) -> Move:
        """Return a random element of the group for each of some positions (..., dim)."""
        return self.group.random_copies(positions, rng)

    def of_variables(self, unpack: Unpacker, points: np.ndarray) -> tuple[Symmetry, ...]:
        """Return the same symmetries of the variables that ``unpack`` makes, as they show at points (point, dim).

        Variables that no symmetry changes are in none; nor are those that change in ways that are no symmetry.
        """
        if unpack.constrain is None:
            return self.each
        values = named(unpack.all(points))
        found: list[Symmetry] = []
        for symmetry in self.each:
            maps = symmetry.generators(self.ids)
            images = [named(unpack.all(each(points).astype(points.dtype))) for each in maps]
            axes = {name: _carried(values[name], [i[name] for i in images], symmetry) for name in values}
            pairs = [(name, axis) for name, axis in axes.items() if axis is not None]
            if pairs:
                found.append(type(symmetry)([name for name, _ in pairs], [axis for _, axis in pairs]))
        return tuple(found)


def _carried(value: np.ndarray, images: Sequence[np.ndarray], symmetry: Symmetry) -> Axes | None:
    """Return the axes along which a variable (point, ...) is carried along with a symmetry; None if it is not.

    ``images`` are the same variable where each generator of the symmetry was applied before.
    """
    if all(_same(value, image) for image in images):
        return None
    shape = value.shape[1:]
    single: list[Axes] = [(axis,) for axis in range(len(shape))]
    choices: list[Axes] = [*single, *itertools.combinations(range(len(shape)), 2)]
    places = np.arange(int(np.prod(shape))).reshape(shape)
    for axes in choices if isinstance(symmetry, Permute) else [*single, ()]:
        if len({shape[axis] for axis in axes}) > 1:
            continue
        maps = type(symmetry)("x", [axes]).generators({"x": places})
        flat = value.reshape(len(value), -1)
        if len(maps) == len(images) and all(
            _same(each(flat), image.reshape(flat.shape)) for each, image in zip(maps, images, strict=True)
        ):
            return axes
    return None


def _places(exchange: Exchange) -> np.ndarray:
    return np.concatenate([np.ravel(exchange.single), np.ravel(exchange.double)])


def _equal(one: Any, two: Any) -> bool:
    return np.shape(one) == np.shape(two) and bool(np.all(np.asarray(one) == np.asarray(two)))


def _same(one: np.ndarray, two: np.ndarray) -> bool:
    return bool(np.allclose(one, two, rtol=SAME, atol=SAME * float(np.abs(one).max(initial=0.0)), equal_nan=True))


def as_data(symmetries: Sequence[Symmetry]) -> list[dict[str, Any]]:
    """Return symmetries as JSON can hold them."""
    names = {kind: name for name, kind in KINDS.items()}
    return [
        {"kind": names[type(one)], "names": list(one.names), "axis": [list(axes) for axes in one.axis]}
        for one in symmetries
    ]


def from_data(data: Sequence[Any]) -> list[Symmetry]:
    """Return what ``as_data`` made such data of."""
    return [KINDS[one["kind"]](list(one["names"]), [tuple(axes) for axes in one["axis"]]) for one in data]
