"""What the library knows of JAX's inside: how a traced program is laid out, and whether JAX has started.

Nothing else may look into a program. Versions of JAX differ in this: up to 0.10 a closed program holds an open one and
the constants, while from 0.11 on both are of one class, a program without constants takes them as its first inputs,
and a loop tells its operands apart by other parameters. Here nothing is told by the version, nor by how a loop stores
its operands: operations with programs inside are given them anew, with all else as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

Program = core.Jaxpr | core.ClosedJaxpr
"""A program, with its constants or without."""
CALLS = ("jit", "pjit", "closed_call", "core_call", "remat2", "checkpoint", "custom_jvp_call", "custom_vjp_call")
"""The names of operations that run the one program inside them on their operands, and at most do more for gradients."""
OUTSIDE = ("callback", "ffi")
"""The parts of names of operations that call functions outside JAX."""


def make_program(fn: Callable[..., Any], *examples: Any) -> tuple[Program, list[Any], Any]:
    """Return ``fn`` as a program without its constants, these, and the shapes of what it returns in its structure.

    The program takes the constants before the arguments of ``fn``, which are like ``examples``.
    """
    closed, shape = jax.make_jaxpr(fn, return_shape=True)(*examples)
    bare = closed.jaxpr
    return core.ClosedJaxpr(bare, []) if bare is closed else bare, list(closed.consts), shape


def run_program(program: Program, consts: Sequence[Any], *args: Any) -> list[Any]:
    """Return the results of a program that was made without its constants."""
    return core.jaxpr_as_fun(core.ClosedJaxpr(program, list(consts)))(*args)


def equations(program: Program) -> Sequence[Any]:
    """Return the equations of a program, in order."""
    return program.eqns


def inputs(program: Program) -> list[Any]:
    """Return the variables that a program begins with: those of its constants, then those of its arguments."""
    bare = getattr(program, "jaxpr", program)
    return [*bare.constvars, *bare.invars]


def outputs(program: Program) -> list[Any]:
    """Return the variables and literals that a program returns."""
    return list(getattr(program, "jaxpr", program).outvars)


def constants(program: Program) -> list[Any]:
    """Return the values of the first inputs of a program that come with it."""
    return list(getattr(program, "consts", []))


def is_literal(atom: Any) -> bool:
    """Tell whether an operand is a number that is written into the program, rather than a variable."""
    return isinstance(atom, core.Literal)


def is_program(value: Any) -> bool:
    """Tell whether a parameter of an equation is a program."""
    return isinstance(value, (core.Jaxpr, core.ClosedJaxpr))


def literal(atom: Any) -> np.ndarray:
    """Return the number that a literal stands for, with its type."""
    return np.asarray(atom.val, atom.aval.dtype)
