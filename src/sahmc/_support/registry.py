"""Classes by their names for users, imported on first use."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
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
