"""All knowledge of JAX's internals: the layout of traced programs, whether JAX has started, its program cache.

No other module looks into a program, since JAX does not guarantee their layout. Up to 0.10, a closed program is an open
program with its constants, and each has its own class. From 0.11 on there is one class, and constants that are not
attached come first among the inputs. The names of loop operands have changed as well. So nothing here depends on a
version or on the parameters of a loop. An equation with a nested program gets another program, and everything else
stays the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeGuard

import jax
import numpy as np
from jax.extend import core
from jaxtyping import PyTree

CALLS = (
    *("jit", "pjit", "eval_jaxpr", "closed_call", "core_call", "remat2", "checkpoint"),
    *("custom_jvp_call", "custom_vjp_call"),
)
"""The names of operations that run the program inside them on their operands; their other contents are for
gradients."""
HIGH = "call_hi_primitive"
"""The name of operations that stand for programs, into which JAX expands them before compiling."""
WIDE = tuple(map(np.dtype, ("float64", "complex128", "int64", "uint64")))
"""The types of numbers that exist only in 64 bits."""
OUTSIDE = ("callback", "ffi")
"""The common parts of names of operations that call functions outside JAX."""
ARRAY_TYPE = type(jax.typeof(np.float32(0)))
"""The class of array types: a shape and a number type."""

Program = core.Jaxpr | core.ClosedJaxpr
"""A traced program, with or without its constants."""
Equation = core.JaxprEqn
"""An operation of a program, with its operands, parameters and results."""
Atom = core.Var | core.Literal
"""An operand of an equation: a variable, or a literal number."""
ArrayType = Any
"""The type of a variable, with ``shape`` and ``dtype``."""
Value = Any
"""The value of a variable: an array of JAX, of NumPy, or of a class that only JAX knows."""
Param = Any
"""A parameter of an equation: a program, a type, a number or anything else, also in tuples."""


def make_program(fn: Callable[..., PyTree], *examples: jax.Array) -> tuple[Program, list[Value], PyTree]:
    """Return ``fn`` as a program without its constants, the constants, and the shapes of its results.

    The first inputs of the program are the constants; the others are like ``examples``.
    """
    closed, shapes = jax.make_jaxpr(fn, return_shape=True)(*examples)
    bare = _bare(closed)
    if bare is closed:
        bare = closed.replace(constvars=closed.constvars, consts=())  # type: ignore[call-arg]
    return bare, list(closed.consts), shapes


def run_program(program: Program, consts: Sequence[Value], *args: jax.Array) -> list[jax.Array]:
    """Return the results of a program made by ``make_program``."""
    return list(core.jaxpr_as_fun(core.ClosedJaxpr(program, list(consts)))(*args))  # type: ignore[arg-type]


def remade(program: Program, fn: Callable[..., PyTree], *examples: jax.ShapeDtypeStruct) -> Program:
    """Return ``fn`` as a program that can replace ``program`` in an equation."""
    closed = jax.make_jaxpr(fn)(*examples)
    if isinstance(program, core.ClosedJaxpr):
        return closed
    if closed.consts:
        raise NotImplementedError("an operation holds a program that cannot have constants")
    return _bare(closed)


def is_traced(values: PyTree) -> bool:
    """Tell whether any array of a pytree belongs to a program that is being traced."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def is_program(value: Param) -> bool:
    """Tell whether a parameter of an equation is a program."""
    return isinstance(value, (core.Jaxpr, core.ClosedJaxpr))


def programs_in(value: Param) -> Iterator[Program]:
    """Yield the programs in a parameter of an equation, including the parameter itself, each before its nested ones."""
    if is_program(value):
        yield value
        for eqn in equations(value):
            yield from programs_in(list(eqn.params.values()))
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from programs_in(part)
    elif isinstance(getattr(value, "params", None), dict):  # the content of an operation named HIGH
        yield from programs_in(list(value.params.values()))


def inputs(program: Program) -> list[core.Var]:
    """Return the input variables of a program: those of its constants, then the others."""
    return [*_bare(program).constvars, *_bare(program).invars]


def constants(program: Program) -> list[Value]:
    """Return the constants of a program, the values of its first inputs."""
    return list(getattr(program, "consts", ()))


def equations(program: Program) -> list[Equation]:
    """Return the equations of a program, in order of execution."""
    return list(_bare(program).eqns)


def outputs(program: Program) -> list[Atom]:
    """Return the output variables and literals of a program."""
    return list(_bare(program).outvars)


def is_literal(atom: Atom) -> TypeGuard[core.Literal]:
    """Tell whether an operand of an equation is a literal number and not a variable."""
    return isinstance(atom, core.Literal)


def literal(atom: core.Literal) -> np.ndarray:
    """Return a literal number of an equation, in its own type."""
    own: ArrayType = atom.aval
    return np.asarray(atom.val, own.dtype)


def called_program(eqn: Equation) -> Program | None:
    """Return the program that an equation runs on its operands; None for a primitive operation."""
    if eqn.primitive.name == HIGH:
        types: list[ArrayType] = [atom.aval for atom in (*eqn.invars, *eqn.outvars)]
        examples = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in types[: len(eqn.invars)]]
        with jax.enable_x64(any(one.dtype in WIDE for one in types)):
            return jax.make_jaxpr(lambda *args: eqn.primitive.to_lojax(*args, **eqn.params))(*examples)
    inside = [value for value in eqn.params.values() if is_program(value)]
    return inside[0] if eqn.primitive.name in CALLS and len(inside) == 1 else None


def bind(eqn: Equation, values: Sequence[Value], params: dict[str, Param]) -> list[Value]:
    """Return the results of an equation for other operands and parameters than its own."""
    found = eqn.primitive.bind(*values, **params)
    return list(found) if eqn.primitive.multiple_results else [found]


def calls_out(eqn: Equation) -> bool:
    """Tell whether an equation calls a function outside JAX."""
    return any(part in eqn.primitive.name for part in OUTSIDE)


def retyped(value: Param, types: Mapping[np.dtype, np.dtype]) -> Param:
    """Return a parameter with its number type, or that of its array type, replaced; ``types`` maps old to new."""
    for old, new in types.items():
        if isinstance(value, (np.dtype, type)) and value == old:
            return new
        if isinstance(value, ARRAY_TYPE) and value.dtype == old:
            return value.update(dtype=new)
    return value


def has_started() -> bool:
    """Tell whether JAX has started its threads; false if unknown."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bool(getattr(bridge, "backends_are_initialized", lambda: False)())


def look_for_cache_again() -> None:
    """Let JAX check again, at the next program, for the folder of compiled programs; do nothing if it always does."""
    with suppress(ImportError, AttributeError):
        from jax.experimental.compilation_cache import compilation_cache

        compilation_cache.reset_cache()


def _bare(program: Program) -> core.Jaxpr:
    """Return the part of a program with its equations: up to JAX 0.10 all but the constants, later all of it."""
    return getattr(program, "jaxpr", program)  # type: ignore[arg-type]
