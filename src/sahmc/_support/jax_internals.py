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
from typing import Any

import jax
import numpy as np
from jax.extend import core

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


def make_program(fn: Callable[..., Any], *examples: Any) -> tuple[Any, list[Any], Any]:
    """Return ``fn`` as a program without its constants, the constants, and the shapes of its results.

    The first inputs of the program are the constants; the others are like ``examples``.
    """
    closed, shapes = jax.make_jaxpr(fn, return_shape=True)(*examples)
    bare = _bare(closed)
    if bare is closed:
        bare = closed.replace(constvars=closed.constvars, consts=())
    return bare, list(closed.consts), shapes


def run_program(program: Any, consts: Sequence[Any], *args: Any) -> list[Any]:
    """Return the results of a program made by ``make_program``."""
    return list(core.jaxpr_as_fun(core.ClosedJaxpr(program, list(consts)))(*args))


def remade(program: Any, fn: Callable[..., Any], *examples: Any) -> Any:
    """Return ``fn`` as a program that can replace ``program`` in an equation."""
    closed = jax.make_jaxpr(fn)(*examples)
    if isinstance(program, core.ClosedJaxpr):
        return closed
    if closed.consts:
        raise NotImplementedError("an operation holds a program that cannot have constants")
    return _bare(closed)


def is_traced(values: Any) -> bool:
    """Tell whether any array of a pytree belongs to a program that is being traced."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def is_program(value: Any) -> bool:
    """Tell whether a parameter of an equation is a program."""
    return isinstance(value, (core.Jaxpr, core.ClosedJaxpr))


def programs_in(value: Any) -> Iterator[Any]:
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


def inputs(program: Any) -> list[Any]:
    """Return the input variables of a program: those of its constants, then the others."""
    return [*_bare(program).constvars, *_bare(program).invars]


def constants(program: Any) -> list[Any]:
    """Return the constants of a program, the values of its first inputs."""
    return list(getattr(program, "consts", ()))


def equations(program: Any) -> list[Any]:
    """Return the equations of a program, in order of execution."""
    return list(_bare(program).eqns)


def outputs(program: Any) -> list[Any]:
    """Return the output variables and literals of a program."""
    return list(_bare(program).outvars)


def is_literal(atom: Any) -> bool:
    """Tell whether an operand of an equation is a literal number and not a variable."""
    return isinstance(atom, core.Literal)


def literal(atom: Any) -> np.ndarray:
    """Return a literal number of an equation, in its own type."""
    return np.asarray(atom.val, atom.aval.dtype)


def called_program(eqn: Any) -> Any:
    """Return the program that an equation runs on its operands; None for a primitive operation."""
    if eqn.primitive.name == HIGH:
        examples = [jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype) for atom in eqn.invars]
        with jax.enable_x64(any(atom.aval.dtype in WIDE for atom in (*eqn.invars, *eqn.outvars))):
            return jax.make_jaxpr(lambda *args: eqn.primitive.to_lojax(*args, **eqn.params))(*examples)
    inside = [value for value in eqn.params.values() if is_program(value)]
    return inside[0] if eqn.primitive.name in CALLS and len(inside) == 1 else None


def bind(eqn: Any, values: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Return the results of an equation for other operands and parameters than its own."""
    found = eqn.primitive.bind(*values, **params)
    return list(found) if eqn.primitive.multiple_results else [found]


def calls_out(eqn: Any) -> bool:
    """Tell whether an equation calls a function outside JAX."""
    return any(part in eqn.primitive.name for part in OUTSIDE)


def retyped(value: Any, types: Mapping[Any, Any]) -> Any:
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


def _bare(program: Any) -> Any:
    """Return the part of a program with its equations: up to JAX 0.10 all but the constants, later all of it."""
    return getattr(program, "jaxpr", program)
