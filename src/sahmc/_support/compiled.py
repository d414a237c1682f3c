"""Compiled functions of models: shared between runs, and let go when there are many, for each takes much memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import jax

MOST_PROGRAMS = 8
"""The number of models whose compiled code is kept."""
_functions: list[Any] = []
_programs: set[Hashable] = set()


def compiled(fn: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Return ``jax.jit`` of a function that takes traced functions, with its ``options``."""
    made: Any = jax.jit(fn, **options)
    _functions.append(made)
    return made


def make_room(program: Hashable) -> None:
    """Let go of all compiled code if ``program`` is one more than MOST_PROGRAMS that were run since the last time."""
    if program not in _programs and len(_programs) >= MOST_PROGRAMS:
        for function in _functions:
            function.clear_cache()
        _programs.clear()
    _programs.add(program)
