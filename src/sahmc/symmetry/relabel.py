"""Relabelling: all draws of a posterior with copies are carried to one copy, so that each part keeps its meaning.

A symmetry carries each draw to the copy nearest to a centre. Parts are matched to those of the centre at least cost
(the Hungarian algorithm), and signs follow the centre's. The centre is then the mean of the carried draws. This is
repeated until no draw changes.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree
from scipy.optimize import linear_sum_assignment

from sahmc._support.validate import require
from sahmc.models.positions import named
from sahmc.symmetry.maps import Flip, Involution, Parted, Permute

MOST_ROUNDS = 20
"""The maximum number of rounds of carrying draws to a new centre."""
NARROWEST = 1e-2
"""The minimum spread of a part of the centre, relative to the spread of all parts together."""

Arrays = dict[str, np.ndarray]
"""Arrays by name: draws (draw, ...), or something of the shape of one draw."""


def relabel(draws: PyTree, log_density: np.ndarray, weight: np.ndarray, symmetries: Any) -> PyTree:
    """Return draws, a pytree of arrays (chain, draw, ...), all carried by ``symmetries`` to the same copy.

    The first centre is the draw of highest ``log_density`` (chain, draw); later ones are means weighted by ``weight``.
    """
    leaves, structure = jax.tree.flatten(draws)
    names = list(named(draws))
    lead = log_density.shape
    arrays = {name: np.array(leaf).reshape(-1, *leaf.shape[2:]) for name, leaf in zip(names, leaves, strict=True)}
    _check(arrays, symmetries)
    orders = [one for one in symmetries if isinstance(one, Permute)]
    signs = [one for one in symmetries if isinstance(one, Flip)]
    others = [one for one in symmetries if isinstance(one, Involution)]
    share = weight.ravel() / weight.sum()
    centre = {name: array[np.argmax(log_density)].astype(float) for name, array in arrays.items()}
    spread = {name: array.std(axis=0, dtype=float) for name, array in arrays.items()}
    for _ in range(MOST_ROUNDS):
        moved = False
        for symmetry in orders:
            signed = any(set(symmetry.pairs) == set(other.pairs) for other in signs)
            moved |= _permuted(arrays, centre, spread, symmetry, signed)
        for flip in signs:
            moved |= _flipped(arrays, centre, spread, flip)
        for involution in others:
            moved |= _carried(arrays, centre, spread, involution)
        if not moved:
            break
        centre = {name: np.tensordot(share, array, axes=1) for name, array in arrays.items()}
        square = {name: np.tensordot(share, np.square(array, dtype=float), axes=1) for name, array in arrays.items()}
        spread = {name: np.sqrt(np.maximum(square[name] - centre[name] ** 2, 0.0)) for name in names}
    return jax.tree.unflatten(structure, [arrays[name].reshape(*lead, *arrays[name].shape[1:]) for name in names])


def _check(arrays: Arrays, symmetries: Any) -> None:
    """Raise ``ValueError`` for anything that is not a symmetry of these draws."""
    ids, start = {}, 0
    for name, array in arrays.items():
        size = int(np.prod(array.shape[1:]))
        ids[name] = np.arange(start, start + size).reshape(array.shape[1:])
        start += size
    advice = "pass what sahmc.find_symmetries returned, or a list of Permute and Flip"
    require(isinstance(symmetries, (list, tuple)), "symmetries must be a list", symmetries, advice)
    for symmetry in symmetries:
        known = isinstance(symmetry, (Parted, Involution))
        require(known, "a symmetry is a Permute or a Flip", symmetry, advice)
        if isinstance(symmetry, Parted):
            symmetry.length(ids)
        else:
            fits = len(symmetry.places) == start
            require(fits, f"draws must have {len(symmetry.places)} numbers", start, "pass symmetries of these draws")


def _permuted(arrays: Arrays, centre: Arrays, spread: Arrays, symmetry: Parted, signed: bool) -> bool:
    """Sort the parts of each draw to match the centre best; tell whether any draw changed.

    A part of the centre is a Gaussian with the ``spread`` of the draws already there. If ``signed``, the signs of the
    parts may change too, and the nearer sign counts.
    """
    parts, goal, width = (_parts(some, symmetry, lead) for some, lead in ((arrays, 1), (centre, 0), (spread, 0)))
    unit = np.maximum(parts.std(axis=(0, 1)), 1e-300)
    parts, goal, width = parts / unit, goal / unit, np.maximum(width / unit, NARROWEST)
    alike = np.einsum("ka,nla->nkl", goal / width**2, parts)
    cost = (goal**2 / width**2 + 2 * np.log(width)).sum(axis=1)[:, None] - 2 * (np.abs(alike) if signed else alike)
    cost += np.einsum("ka,nla->nkl", width**-2, parts**2)
    order = np.argmin(cost, axis=2)
    unsure = np.flatnonzero((np.sort(order, axis=1) != np.arange(order.shape[1])).any(axis=1))
    order[unsure] = [linear_sum_assignment(cost[n])[1] for n in unsure] if len(unsure) else order[unsure]
    changed = np.flatnonzero((order != np.arange(order.shape[1])).any(axis=1))
    for name, axes in symmetry.pairs:
        some = arrays[name][changed]
        for axis in axes:
            place = axis % (some.ndim - 1) + 1
            index = np.expand_dims(order[changed], tuple(i for i in range(1, some.ndim) if i != place))
            some = np.take_along_axis(some, index, axis=place)
        arrays[name][changed] = some
    return bool(len(changed))


def _parts(arrays: Arrays, symmetry: Parted, lead: int) -> np.ndarray:
    """Return the numbers that identify each part, (..., part, number), for arrays with ``lead`` leading axes.

    An array with two axes that change together is represented by its diagonal.
    """
    rows = []
    for name, axes in symmetry.pairs:
        array = arrays[name]
        own = [axis % (array.ndim - lead) + lead for axis in axes]
        if len(own) == 2:
            rows.append(np.moveaxis(np.diagonal(array, axis1=own[0], axis2=own[1]), -1, lead))
        else:
            rows.append(np.moveaxis(array, own[0], lead))
    return np.concatenate([row.reshape(*row.shape[: lead + 1], -1) for row in rows], axis=-1).astype(float)


def _flipped(arrays: Arrays, centre: Arrays, spread: Arrays, symmetry: Parted) -> bool:
    """Give the parts of each draw the signs nearest to the centre; tell whether any draw changed."""
    alike: np.ndarray | float = 0.0
    within = {}  # the axes inside a part
    for name, axes in symmetry.pairs:
        array, unit = arrays[name], max(float(arrays[name].std()), 1e-300)
        product = array * (centre[name] / np.maximum(spread[name], NARROWEST * unit) ** 2)
        kept = {axis % (array.ndim - 1) + 1 for axis in axes}
        within[name] = tuple(i for i in range(1, array.ndim) if i not in kept)
        alike = alike + product.sum(axis=within[name])
    sign = np.where(np.asarray(alike) < 0, -1.0, 1.0)
    for name, inner in within.items():
        arrays[name] = arrays[name] * np.expand_dims(sign, inner).astype(arrays[name].dtype)
    return bool((sign < 0).any())


def _carried(arrays: Arrays, centre: Arrays, spread: Arrays, symmetry: Involution) -> bool:
    """Apply an involution to each draw that it brings nearer to the centre; tell whether any draw changed."""
    draws = np.concatenate([array.reshape(len(array), -1) for array in arrays.values()], axis=1)
    goal, width = (np.concatenate([np.ravel(some[name]) for name in arrays]) for some in (centre, spread))
    unit = np.maximum(draws.std(axis=0, dtype=float), 1e-300)
    width = np.maximum(width, NARROWEST * unit)
    image = symmetry(draws)
    gain = (((draws - goal) / width) ** 2 - ((image - goal) / width) ** 2).sum(axis=1)
    changed = np.flatnonzero(gain > 0)
    start = 0
    for name, array in arrays.items():
        size = array[0].size
        arrays[name][changed] = image[changed, start : start + size].reshape(-1, *array.shape[1:])
        start += size
    return bool(len(changed))
