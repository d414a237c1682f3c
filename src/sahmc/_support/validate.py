"""Checks of what the user passed, and the one pattern of their messages."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Collection
from typing import Any


def require(holds: Any, must: str, given: Any, todo: str) -> None:
    """Raise ``ValueError`` unless ``holds``.

    The message says what ``must`` hold, what was ``given`` instead, and what ``todo``, after the words "To fix it,".
    """
    if not bool(holds):
        raise ValueError(f"{must}; got {given!r}. To fix it, {todo}.")


def is_number(value: Any) -> bool:
    """Tell whether a value is one real, finite number, and no boolean."""
    real = isinstance(value, (int, float)) or (hasattr(value, "dtype") and getattr(value, "shape", None) == ())
    return real and not isinstance(value, bool) and math.isfinite(float(value))


def require_flag(value: Any, name: str) -> None:
    """Raise ``ValueError`` unless the value of the argument ``name`` is True or False."""
    require(isinstance(value, bool), f"{name} must be True or False", value, "pass one of these")


def require_function(value: Any, name: str, of: str) -> None:
    """Raise ``ValueError`` unless the value of the argument ``name`` is None or a function; ``of`` says of what."""
    ok = value is None or callable(value)
    require(ok, f"{name} must be a function of {of}, or None", value, "pass a function")


def require_library(name: str, extra: str | None = None) -> None:
    """Raise ``ValueError`` unless a library is installed; ``extra`` is the extra of sahmc that brings it."""
    have = importlib.util.find_spec(name) is not None
    require(have, f"{name} must be installed", "it is not", f"run: pip install 'sahmc[{extra or name}]'")


def require_known(name: Any, known: Collection[str], what: str) -> None:
    """Raise ``ValueError`` unless ``name`` is one of the ``known`` names for the argument ``what``."""
    names = ", ".join(repr(k) for k in sorted(known))
    have = isinstance(name, str) and name in known
    require(have, f"{what} must be one of {names}", name, f"pass one of these names or {what} object")


def require_count(value: Any, name: str, least: int = 1) -> None:
    """Raise ``ValueError`` unless the value of the argument ``name`` is a whole number of at least ``least``."""
    ok = isinstance(value, int) and not isinstance(value, bool) and value >= least
    require(ok, f"{name} must be a whole number of at least {least}", value, f"pass {name}={max(least, 1)} or more")
