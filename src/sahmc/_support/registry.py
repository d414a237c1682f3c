"""Names for users, and the objects behind them, which are imported on first use."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any


class Registry(Mapping[str, Any]):
    """A mapping from a name to a class, given as "module:Class".

    The names can be listed, in an error message or on the command line, without importing slow modules.
    """

    def __init__(self, homes: Mapping[str, str]):
        self._homes = dict(homes)

    def __getitem__(self, name: str) -> Any:
        module, _, attribute = self._homes[name].partition(":")
        return getattr(importlib.import_module(module), attribute)

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)

    def __contains__(self, name: object) -> bool:
        return name in self._homes


_finders: list[Callable[[str], Any]] = []


def open_with(find: Callable[[str], Any]) -> None:
    """Register the function that looks up a public name of the library.

    The package imports every public name on first use. So a result can plot itself, although ``results`` does not
    import ``plots``.
    """
    _finders[:] = [find]


def public(name: str) -> Any:
    """Return the object behind a public name of the library."""
    return _finders[0](name)
