"""Positions: any pytree of float arrays at the door, flat vectors inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from sahmc._support.traced import TracedFunction, trace
from sahmc._support.validate import require
from sahmc.models.model import Model

VECTORS_AT_ONCE = 4096
"""Vectors whose variables are computed at once."""


def structure(position: Any) -> str:
    """Structure and shapes, as they would be printed."""
    return str(jax.tree.map(jnp.shape, position))


def flatten(position: Any, where: str) -> tuple[jax.Array, Callable[[jax.Array], Any]]:
    """One vector, and the map from such vectors back to the user's structure."""
    leaves = jax.tree.leaves(position)
    try:
        kinds = [np.asarray(leaf).dtype for leaf in leaves]
    except (TypeError, ValueError):
        kinds = [np.dtype(object)]
    require(
        all(jnp.issubdtype(kind, jnp.floating) for kind in kinds),
        "a position must be made of real floating-point arrays",
        f"dtypes {[str(kind) for kind in kinds]} at {where}",
        "write 0.0 rather than 0, or convert with jnp.asarray(x, float)",
    )
    flat, unravel = ravel_pytree(jax.tree.map(jnp.asarray, position))
    require(flat.size > 0, "a position must hold at least one number", f"{where} is empty", "pass a non-empty array")
    return flat, unravel


@dataclass(frozen=True)
class Unpacker:
    """What a vector stands for: a position in the user's structure, or the named variables of a model."""

    unravel: Callable[[jax.Array], Any]
    constrain: TracedFunction | None = None

    @classmethod
    def of(cls, model: Model, unravel: Callable[[jax.Array], Any], example: jax.Array) -> Unpacker:
        if model.constrain is None:
            return cls(unravel)
        constrain = model.constrain
        return cls(unravel, trace(lambda flat: jax.tree.map(jnp.asarray, constrain(unravel(flat))), example))

    def __call__(self, flat: jax.Array) -> Any:
        """Of one vector, under any transformation of JAX."""
        return self.unravel(flat) if self.constrain is None else self.constrain(flat)

    def all(self, flat: np.ndarray) -> Any:
        """Of an array of vectors (..., dim), on the host; positions without a copy, variables in blocks."""
        if self.constrain is None:
            return split(flat, self.unravel)
        rows = flat.reshape(-1, flat.shape[-1])
        parts = []
        for first in range(0, len(rows), VECTORS_AT_ONCE):
            block = np.asarray(rows[first : first + VECTORS_AT_ONCE])
            padded = np.concatenate([block, np.repeat(block[-1:], VECTORS_AT_ONCE - len(block), axis=0)])
            made = _variables(self.constrain, padded)
            parts.append(jax.tree.map(lambda x: np.asarray(x)[: len(block)], made))  # noqa: B023
        whole = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
        return jax.tree.map(lambda x: x.reshape(*flat.shape[:-1], *x.shape[1:]), whole)


@jax.jit
def _variables(constrain: TracedFunction, flat: jax.Array) -> Any:
    return jax.vmap(constrain)(flat)


def split(flat: np.ndarray, unravel: Callable[[jax.Array], Any]) -> Any:
    """What ``unravel`` makes of vectors, for a whole array of them at once and without a copy: (..., dim) to leaves."""
    leaves, tree = jax.tree.flatten(jax.eval_shape(unravel, jax.ShapeDtypeStruct(flat.shape[-1:], flat.dtype)))
    ends = np.cumsum([leaf.size for leaf in leaves])
    parts = [
        flat[..., end - leaf.size : end].reshape(*flat.shape[:-1], *leaf.shape).astype(leaf.dtype, copy=False)
        for leaf, end in zip(leaves, ends, strict=True)
    ]
    return jax.tree.unflatten(tree, parts)


def labels(tree: Any, lead: int = 0) -> list[str]:
    """A name for every number of the leaves, in their order; ``lead`` axes are of draws."""
    return [
        f"{name}[{', '.join(map(str, at))}]" if at else name
        for name, leaf in named(tree).items()
        for at in np.ndindex(np.shape(leaf)[lead:])
    ]


def named(tree: Any) -> dict[str, Any]:
    """Leaves by name: the keys of a dict, joined by dots where they are nested; "x" if there is but one array."""
    paths = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(path, simple=True, separator=".") or "x": leaf for path, leaf in paths}
