"""A program traced in 32 bits and run in 64.

Tracing the user's function again in 64 bits would fail. JAX caches NumPy arrays with the type of their first trace, and
the function may itself ask for 32 bits. Instead, every equation is run as it stands, but on 64-bit numbers. Constants
are widened too, and stay as exact as they were in 32 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from sahmc._support import jax_internals as inside
from sahmc._support.jax_internals import ArrayType, Atom, Equation, Param, Program, Value
from sahmc._support.traced import TracedFunction

WIDER = {np.dtype(np.float32): np.dtype(np.float64), np.dtype(np.complex64): np.dtype(np.complex128)}
"""The 32-bit types of real and complex numbers, with their 64-bit equivalents."""


def in_double(fn: TracedFunction, position: jax.Array) -> PyTree:
    """Return the value of a traced function at a 64-bit position, computed in 64 bits throughout.

    Raises an error, of any kind, if an operation of the program does not work in 64 bits.
    """
    return jax.tree.unflatten(fn.returns, _run(fn.steps.program, *map(_double, fn.consts), position))


def _run(program: Program, *operands: Value) -> list[Value]:
    """Return the results of a program for 64-bit inputs, equation by equation."""
    given = [*map(_double, inside.constants(program)), *operands]
    known: dict[Atom, Value] = dict(zip(inside.inputs(program), given, strict=True))

    def read(atom: Atom) -> Value:
        return _double(inside.literal(atom)) if inside.is_literal(atom) else known[atom]

    for eqn in inside.equations(program):
        values, called = [read(atom) for atom in eqn.invars], inside.called_program(eqn)
        if called is None:
            found = inside.bind(eqn, values, {name: _doubled(value) for name, value in eqn.params.items()})
        else:
            found = _run(called, *values)
        _require_double(eqn, found)
        known.update(zip(eqn.outvars, found, strict=True))
    return [read(atom) for atom in inside.outputs(program)]


def _require_double(eqn: Equation, found: Sequence[Value]) -> None:
    """Raise ``TypeError`` unless the results of an equation have the 64-bit equivalents of their 32-bit types."""
    for var, value in zip(eqn.outvars, found, strict=True):
        must = _stand_in(var.aval)
        if (value.shape, value.dtype) != (must.shape, must.dtype):
            made, in_place_of = (f"{x.dtype} of shape {x.shape}" for x in (value, must))
            raise TypeError(f"in 64 bits {eqn.primitive.name} makes numbers of {made} in place of {in_place_of}")


def _double(value: Value) -> Value:
    """Return a 32-bit real or complex array in 64 bits; leave others unchanged."""
    dtype = getattr(value, "dtype", None)
    return jnp.asarray(value, WIDER[dtype]) if dtype in WIDER else value


def _doubled(value: Param) -> Param:
    """Return a parameter of an equation with 32-bit types replaced by 64-bit ones, also in nested programs."""
    if inside.is_program(value):
        free = inside.inputs(value)[len(inside.constants(value)) :]
        return inside.remade(value, partial(_run, value), *(_stand_in(var.aval) for var in free))
    if isinstance(value, tuple):
        parts = [_doubled(part) for part in value]
        same = all(new is old for new, old in zip(parts, value, strict=True))
        return value if same else value._make(parts) if hasattr(value, "_make") else tuple(parts)
    return inside.retyped(value, WIDER)


def _stand_in(aval: ArrayType) -> jax.ShapeDtypeStruct:
    """Return a 64-bit placeholder for a variable of a 32-bit program."""
    return jax.ShapeDtypeStruct(aval.shape, inside.retyped(aval.dtype, WIDER))
