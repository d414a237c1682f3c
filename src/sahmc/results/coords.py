"""Names for the axes of variables, assigned after the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sahmc._support.validate import require
from sahmc.models.model import Labels
from sahmc.models.positions import AXES, named
from sahmc.results.records import RunRecord


def require_dims(variables: Mapping[str, Any], dims: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` unless ``dims`` maps some of the ``variables`` to lists of names."""
    known = ", ".join(map(repr, variables))
    for name in dims:
        require(name in variables, f"dims must be those of a variable, which are {known}", name, "rename or drop it")
        named_axes = isinstance(dims[name], (list, tuple)) and all(isinstance(axis, str) for axis in dims[name])
        require(named_axes, "dims of a variable are a list of names", dims[name], 'write dims={"x": ["axis"]}')
        taken = next((axis for axis in dims[name] if axis in (*AXES, *variables)), None)
        must = "dims must have names that no variable has, nor an axis of all draws"
        require(taken is None, must, taken, "choose another name")


def with_coords(record: RunRecord, coords: Mapping[str, Any], dims: Mapping[str, Any]) -> Labels:
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
