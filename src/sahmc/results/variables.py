"""Variables by name: the choice of some, the names of their axes, and the quantities compared between chains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import jax
import numpy as np
from numpy.typing import ArrayLike

from sahmc._support.types import Position
from sahmc._support.validate import require
from sahmc.models.model import Labels
from sahmc.models.positions import AXES, named, numbered, untransformed
from sahmc.results.records import RunRecord

MOST_CHAINS, MOST_COORDINATES, MOST_BYTES = 512, 1000, 2**27
"""The maximum numbers of chains, of coordinates and of bytes of their draws to examine, to save time."""
VarNames = str | Sequence[str] | None
"""The names of some variables, as in ArviZ: one, several, or None for all; a name after "~" is left out."""
Dims = Mapping[str, Sequence[str]]
"""The names of the dimensions of variables, by name of the variable."""
V = TypeVar("V")


def choose_variables(variables: dict[str, V], var_names: VarNames) -> dict[str, V]:
    """Return the ``variables`` named in ``var_names``, in that order; all of them if it is None.

    ``var_names`` is a name or a list of names. A name after "~" is left out, from the other names if there are any,
    else from all variables.
    """
    if var_names is None:
        return variables
    names = [var_names] if isinstance(var_names, str) else var_names
    known = ", ".join(map(repr, variables))
    must = f"var_names must be variables of the draws, {known}, or these after a ~"
    is_list = isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)
    require(is_list, must, var_names, "pass a list of names")
    left_out = [name[1:] for name in names if name.startswith("~") and name not in variables]
    taken = [name for name in names if not name.startswith("~") or name in variables]
    stray = [name for name in (*taken, *left_out) if name not in variables]
    require(not stray, must, stray, "use these names, without brackets")
    chosen = {name: variables[name] for name in taken or variables if name not in left_out}
    require(chosen, must, var_names, "leave at least one")
    return chosen


def require_dims(variables: Mapping[str, object], dims: Dims) -> None:
    """Raise ``ValueError`` unless ``dims`` maps some of the ``variables`` to lists of names."""
    known = ", ".join(map(repr, variables))
    for name in dims:
        require(name in variables, f"dims must be those of a variable, which are {known}", name, "rename or drop it")
        named_axes = isinstance(dims[name], (list, tuple)) and all(isinstance(axis, str) for axis in dims[name])
        require(named_axes, "dims of a variable are a list of names", dims[name], 'write dims={"x": ["axis"]}')
        taken = next((axis for axis in dims[name] if axis in (*AXES, *variables)), None)
        must = "dims must have names that no variable has, nor an axis of all draws"
        require(taken is None, must, taken, "choose another name")


def with_coords(record: RunRecord, coords: Mapping[str, ArrayLike], dims: Dims) -> Labels:
    """Return the labels of a record with further coords and dims; they must fit its variables."""
    variables = named(record.draws.values)
    require_dims(variables, dims)
    all_dims = {**record.labels.dims, **dims}
    used = {
        axis: leaf.shape[2 + i]
        for name, leaf in variables.items()
        for i, axis in enumerate(all_dims.get(name, ()))
        if i + 2 < leaf.ndim
    }
    for axis, values in coords.items():
        known = ", ".join(map(repr, used)) or "none"
        require(axis in used, f"coords must be of a dimension of the draws, which are {known}", axis, "pass dims too")
        size = used[axis]
        require(
            np.shape(values) == (size,), f"coords of {axis!r} must be {size} names", values, f"pass a list of {size}"
        )
    labels = record.labels
    return Labels({**labels.coords, **coords}, all_dims, labels.observed_data, labels.constant_data)


class Quantities(NamedTuple):
    """An evenly spaced subset of quantities and draws."""

    values: np.ndarray
    """The values, (chain, draw, quantity)."""
    names: list[str]
    """The names of the quantities."""
    every: tuple[int, int]
    """The pair (i, j): every i-th chain and every j-th draw was used."""


def choose_quantities(positions: Position, about: Labels | None = None) -> Quantities:
    """Return the coordinates of positions; if there are too many, a subset of coordinates and draws.

    ``positions`` is a pytree of arrays (chain, draw, ...). Unconstrained values have the names of the original
    variables, with the dims and coords of ``about``.
    """
    leaves = [leaf.reshape(*leaf.shape[:2], -1) for leaf in jax.tree.leaves(positions)]
    known = [
        text for name, leaf in named(positions).items() for text in numbered(untransformed(name), leaf.shape[2:], about)
    ]
    chains, draws = leaves[0].shape[:2]
    dim = sum(leaf.shape[2] for leaf in leaves)
    stride = -(-dim // MOST_COORDINATES)
    each = 8 * min(chains, MOST_CHAINS) * draws * -(-dim // stride)
    every = -(-chains // MOST_CHAINS), -(-each // MOST_BYTES)
    parts, names, first = [], [], 0
    for leaf in leaves:
        pick = np.arange(-first % stride, leaf.shape[2], stride)
        parts.append(leaf[:: every[0], :: every[1], pick])
        names += [known[first + i] for i in pick]
        first += leaf.shape[2]
    return Quantities(np.concatenate(parts, axis=2), names, every)
