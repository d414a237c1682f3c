"""The symmetries of the posterior, as a run uses them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sahmc._support.frozen import frozen, thawed
from sahmc.models.positions import Unpacker, named
from sahmc.symmetry.group import Group, make_group
from sahmc.symmetry.maps import Axes, Flip, Ids, Involution, Parted, Permute, Symmetry

KINDS: dict[str, Callable[..., Symmetry]] = {"permute": Permute, "flip": Flip, "involution": Involution}
"""The kinds of symmetry, by their names in files."""
SAME = 1e-4
"""The maximum relative error, from rounding, of a variable's image under a symmetry."""


@dataclass(frozen=True)
class Symmetries:
    """Symmetries of flat positions."""

    each: tuple[Symmetry, ...]
    """The symmetries, by names and axes."""
    ids: Ids
    """The index, in the flat position, of each number of the named arrays."""
    given: bool = False
    """Whether the user gave them, so that they are used even if no mode has copies."""

    @property
    def group(self) -> Group:
        """The group they generate."""
        return make_group(self.each, self.ids)

    def only(self, group: Group) -> Symmetries:
        """Return the symmetries whose exchanges and flips belong to a group."""
        theirs = _tables(group)

        def belongs(one: Symmetry) -> bool:
            mine = _tables(make_group([one], self.ids))
            return all(any(np.array_equal(table, other) for other in theirs) for table in mine)

        return Symmetries(tuple(filter(belongs, self.each)), self.ids)

    def of_variables(self, unpack: Unpacker, points: np.ndarray) -> tuple[Symmetry, ...]:
        """Return the same symmetries for the variables of ``unpack``, as they act at points (point, dim).

        Variables that no symmetry changes are left out, and so are those that change in a way that is not a symmetry.
        """
        if unpack.constrain is None:
            return self.each
        values = named(unpack.all(points))
        found: list[Symmetry] = []
        for symmetry in self.each:
            maps = symmetry.generators(self.ids)
            images = [named(unpack.all(each(points).astype(points.dtype))) for each in maps]
            if isinstance(symmetry, Involution):
                seen = affine_map(symmetry.name, _flat(values), _flat(images[0]))
                found += [] if seen is None else [seen]
            if not isinstance(symmetry, Parted):
                continue
            axes = {name: _carried(values[name], [i[name] for i in images], symmetry) for name in values}
            pairs = [(name, axis) for name, axis in axes.items() if axis is not None]
            if pairs:
                found.append(type(symmetry)([name for name, _ in pairs], [axis for _, axis in pairs]))
        return tuple(found)


def affine_map(name: str, values: np.ndarray, images: np.ndarray) -> Involution | None:
    """Return the map that carries vectors (point, dim) to their ``images``, if it moves, flips or shifts each number.

    None if some image is not one of the numbers up to sign and shift, or if the map is not its own inverse.
    """
    places, signs, shifts = [], [], []
    size = np.maximum(np.abs(values).max(axis=0), 1e-30)
    for k, image in enumerate(images.T):
        for sign in (1.0, -1.0):
            shift = image[:, None] - sign * values
            off = np.ptp(shift, axis=0) / np.maximum(size, np.abs(image).max())
            own = off[k] < SAME and (sign > 0 or np.ptp(image) > 0)
            best = k if own else int(np.argmin(off))
            if off[best] < SAME:
                places.append(best)
                signs.append(sign)
                shifts.append(float(np.median(shift[:, best])))
                break
        else:
            return None
    shifts = [0.0 if abs(x) < SAME * size[place] else round(x, 6) for x, place in zip(shifts, places, strict=True)]
    made = Involution(name, tuple(places), tuple(signs), tuple(shifts))
    return made if np.allclose(made(made(values)), values, rtol=SAME, atol=SAME * float(size.max())) else None


def _flat(values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return arrays (point, ...) as one, (point, dim)."""
    return np.concatenate([np.reshape(value, (len(value), -1)) for value in values.values()], axis=1).astype(float)


def _carried(value: np.ndarray, images: Sequence[np.ndarray], symmetry: Parted) -> Axes | None:
    """Return the axes along which a symmetry permutes or flips a variable (point, ...); None if it does not.

    ``images`` are the values of the variable after each generator of the symmetry.
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


def _tables(group: Group) -> list[np.ndarray]:
    """Return arrays that identify the exchanges, flips and involutions, one for each."""
    exchanges = [np.concatenate([np.ravel(one.single), np.ravel(one.double)]) for one in group.exchanges]
    flips = [-1 - np.asarray(flip) for flip in group.flips]
    return [*exchanges, *flips, *(np.stack([one.places, one.sign]) for one in group.involutions)]


def _same(one: np.ndarray, two: np.ndarray) -> bool:
    return bool(np.allclose(one, two, rtol=SAME, atol=SAME * float(np.abs(one).max(initial=0.0)), equal_nan=True))


def as_data(symmetries: Sequence[Symmetry]) -> list[dict[str, Any]]:
    """Return symmetries in a form that JSON can hold."""
    names = {kind: name for name, kind in KINDS.items()}
    return [{"kind": names[type(one)], **thawed(vars(one))} for one in symmetries]


def from_data(data: Sequence[Mapping[str, Any]]) -> list[Symmetry]:
    """Return the symmetries from the data of ``as_data``."""
    return [KINDS[one["kind"]](**{key: frozen(x) for key, x in one.items() if key != "kind"}) for one in data]
