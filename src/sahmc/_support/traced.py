"""The user's function, traced once and afterwards run only as the traced program."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache

import jax
from jax.tree_util import PyTreeDef
from jaxtyping import PyTree

from sahmc._support import jax_internals as inside
from sahmc._support.jax_internals import ArrayType, Atom, Param, Program, Value
from sahmc._support.platform import placed
from sahmc._support.pytree import static, strategy


@strategy
class TracedFunction:
    """A function of one array as a closed program, whose constants are data and whose steps are static.

    Programs with the same steps are the same object to ``jit``. So a second run of the same model compiles nothing,
    even on other data. Every run traces the function again, so changes of the data between runs are seen.
    """

    consts: list[jax.Array]
    """The arrays that the function uses besides its argument, such as data."""
    steps: _Steps = static()
    """The operations."""
    returns: PyTreeDef = static()
    """The pytree structure of the function's results."""

    def constants(self) -> list[Value]:
        """Return all arrays that the function uses besides its argument, including those in a nested ``jit``."""
        programs = inside.programs_in(self.steps.program)
        return [*self.consts, *(c for each in programs for c in (*inside.constants(each), *_literals(each)))]

    @property
    def calls_out(self) -> bool:
        """Whether the program calls functions outside JAX, which may not accept numbers of another precision."""
        programs = inside.programs_in(self.steps.program)
        return any(inside.calls_out(eqn) for each in programs for eqn in inside.equations(each))

    @property
    def argument(self) -> ArrayType:
        """The shape and type of the argument."""
        return inside.inputs(self.steps.program)[-1].aval

    def __call__(self, position: jax.Array) -> PyTree:
        """Return the value of the function."""
        return jax.tree.unflatten(self.returns, inside.run_program(self.steps.program, self.consts, position))


def trace(fn: Callable[[jax.Array], PyTree], example: jax.Array) -> TracedFunction:
    """Return ``fn`` as a program, by calling it once on a placeholder for the array ``example``."""
    program, consts, shapes = inside.make_program(fn, example)
    consts = [c if isinstance(c, jax.Array) else placed(c) for c in consts]
    return TracedFunction(consts, _interned(_Steps(program)), jax.tree.structure(shapes))


class _Steps:
    """A program without its constants; two of them are equal if they have the same operations."""

    def __init__(self, program: Program):
        self.program = program
        self.key = _describe(program)
        self.hash = hash(self.key)

    def __repr__(self) -> str:
        return str(self.program)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Steps) and self.hash == other.hash and self.key == other.key)


@lru_cache(maxsize=64)
def _interned(steps: _Steps) -> _Steps:
    """Return the first of equal steps that was seen, to make comparisons fast."""
    return steps


def _literals(program: Program) -> list[Value]:
    """Return the literal numbers in the equations of a program."""
    return [atom.val for eqn in inside.equations(program) for atom in eqn.invars if inside.is_literal(atom)]


def _describe(program: Program) -> Hashable:
    """Describe every equation with its parameters, with variables numbered in order of appearance."""
    number: dict[Atom, int] = {}

    def name(atom: Atom) -> Hashable:
        if inside.is_literal(atom):
            return str(atom.aval), inside.literal(atom).tobytes()
        return number.setdefault(atom, len(number)), str(atom.aval)

    rows: list[Hashable] = [tuple(map(name, inside.inputs(program)))]
    for eqn in inside.equations(program):
        params = tuple(sorted((k, _describe_param(v)) for k, v in eqn.params.items() if k != "name"))
        rows.append((eqn.primitive, tuple(map(name, eqn.invars)), params, tuple(map(name, eqn.outvars))))
    return (*rows, tuple(map(name, inside.outputs(program))))


def _describe_param(value: Param) -> Hashable:
    """Describe a parameter of an equation, which may itself be a program."""
    if inside.is_program(value):
        return _describe(value), tuple(map(_describe_param, inside.constants(value)))
    if isinstance(value, (tuple, list)):
        return tuple(map(_describe_param, value))
    try:
        hash(value)
    except TypeError:
        return _Unlike(value)
    return _Kept(value)


class _Kept:
    """A parameter compared by its own equality and type: 1, 1.0 and True all differ."""

    def __init__(self, value: Param):
        self.value = value

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Kept) and type(self.value) is type(other.value) and bool(self.value == other.value)


class _Unlike(_Kept):
    """A parameter that cannot be compared: it equals only itself, so its program is never shared."""

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Unlike) and self.value is other.value
