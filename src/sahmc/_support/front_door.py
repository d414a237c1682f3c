"""The public names of the library, for modules that may not import the objects behind them.

The package imports every public name on first use, and registers its lookup function here. So a result can plot itself,
although ``results`` does not import ``plots``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_finders: list[Callable[[str], Any]] = []


def open_with(find: Callable[[str], Any]) -> None:
    """Register the function that looks up a public name."""
    _finders[:] = [find]


def public(name: str) -> Any:
    """Return the object behind a public name of the library."""
    return _finders[0](name)
