"""Compiled functions of models: shared between runs, and freed when there are many, since each takes much memory."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
from jaxtyping import PyTree

from sahmc._support.jax_internals import is_traced
from sahmc._support.platform import on_accelerator

MOST_PROGRAMS = 8
"""The maximum number of models with compiled code in memory."""
QUICK = {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False}
"""The compiler options on a CPU. A default run takes seconds, and at full optimisation compiling takes longer than
running."""
_functions: list[Compiled] = []
_programs: set[Hashable] = set()


class Compiled:
    """A function compiled by ``jax.jit``, on a CPU with QUICK options unless it is part of another program."""

    def __init__(self, fn: Callable[..., PyTree], static_argnames: Sequence[str] = ()):
        functools.update_wrapper(self, fn)
        self._fn, self._static = fn, static_argnames
        self._usual: Any = jax.jit(fn, static_argnames=static_argnames)
        _functions.append(self)

    @functools.cached_property
    def _quick(self) -> Any:
        return jax.jit(self._fn, compiler_options=_accepted(), static_argnames=self._static)

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        inside = is_traced((args, kwargs))
        return (self._usual if inside or on_accelerator() else self._quick)(*args, **kwargs)

    def _cache_size(self) -> int:
        """Return the number of compiled programs, on whichever kind of device."""
        return max(self._usual._cache_size(), self._quick._cache_size())

    def clear_cache(self) -> None:
        """Forget all programs."""
        self._usual.clear_cache()
        self._quick.clear_cache()


compiled = Compiled
"""The decorator of functions that take traced functions; ``static_argnames`` is as for ``jax.jit``."""


@functools.cache
def _accepted() -> dict[str, bool | int]:
    """Return the QUICK options that this version of JAX supports and the user has not set."""
    found = {}
    for name, value in QUICK.items():
        if name in os.environ.get("XLA_FLAGS", ""):
            continue
        try:
            jax.jit(lambda x: x + 1, compiler_options={name: value})(0)
            found[name] = value
        except Exception:  # this version does not know the option
            continue
    return found


def make_room(program: Hashable) -> None:
    """Forget all compiled code if ``program`` is new and MOST_PROGRAMS others have run since the last time."""
    if program not in _programs and len(_programs) >= MOST_PROGRAMS:
        for function in _functions:
            function.clear_cache()
        _programs.clear()
    _programs.add(program)
