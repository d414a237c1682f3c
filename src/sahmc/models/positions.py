"""Starting positions: any pytree of float arrays at the door, flat vectors inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from sahmc._support.traced import Program, trace
from sahmc._support.validate import require
from sahmc.models.model import Model

BLOCK = 4096
"""Vectors whose variables are computed at once."""


def starting_positions(
    model: Model, initvals: Any, chains: int, rng_key: jax.Array
) -> tuple[jax.Array, Callable[[jax.Array], Any]]:
    """Positions of shape (chains, dim), and the map from one of them back to the user's structure."""
    named_variables = model.unconstrain if initvals is not None else None
    if initvals is None:
        require(
            model.start is not None,
            "initvals are needed to know what a position looks like",
            None,
            "pass one position, a list with one for each chain, or a function of a key; or give a Model start",
        )
        initvals = model.start
    if callable(initvals):
        initvals = [initvals(jax.random.fold_in(rng_key, chain)) for chain in range(chains)]
    if named_variables is not None:
        initvals = list(map(named_variables, initvals)) if isinstance(initvals, list) else named_variables(initvals)
    if not isinstance(initvals, list):
        flat, unravel = flatten(initvals, "the start")
        return jnp.tile(flat, (chains, 1)), unravel
    require(
        len(initvals) == chains,
        f"a list of initvals holds one position for each of the {chains} chains",
        f"{len(initvals)} entries",
        f"pass chains={len(initvals)}, or, if this list is one position, make it an array",
    )
    flats, unravels = zip(*(flatten(p, f"the start of chain {i}") for i, p in enumerate(initvals)), strict=True)
    first = structure(initvals[0])
    for i, position in enumerate(initvals):
        require(
            structure(position) == first,
            "all starts must have the same structure and shapes as that of chain 0",
            f"{structure(position)} for chain {i} against {first}",
            "build every start in the same way",
        )
    return jnp.stack(flats), unravels[0]


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
class View:
    """What a vector stands for: a position in the user's structure, or the named variables of a model."""

    unravel: Callable[[jax.Array], Any]
    constrain: Program | None = None

    @classmethod
    def of(cls, model: Model, unravel: Callable[[jax.Array], Any], example: jax.Array) -> View:
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
        for first in range(0, len(rows), BLOCK):
            block = np.asarray(rows[first : first + BLOCK])
            padded = np.concatenate([block, np.repeat(block[-1:], BLOCK - len(block), axis=0)])
            made = _variables(self.constrain, padded)
            parts.append(jax.tree.map(lambda x: np.asarray(x)[: len(block)], made))  # noqa: B023
        whole = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
        return jax.tree.map(lambda x: x.reshape(*flat.shape[:-1], *x.shape[1:]), whole)


@jax.jit
def _variables(constrain: Program, flat: jax.Array) -> Any:
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


def finite_starts(chains: Any) -> np.ndarray:
    """Of which chains all that their states hold is finite: energies, gradients, those of the prior."""
    rows = [np.asarray(leaf).reshape(len(chains.energy), -1) for leaf in jax.tree.leaves(chains)]
    return np.isfinite(np.concatenate(rows, axis=1)).all(axis=1)


def check_starts(energy: jax.Array, grad: jax.Array | None, base: Any) -> None:
    """Raise for the first chain whose log density or gradient is not finite at its start."""
    for name, value in {
        "log density": energy,
        "gradient of the log density": grad,
        "log prior": base and base.energy,
        "gradient of the log prior": base and base.grad,
    }.items():
        if value is None:
            continue
        rows = np.asarray(value).reshape(len(energy), -1)
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        require(
            bad.size == 0,
            f"the {name} must be finite where a chain starts",
            f"{-rows[bad[0]] if bad.size else ''} at the start of chain {bad[0] if bad.size else ''}"
            + (f" (and {bad.size - 1} more)" if bad.size > 1 else ""),
            "start inside the support, away from points where the density or its gradient is undefined",
        )
