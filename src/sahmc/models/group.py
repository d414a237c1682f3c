"""The group that symmetries make, acting on flat positions: which parts change places and which change sign."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from sahmc._support.pytree import strategy
from sahmc.models.symmetry import Flip, Ids, Involution, Parted, Permute, Symmetry

Flat = Any
"""Flat positions (..., dim), of NumPy or of JAX; what is made of them is of the same kind."""


@strategy
class Exchange:
    """Parts that may change places."""

    single: Int[Array | np.ndarray, "parts numbers"]
    """The places in the flat position of the numbers of each part."""
    double: Int[Array | np.ndarray, "parts parts pairs"]
    """Those of numbers that belong to two parts, as the entries of a matrix of which both axes change."""

    @property
    def num_parts(self) -> int:
        """The number of parts."""
        return self.single.shape[0]


@strategy
class Group:
    """All ways to exchange and to flip parts: first signs change, then places; other maps come before both."""

    exchanges: tuple[Exchange, ...]
    """The parts that may change places."""
    flips: tuple[Any, ...]
    """The places of the numbers of each part that may change its sign, arrays (part, number)."""
    involutions: tuple[Move, ...] = ()
    """Other elements that undo themselves, and do the same in whatever order they are applied."""

    @property
    def log_order(self) -> float:
        """The log of the number of elements."""
        exchanges = sum(math.lgamma(exchange.num_parts + 1) for exchange in self.exchanges)
        return exchanges + math.log(2) * (len(self.involutions) + sum(flip.shape[0] for flip in self.flips))

    def random(self, rng_key: Key[Array, ""], position: Float[Array, " dim"]) -> Move:
        """Return a random element, all of them alike, as a map of positions like this one."""
        keys = iter(jax.random.split(rng_key, len(self.exchanges) + len(self.flips) + len(self.involutions)))
        move = Move.identity(position)
        for involution, key in zip(self.involutions, keys, strict=False):
            move = move.then(involution.where(jax.random.bernoulli(key), position))
        for flip, key in zip(self.flips, keys, strict=False):
            move = move.then(flipped(position, flip, jax.random.rademacher(key, flip.shape[:1], position.dtype)))
        for exchange, key in zip(self.exchanges, keys, strict=True):
            order = jax.random.permutation(key, exchange.num_parts)
            move = move.then(exchanged(position, exchange, order))
        return move

    def random_copies(self, positions: np.ndarray, rng: np.random.Generator) -> Move:
        """Return a random element for each of some positions (..., dim), on the host."""
        move = Move.identity(positions)
        for involution in self.involutions:
            move = move.then(involution.where(rng.random(positions.shape[:-1]) < 0.5, positions))
        for flip in self.flips:
            move = move.then(flipped(positions, flip, rng.choice([-1.0, 1.0], (*positions.shape[:-1], len(flip)))))
        for exchange in self.exchanges:
            order = np.argsort(rng.random((*positions.shape[:-1], exchange.num_parts)), axis=-1)
            move = move.then(exchanged(positions, exchange, order))
        return move


@strategy
class Move:
    """An element of the group, or one for each of several positions: x -> sign * x[places]."""

    places: Any
    """The places from which numbers come, (..., dim)."""
    sign: Any
    """Their signs, (..., dim)."""

    @classmethod
    def identity(cls, position: Flat) -> Move:
        """Return the element that leaves positions as they are."""
        xp = numpy_of(position)
        return cls(xp.broadcast_to(xp.arange(position.shape[-1]), position.shape), xp.ones_like(position))

    def __call__(self, position: Flat) -> Flat:
        """Return the image of positions, or of their gradients."""
        return self.sign * numpy_of(position).take_along_axis(position, self.places, axis=-1)

    def inverse(self) -> Move:
        """Return the element that undoes this one."""
        back = self.places.argsort(axis=-1)
        return Move(back, numpy_of(self.sign).take_along_axis(self.sign, back, axis=-1))

    def where(self, chosen: Any, position: Flat) -> Move:
        """Return this element for those positions that are ``chosen`` (...,), and the identity for others."""
        still, xp = Move.identity(position), numpy_of(position)
        chosen = xp.asarray(chosen)[..., None]
        sign = xp.where(chosen, self.sign, still.sign).astype(position.dtype)
        return Move(xp.where(chosen, self.places, still.places), sign)

    def then(self, other: Move) -> Move:
        """Return the element that does this, and then ``other``."""
        take = numpy_of(self.sign).take_along_axis
        return Move(take(self.places, other.places, axis=-1), other.sign * take(self.sign, other.places, axis=-1))


def exchanged(position: Flat, exchange: Exchange, order: Any) -> Move:
    """Return the element that puts part ``order[k]`` (..., parts) in the place of part k, for positions like these."""
    still, as_array = Move.identity(position), numpy_of(position).asarray
    places = _put(still.places, exchange.single, as_array(exchange.single)[order])
    if exchange.double.shape[-1]:
        moved = as_array(exchange.double)[order[..., :, None], order[..., None, :]]
        places = _put(places, exchange.double, moved)
    return Move(places, still.sign)


def flipped(position: Flat, flip: Any, sign: Any) -> Move:
    """Return the element that gives each part its ``sign`` (..., parts), for positions like these."""
    still = Move.identity(position)
    spread = numpy_of(position).broadcast_to(sign[..., None], (*sign.shape, flip.shape[1]))
    return Move(still.places, _put(still.sign, flip, spread))


def make_group(symmetries: Sequence[Symmetry], ids: Ids) -> Group:
    """Return the group of some symmetries of positions whose arrays ``ids`` hold the place of each number."""
    exchanges = [Exchange(*_tables(one, ids)) for one in symmetries if isinstance(one, Permute)]
    flips = [_tables(one, ids)[0] for one in symmetries if isinstance(one, Flip)]
    involutions = [
        Move(np.array(one.places, np.int32), np.array(one.sign)) for one in symmetries if isinstance(one, Involution)
    ]
    return Group(tuple(exchanges), tuple(flips), tuple(involutions))


def _tables(symmetry: Parted, ids: Ids) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of the numbers of each part, and of those that belong to two parts."""
    parts = symmetry.length(ids)
    single, double = [np.zeros((parts, 0), int)], [np.zeros((parts, parts, 0), int)]
    for name, axes in symmetry.pairs:
        places, own = ids[name], [axis % ids[name].ndim for axis in axes]
        if len(own) == 2:
            double.append(np.moveaxis(places, own, (0, 1)).reshape(parts, parts, -1))
        else:
            single.append((np.moveaxis(places, own[0], 0) if own else places).reshape(parts, -1))
    return np.concatenate(single, -1).astype(np.int32), np.concatenate(double, -1).astype(np.int32)


def numpy_of(array: Any) -> Any:
    """Return ``numpy``, or ``jax.numpy``, whichever the array is of."""
    return np if isinstance(array, np.ndarray) else jnp


def _put(array: Any, places: Any, values: Any) -> Any:
    """Return an array (..., dim) with ``values`` at ``places`` of its last axis."""
    if isinstance(array, np.ndarray):
        array = np.array(array)
        array[..., places] = values
        return array
    return array.at[..., places].set(values.astype(array.dtype))
