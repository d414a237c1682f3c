"""Symmetries of a position: permutations or sign changes of its parts that leave a density unchanged.

Components of a mixture, hidden states, hidden units and factors can change places, and factors can change sign. This is
label switching: every mode then has copies, K! of them for K components.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeGuard, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from sahmc._support.pytree import strategy
from sahmc._support.validate import Given, require

Axes = tuple[int, ...]
"""The axes along which an array is permuted, all in the same way, or the axis along which it is flipped."""

Ids = Mapping[str, np.ndarray]
"""Arrays like those of a position, by name, with the index of each number in the flat position."""

Numbers = np.ndarray | jax.Array
"""An array of NumPy or JAX."""

Flat = TypeVar("Flat", np.ndarray, jax.Array)
"""Flat positions (..., dim), of NumPy or JAX; results are of the same kind."""


@strategy
class Move:
    """A map of flat positions, or one for each of several: x -> sign * x[places]."""

    places: Numbers
    """The index from which each number comes, (..., dim)."""
    sign: Numbers
    """The sign of each number, 1 or -1, (..., dim)."""

    @classmethod
    def identity(cls, position: Numbers) -> Move:
        """Return the identity."""
        xp = numpy_of(position)
        return cls(xp.broadcast_to(xp.arange(position.shape[-1]), position.shape), xp.ones_like(position))

    def __call__(self, position: Flat) -> Flat:
        """Return the image of positions, or of their gradients."""
        xp = numpy_of(position)
        places = xp.broadcast_to(self.places, np.broadcast_shapes(self.places.shape, position.shape))
        return self.sign * xp.take_along_axis(position, places, axis=-1)

    def inverse(self) -> Move:
        """Return the inverse of this map."""
        back = self.places.argsort(axis=-1)
        return Move(back, numpy_of(self.sign).take_along_axis(self.sign, back, axis=-1))

    def where(self, chosen: Numbers | np.bool_ | bool, position: Numbers) -> Move:
        """Return this map for the positions that are ``chosen`` (...,), and the identity for the others."""
        still, xp = Move.identity(position), numpy_of(position)
        chosen = xp.asarray(chosen)[..., None]
        sign = xp.where(chosen, self.sign, still.sign).astype(position.dtype)
        return Move(xp.where(chosen, self.places, still.places), sign)

    def then(self, other: Move) -> Move:
        """Return the composition: this map first, then ``other``."""
        take = numpy_of(self.sign).take_along_axis
        return Move(take(self.places, other.places, axis=-1), other.sign * take(self.sign, other.places, axis=-1))


def numpy_of(array: Numbers) -> ModuleType:
    """Return ``numpy`` or ``jax.numpy``, whichever matches the array."""
    return np if isinstance(array, np.ndarray) else jnp


class Symmetry(ABC):
    """A symmetry of a position."""

    @abstractmethod
    def generators(self, ids: Ids) -> list[Move]:
        """Return the maps that generate all others; ``ids`` are arrays with the index of each number."""


@dataclass(frozen=True)
class Involution(Symmetry):
    """A map that exchanges numbers or changes their signs, and is its own inverse: x -> shift + sign * x[places].

    A function given as a symmetry becomes an ``Involution``.
    """

    name: str
    """The name shown for it."""
    places: tuple[int, ...]
    """The index from which each number comes."""
    sign: tuple[float, ...]
    """The sign of each number, 1 or -1."""
    shift: tuple[float, ...]
    """The shift of each number: 0 for numbers of a position; a share p may become 1 - p."""

    def __call__(self, flat: np.ndarray) -> np.ndarray:
        """Return the image of vectors (..., dim)."""
        return np.asarray(self.shift) + np.asarray(self.sign) * flat[..., list(self.places)]

    def generators(self, ids: Ids) -> list[Move]:
        """Return the map itself."""
        return [Move(np.array(self.places, np.int32), np.array(self.sign))]

    def __repr__(self) -> str:
        moved = sum(k != place or sign < 0 for k, (place, sign) in enumerate(zip(self.places, self.sign, strict=True)))
        return f"Involution({self.name!r}, {moved} numbers)"


@dataclass(frozen=True)
class Parted(Symmetry):
    """A symmetry that acts on parts: the names of its arrays, and the axes of the parts.

    ``names``
        The name of an array, or a list of names of arrays that change together. They are keys of a dict, joined by dots
        where nested; "x" for a position that is one array.
    ``axis``
        The axis of the parts, an int for all arrays, or a list with an entry for each name. An entry is an int, a tuple
        of axes that change in the same way, or () for an array that changes as a whole. For a single name, pass the
        entry itself. Default 0.
    """

    names: Given
    axis: Any = 0

    def __post_init__(self) -> None:
        names = (self.names,) if isinstance(self.names, str) else _entries(self.names)
        given = [self.axis] if isinstance(self.names, str) and isinstance(self.axis, tuple) else self.axis
        axes = (given,) * len(names) if _is_axis(given) else _entries(given)
        whole = tuple((int(axis),) if _is_axis(axis) else _entries(axis) for axis in axes)
        known = all(isinstance(name, str) for name in names) and all(_is_axis(axis) for each in whole for axis in each)
        sound = all(_is_axis(axis) or isinstance(axis, (list, tuple)) for axis in axes)
        require(
            known and sound and len(axes) == len(names) > 0 and len(set(names)) == len(names),
            "a symmetry needs names of arrays, each once, and an axis for each",
            f"names={self.names!r}, axis={self.axis!r}",
            'write Permute(["mu", "sigma"], axis=0)',
        )
        object.__setattr__(self, "names", tuple(map(str, names)))
        object.__setattr__(self, "axis", tuple(tuple(map(int, each)) for each in whole))

    def length(self, ids: Ids) -> int:
        """Return the number of parts that change; raise ``ValueError`` if arrays do not have such parts."""
        for name, axes in self.pairs:
            require(name in ids, "a symmetry is of arrays that a position has", f"{name!r} of {list(ids)}", "check it")
            ok = all(-ids[name].ndim <= axis < ids[name].ndim for axis in axes)
            require(ok, f"{name!r} has {ids[name].ndim} axes", f"axis {axes}", "check the axis")
        sizes = {ids[name].shape[axis] for name, axes in self.pairs for axis in axes} or {1}
        must = "all arrays of a symmetry have the same length along its axis"
        require(len(sizes) == 1, must, sorted(sizes), "check names and axes")
        return int(sizes.pop())

    @property
    def pairs(self) -> list[tuple[str, Axes]]:
        """The names with their axes."""
        return list(zip(self.names, self.axis, strict=True))


class Permute(Parted):
    """Parts along an axis that may change places: components of a mixture, hidden states, hidden units."""

    def generators(self, ids: Ids) -> list[Move]:
        """Return the exchanges of neighbouring parts."""
        parts, maps = self.length(ids), []
        for part in range(parts - 1):
            order = np.arange(parts)
            order[[part, part + 1]] = part + 1, part
            places = np.arange(_size(ids))
            for name, axes in self.pairs:
                moved = ids[name]
                for axis in axes:
                    moved = np.take(moved, order, axis=axis)
                places[ids[name].ravel()] = moved.ravel()
            maps.append(Move(places, np.ones(len(places))))
        return maps


class Flip(Parted):
    """Parts along an axis, or whole arrays, that may change sign: factors, with their scores."""

    def generators(self, ids: Ids) -> list[Move]:
        """Return the maps that flip one part each."""
        maps = []
        for part in range(self.length(ids)):
            sign = np.ones(_size(ids))
            for name, axes in self.pairs:
                mine = np.take(ids[name], part, axis=axes[0]) if axes else ids[name]
                sign[np.ravel(mine)] = -1.0
            maps.append(Move(np.arange(len(sign)), sign))
        return maps


def _is_axis(value: object) -> TypeGuard[int]:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _entries(value: Any) -> tuple[Any, ...]:
    """Return the entries of a list or another iterable; empty for anything else."""
    try:
        return tuple(value)
    except TypeError:
        return ()


def _size(ids: Ids) -> int:
    return sum(part.size for part in ids.values())
