"""A program that was traced in 32 bits, run in 64.

To trace the user's function anew in 64 bits would not do: JAX remembers NumPy arrays by the type that they had when
they were first traced, and the function may itself ask for 32 bits. Here every equation is run as it is, but with
numbers of 64 bits, constants among them, which stay as exact as they were in 32.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sahmc._support import jax_internals as inside
from sahmc._support.traced import TracedFunction

WIDER = {np.dtype(np.float32): np.dtype(np.float64), np.dtype(np.complex64): np.dtype(np.complex128)}
"""The types of 32 bits for each real number, with those of 64."""


def in_double(fn: TracedFunction, position: jax.Array) -> Any:
    """Return what a traced function returns for a position of 64 bits, computed in 64 bits throughout.

    Raises an error, of whatever kind, if the program does what cannot be done in 64 bits as it is in 32.
    """
    return jax.tree.unflatten(fn.returns, _run(fn.steps.program, *map(_double, fn.consts), position))


def _run(program: Any, *values: Any) -> list[Any]:
    """Return the results of a program for inputs of 64 bits, equation by equation."""
    given = [*map(_double, inside.constants(program)), *values]
    known: dict[Any, Any] = dict(zip(inside.inputs(program), given, strict=True))

    def read(atom: Any) -> Any:
        return _double(inside.literal(atom)) if inside.is_literal(atom) else known[atom]

    for eqn in inside.equations(program):
        found = _run_equation(eqn, [read(atom) for atom in eqn.invars])
        _require_double(eqn, found)
        known.update(zip(eqn.outvars, found, strict=True))
    return [read(atom) for atom in inside.outputs(program)]


def _run_equation(eqn: Any, values: Sequence[Any]) -> list[Any]:
    """Return the results of an equation: those of the program that it calls, or else its own."""
    called = inside.called_program(eqn)
    if called is not None:
        return _run(called, *values)
    return inside.bind(eqn, values, {name: _doubled(value) for name, value in eqn.params.items()})


def _require_double(eqn: Any, found: Sequence[Any]) -> None:
    """Raise ``TypeError`` unless the results of an equation are as in 32 bits, but for the bits."""
    for var, value in zip(eqn.outvars, found, strict=True):
        must = _stand_in(var.aval)
        if (value.shape, value.dtype) != (must.shape, must.dtype):
            made, in_place_of = (f"{x.dtype} of shape {x.shape}" for x in (value, must))
            raise TypeError(f"in 64 bits {eqn.primitive.name} makes numbers of {made} in place of {in_place_of}")


def _double(value: Any) -> Any:
    """Return an array with 64 bits for each real number; others are left as they are."""
    dtype = getattr(value, "dtype", None)
    return jnp.asarray(value, WIDER[dtype]) if dtype in WIDER else value


def _doubled(value: Any) -> Any:
    """Return a parameter of an equation, with the type of 64 bits where it says 32, and in programs inside."""
    if inside.is_program(value):
        free = inside.inputs(value)[len(inside.constants(value)) :]
        return inside.remade(value, partial(_run, value), *(_stand_in(var.aval) for var in free))
    if isinstance(value, tuple):
        parts = [_doubled(part) for part in value]
        same = all(new is old for new, old in zip(parts, value, strict=True))
        return value if same else value._make(parts) if hasattr(value, "_make") else tuple(parts)
    return inside.retyped(value, WIDER)


def _stand_in(aval: Any) -> jax.ShapeDtypeStruct:
    """Return a stand-in for a variable in a program of 32 bits, with 64."""
    return jax.ShapeDtypeStruct(aval.shape, inside.retyped(aval.dtype, WIDER))
