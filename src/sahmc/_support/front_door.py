"""The public names of the library, for rooms that may not import what they stand for.

The package itself, which imports every name when it is first used, hands over the way to get one. So a result can be
asked for its picture, though results do not know plots.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_finders: list[Callable[[str], Any]] = []


def open_with(find: Callable[[str], Any]) -> None:
    """Remember the function that returns what a public name stands for."""
    _finders[:] = [find]


def public(name: str) -> Any:
    """Return what a public name of the library stands for."""
    return _finders[0](name)
