"""Checks of the user's input, with one pattern for their messages."""

from __future__ import annotations

import difflib
import importlib.util
import math
import os
from collections.abc import Collection, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import jax

Given = Any
"""A value as the user gave it, which may be anything, or what a converter made of it."""
MOST = 2**31 - 1
"""The limit on the number of moves and all other counts, which are held in 32 bits."""


def require(holds: object, must: str, given: object, todo: str) -> None:
    """Raise ``ValueError`` unless ``holds``.

    The message says what ``must`` hold, what was ``given`` instead and, after "To fix it,", what ``todo``.
    """
    if not bool(holds):
        raise ValueError(f"{must}; got {given!r}. To fix it, {todo}.")


def is_number(value: Given) -> bool:
    """Tell whether a value is a single real, finite number and not a boolean."""
    real = isinstance(value, (int, float)) or (hasattr(value, "dtype") and getattr(value, "shape", None) == ())
    if not real or isinstance(value, (bool, np.bool_, np.str_, np.bytes_)):
        return False
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


def as_numbers(value: object, must: str, todo: str) -> np.ndarray:
    """Return numbers as a float array, or raise ``ValueError``; ``must`` and ``todo`` are as for ``require``."""
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{must}; got {value!r}. To fix it, {todo}.") from None


def as_array(value: object, must: str, todo: str) -> jax.Array:
    """Return numbers as a JAX array, traced ones unchanged; see ``as_numbers``."""
    import jax
    import jax.numpy as jnp

    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, np.floating):
        return value
    return jnp.asarray(as_numbers(value, must, todo))


def as_path(value: Given, name: str) -> Path:
    """Return the value of the argument ``name`` as a path, or raise ``ValueError`` if it is not one."""
    ok = isinstance(value, (str, PathLike)) and bool(str(value))
    require(ok, f"{name} must be the path of a file or folder", value, f'pass {name}="run" or a Path')
    return Path(value)


def as_new_file(value: object, overwrite: object) -> Path:
    """Return the path of a new file, or raise ``ValueError`` if it cannot be written.

    Its folder must exist and be writable, and an existing file is replaced only if ``overwrite``.
    """
    path = as_path(value, "path")
    require_flag(overwrite, "overwrite")
    require(path.parent.is_dir(), "the folder must exist", str(path.parent), "make it, or choose another")
    require_writable(path.parent)
    must, todo = "nothing is written over another file", "choose another name, or pass overwrite=True"
    require(overwrite or not path.exists(), must, f"{path}, which exists", todo)
    return path


def require_writable(folder: Path) -> None:
    """Raise ``ValueError`` if a folder, or its nearest existing parent, is not writable."""
    nearest = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    ok = nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    must = "the folder must be one that can be written to"
    require(ok, must, f"{nearest}, which cannot", "choose another, or change its permissions")


def require_flag(value: object, name: str) -> None:
    """Raise ``ValueError`` unless the value of the argument ``name`` is True or False."""
    require(isinstance(value, bool), f"{name} must be True or False", value, "pass one of these")


def require_function(value: object, name: str, of: str) -> None:
    """Raise ``ValueError`` unless the value of the argument ``name`` is None or a function; ``of`` says of what."""
    ok = value is None or callable(value)
    require(ok, f"{name} must be a function of {of}, or None", value, "pass a function")


def require_library(name: str, extra: str | None = None) -> None:
    """Raise ``ValueError`` unless a library is installed; ``extra`` is the extra of sahmc that installs it."""
    have = importlib.util.find_spec(name) is not None
    require(have, f"{name} must be installed", "it is not", f"run: pip install 'sahmc[{extra or name}]'")


def require_known(name: object, known: Collection[str], what: str) -> None:
    """Raise ``ValueError`` unless ``name`` is one of the ``known`` names for the argument ``what``."""
    names = ", ".join(repr(k) for k in sorted(known))
    have = isinstance(name, str) and name in known
    meant = nearest(name, known) if isinstance(name, str) else None
    todo = f"pass one of these names or {what} object" if meant is None else f"write {meant!r}"
    if isinstance(name, type):
        todo = f"pass an object of the class: {name.__name__}()"
    require(have, f"{what} must be one of {names}", name, todo)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to a name, ignoring case; None if none is similar."""
    lower = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name.lower(), lower, 1, 0.7)
    return lower[found[0]] if found else None


def require_count(value: Given, name: str, least: int = 1) -> None:
    """Raise ``ValueError`` unless the value of the argument ``name`` is a whole number of at least ``least``.

    All counts are held in 32 bits.
    """
    ok = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least
    todo = f"pass {name}={max(least, 1)} or more"
    if isinstance(value, float) and value.is_integer() and value >= least:
        todo = f"pass {name}={int(value)}"
    require(ok, f"{name} must be a whole number of at least {least}", value, todo)
    require(value < MOST, f"{name} must be less than {MOST:,}", value, f"lower {name}")


def require_seed(value: object, name: str) -> None:
    """Raise ``ValueError`` unless the value of the argument ``name`` is a whole number that can seed NumPy and JAX."""
    ok = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 0 <= value < 2**63
    require(ok, f"{name} must be an int of 0 to 2**63 - 1", value, f"pass {name}=0, say")


def as_rng(value: Given, name: str) -> np.random.Generator:
    """Return a NumPy generator seeded by the value of the argument ``name``, or raise ``ValueError``."""
    try:
        return np.random.default_rng(value)
    except (TypeError, ValueError):
        require(False, f"{name} must be an int from 0 on, or a NumPy Generator", value, f"pass {name}=0, say")
        raise


def require_mapping(value: object, name: str, example: str) -> None:
    """Raise ``ValueError`` unless the value of the argument ``name`` is None or a dict, such as ``example``."""
    ok = value is None or isinstance(value, Mapping)
    require(ok, f"{name} must be a dict", value, f"pass {name}={example}")
