"""The record of a run, compared with that of another."""

import dataclasses
from collections.abc import Mapping

import jax
import numpy as np


def parts(value, name="record"):
    """Every array, number and word of a record by where it is."""
    if dataclasses.is_dataclass(value) and not jax.tree_util.all_leaves([value]):  # a strategy, which JAX knows
        leaves, tree = jax.tree.flatten(value)
        yield from ((f"{name}[{i}]", np.asarray(leaf)) for i, leaf in enumerate(leaves))
        yield name, str(tree)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from parts(getattr(value, field.name), f"{name}.{field.name}")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from parts(item, f"{name}[{key!r}]")
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from parts(item, f"{name}[{i}]")
    else:
        yield name, value


def differences(one, two, but=()):
    """Where two records differ, dtypes included; ``but`` are beginnings of names that do not count."""
    left, right = (
        {name: value for name, value in parts(record) if not name.startswith(tuple(but))} for record in (one, two)
    )
    return sorted(name for name in left.keys() | right.keys() if not same(left.get(name), right.get(name)))


def same(one, two):
    one, two = np.asarray(one), np.asarray(two)
    kind = one.dtype.kind in "fc"
    return one.dtype == two.dtype and np.array_equal(one, two, equal_nan=kind)
