"""Every check of what the user passed: what must hold, what was given, what to do."""

from __future__ import annotations

import importlib.util
import math
from typing import Any


def require(holds: Any, must: str, given: Any, todo: str) -> None:
    """Raise ``ValueError`` in the one pattern of this library unless ``holds``."""
    if not bool(holds):
        raise ValueError(f"{must}; got {given!r}. To fix it, {todo}.")


def is_number(value: Any) -> bool:
    """A real, finite number, and no boolean."""
    real = isinstance(value, (int, float)) or (hasattr(value, "dtype") and getattr(value, "shape", None) == ())
    return real and not isinstance(value, bool) and math.isfinite(float(value))


def require_flag(value: Any, name: str) -> None:
    require(isinstance(value, bool), f"{name} must be True or False", value, "pass one of these")


def require_function(value: Any, name: str, of: str) -> None:
    ok = value is None or callable(value)
    require(ok, f"{name} must be a function of {of}, or None", value, "pass a function")


def require_library(name: str, extra: str | None = None) -> None:
    have = importlib.util.find_spec(name) is not None
    require(have, f"{name} must be installed", "it is not", f"run: pip install 'sahmc[{extra or name}]'")


def require_known(name: Any, known: Any, what: str) -> None:
    names = ", ".join(repr(k) for k in sorted(known))
    have = isinstance(name, str) and name in known
    require(have, f"{what} must be one of {names}", name, f"pass one of these names or {what} object")


def require_count(value: Any, name: str, least: int = 1) -> None:
    ok = isinstance(value, int) and not isinstance(value, bool) and value >= least
    require(ok, f"{name} must be a whole number of at least {least}", value, f"pass {name}={max(least, 1)} or more")
