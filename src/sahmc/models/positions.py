"""Positions: any pytree of float arrays for the user, flat vectors inside the library."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from sahmc._support.compiled import compiled
from sahmc._support.traced import TracedFunction, trace
from sahmc._support.types import Position, PositionFn, Unravel
from sahmc._support.validate import require
from sahmc.models.evaluation import in_blocks
from sahmc.models.model import Labels, Model

AXES, MOST_NAME = ("chain", "draw"), 200
"""The names that variables cannot have, and the maximum length of a name in bytes: files add a few to it."""
NO_FILES = ("", ".", "..", "zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")
"""Other names that variables cannot have: a file or a Zarr store uses them for something else."""
VECTORS_AT_ONCE = 4096
"""The number of vectors whose variables are computed at once."""


def structure(position: Position) -> str:
    """Return the structure of a position and the shapes of its arrays as text, for comparison."""
    return str(jax.tree.map(jnp.shape, position))


def flatten(position: Position, where: str) -> tuple[jax.Array, Unravel]:
    """Return a position as one vector, and the map from such vectors back to the user's structure.

    ``where`` names the position in the error raised if it does not consist of real float arrays.
    """
    leaves = jax.tree.leaves(position)
    try:
        kinds = [np.asarray(leaf).dtype for leaf in leaves]
    except (TypeError, ValueError):
        kinds = [np.dtype(object)]
    require(
        all(kind in (np.float32, np.float64) for kind in kinds),
        "a position must be made of real floating-point arrays of 32 or 64 bits",
        f"dtypes {[str(kind) for kind in kinds]} at {where}",
        "write 0.0 rather than 0, or convert with jnp.asarray(x, float)",
    )
    flat, unravel = ravel_pytree(jax.tree.map(jnp.asarray, position))
    require(flat.size > 0, "a position must hold at least one number", f"{where} is empty", "pass a non-empty array")
    return flat, unravel


def require_shapes(variables: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise ``ValueError`` for the first of the ``variables`` that does not have its shape in the model."""
    for name, value in variables.items():
        require(
            np.shape(value) == tuple(shapes[name]),
            f"initvals must have the shapes of the variables, and {name!r} has {tuple(shapes[name])}",
            np.shape(value),
            "pass one value of each variable, or a list of such dicts with one for each chain",
        )


def called(function: PositionFn, position: Position, what: str) -> PyTree:
    """Return a user's function of a position; raise ``ValueError`` about ``what`` if it reads a missing key.

    The position may also be named variables.
    """
    try:
        return function(position)
    except KeyError as error:
        key = error.args[0] if error.args else None
        if not isinstance(position, Mapping) or key in position:
            raise
        known = ", ".join(map(repr, named(position)))
        must = f"{what} must read keys that are there, which are {known}"
        raise ValueError(f"{must}; got {key!r}. To fix it, use one of these, or start from a dict with it.") from error


def require_storable(tree: PyTree, dims: Mapping[str, Sequence[str]] | None = None) -> None:
    """Raise ``ValueError`` for variables whose names no tree or file can hold, before anything is sampled.

    ``tree`` holds the variables, or stand-ins for them, and ``dims`` the names of the axes of some of them.
    """
    variables, given = named(tree), dims or {}
    written = {name: in_tree(name) for name in variables}
    axes = {
        axis
        for name, x in variables.items()
        for axis in given.get(name, [f"{written[name]}_dim_{i}" for i in range(x.ndim)])  # the latter is ArviZ's way
    }
    for name, short in written.items():
        why = ""
        if short in AXES:
            why = "the name of an axis of all draws"
        elif short in axes:
            why = "the name of an axis of a variable"
        elif short in NO_FILES or "\0" in name or name.encode("utf-8", "replace").decode() != name:
            why = "no name for a file"
        elif len(name.encode()) > MOST_NAME:
            why = f"longer than {MOST_NAME} bytes"
        elif list(written.values()).count(short) > 1:
            why = "the name of two, once each slash is a dot, as a tree needs it"
        must = "variables must have names that a tree of ArviZ and a file can hold"
        require(not why, must, f"{name[:40]}, which is {why}", "rename it")
    ok = len(variables) == len(jax.tree.leaves(tree))
    must = "variables must have different names, those of nested dicts joined by dots"
    require(ok, must, ", ".join(variables), "rename one that is there twice")


def in_tree(name: str) -> str:
    """Return the name that a variable has in a tree: with a dot for each slash, which stands for a group there."""
    return name.replace("/", ".")


@dataclass(frozen=True)
class Unpacker:
    """The map from a vector to its meaning: a position in the user's structure, or named variables."""

    unravel: Unravel
    """The map from a vector to a position in the user's structure."""
    constrain: TracedFunction | None = None
    """The map from a vector to the named variables of a model; None for a model without names."""

    @classmethod
    def of(cls, model: Model, unravel: Unravel, example: jax.Array) -> Unpacker:
        """Return the unpacker for a model whose vectors are like ``example``."""
        if model.constrain is None:
            require_storable(unravel(example), model.labels.dims)
            return cls(unravel)
        constrain = model.constrain
        made = trace(lambda flat: jax.tree.map(jnp.asarray, constrain(unravel(flat))), example)
        require_storable(jax.eval_shape(made, example), model.labels.dims)
        return cls(unravel, made)

    def __call__(self, flat: jax.Array) -> PyTree:
        """Return the position or variables of one vector; JAX may transform this."""
        return self.unravel(flat) if self.constrain is None else self.constrain(flat)

    def all(self, flat: np.ndarray) -> PyTree:
        """Return the positions or variables of vectors (..., dim), as NumPy arrays with the same leading axes.

        Positions are not copied; variables are computed in blocks.
        """
        if self.constrain is None:
            return split(flat, self.unravel)
        rows = np.asarray(flat.reshape(-1, flat.shape[-1]))
        parts = []
        for block, padded in in_blocks(rows, VECTORS_AT_ONCE):
            num, made = len(rows[block]), _variables(self.constrain, padded)
            parts.append(jax.tree.map(lambda x, num=num: np.asarray(x)[:num], made))
        whole = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
        return jax.tree.map(lambda x: x.reshape(*flat.shape[:-1], *x.shape[1:]), whole)


@compiled
def _variables(constrain: TracedFunction, flat: jax.Array) -> PyTree:
    return jax.vmap(constrain)(flat)


def split(flat: np.ndarray, unravel: Unravel) -> Position:
    """Return ``unravel`` of all vectors (..., dim) at once, without a copy.

    The leaves have the leading axes of ``flat``.
    """
    leaves, tree = jax.tree.flatten(jax.eval_shape(unravel, jax.ShapeDtypeStruct(flat.shape[-1:], flat.dtype)))
    ends = np.cumsum([leaf.size for leaf in leaves])
    parts = [
        flat[..., end - leaf.size : end].reshape(*flat.shape[:-1], *leaf.shape).astype(leaf.dtype, copy=False)
        for leaf, end in zip(leaves, ends, strict=True)
    ]
    return jax.tree.unflatten(tree, parts)


def labels(tree: PyTree, lead: int = 0, known: Labels | None = None) -> list[str]:
    """Return a name for every number in the leaves, in order; the first ``lead`` axes belong to draws.

    ``known`` has the dims and coords of variables, used in place of indices.
    """
    return [text for name, leaf in named(tree).items() for text in numbered(name, np.shape(leaf)[lead:], known)]


def numbered(name: str, shape: tuple[int, ...], known: Labels | None = None) -> list[str]:
    """Return a name for every number of a variable with this name and shape: ``a[0]``, or ``a[east]`` with coords."""
    dims = () if known is None else tuple(known.dims.get(name, ()))
    places = []
    for axis, size in enumerate(shape):
        coords = None if known is None or axis >= len(dims) else known.coords.get(dims[axis])
        if coords is None or np.shape(coords) != (size,):
            coords = range(size)
        places.append([_tick(x) for x in coords])
    return [f"{name}[{', '.join(at)}]" if at else name for at in itertools.product(*places)]


def _tick(value: object) -> str:
    """Return a coordinate as text: a date without midnight, and a number without spurious digits."""
    if isinstance(value, np.datetime64):
        return str(np.datetime_as_string(value, unit="auto"))
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)


def untransformed(name: str) -> str:
    """Return the variable whose unconstrained values PyMC calls ``name``: "tau" for "tau_log__"."""
    return re.sub(r"_[^_]+__$", "", name)


def named(tree: PyTree) -> dict[str, Any]:
    """Return the leaves by name: keys of dicts, joined by dots where they are nested; "x" for a bare array."""
    paths = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(path, simple=True, separator=".") or "x": leaf for path, leaf in paths}
