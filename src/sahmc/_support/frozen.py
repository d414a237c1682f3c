"""Immutable data: read-only mappings and arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

V = TypeVar("V")


class FrozenDict(Mapping[str, V]):
    """A read-only mapping that can be pickled."""

    def __init__(self, items: Mapping[str, V]):
        self._items = dict(items)

    def __getitem__(self, key: str) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return repr(self._items)


def frozen(value: Any) -> Any:
    """Return a value with all mappings, lists and arrays in it made read-only, however nested.

    Arrays become read-only views; the caller's own arrays stay writable.
    """
    if isinstance(value, np.ndarray):
        view = value.view()
        view.flags.writeable = False
        return view
    if isinstance(value, Mapping):
        return FrozenDict({key: frozen(item) for key, item in value.items()})
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(frozen, value))
    if isinstance(value, (list, tuple)):
        return tuple(map(frozen, value))
    return value


def thawed(value: Any) -> Any:
    """Return plain dicts and lists in place of frozen ones and of tuples, for JSON and for users to change."""
    if isinstance(value, Mapping):
        return {key: thawed(item) for key, item in value.items()}
    return [thawed(item) for item in value] if isinstance(value, (list, tuple)) else value


class Frozen:
    """A base class for frozen dataclasses; all fields are ``frozen`` when an object is built."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            object.__setattr__(self, field.name, frozen(getattr(self, field.name)))
