"""The user's function, traced once and then only ever run as the program it stands for."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.extend import core
from jax.tree_util import PyTreeDef

from sahmc._support.pytree import static, strategy


@strategy
class TracedFunction:
    """A function of one array as a closed program, whose constants are data and whose steps are static.

    Two programs with the same steps are the same object to ``jit``, so a second run of the same model, or of the
    same model on other data, compiles nothing; and since every run traces the function anew, data changed between runs
    are seen.
    """

    consts: list[Any]
    """The arrays that the function uses besides its argument, such as data."""
    steps: _Steps = static()
    """The operations."""
    returns: PyTreeDef = static()
    """The pytree structure of what the function returns."""

    def constants(self) -> list[Any]:
        """Return all arrays that the function uses besides its argument, those inside a nested ``jit`` included."""
        return [*self.consts, *_nested_constants(self.steps.jaxpr)]

    @property
    def calls_out(self) -> bool:
        """Whether it calls functions outside JAX, to which numbers of another size are strange."""
        return any("callback" in name or "ffi" in name for name in _primitives(self.steps.jaxpr))

    def __call__(self, position: jax.Array) -> Any:
        """Return what the function returns."""
        leaves = core.jaxpr_as_fun(core.ClosedJaxpr(self.steps.jaxpr, self.consts))(position)
        return jax.tree.unflatten(self.returns, leaves)


def trace(fn: Callable[[jax.Array], Any], example: jax.Array) -> TracedFunction:
    """Return ``fn`` as a program, by calling it once, on a stand-in for the array ``example``."""
    closed, shape = jax.make_jaxpr(fn, return_shape=True)(example)
    consts = [jax.numpy.asarray(c) for c in closed.consts]
    return TracedFunction(consts, _interned(_Steps(closed.jaxpr)), jax.tree.structure(shape))


class _Steps:
    """A jaxpr that equals another if it does the same thing."""

    def __init__(self, jaxpr: core.Jaxpr):
        self.jaxpr = jaxpr
        self.key = _describe(jaxpr)
        self.hash = hash(self.key)

    def __repr__(self) -> str:
        return str(self.jaxpr)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Steps) and self.hash == other.hash and self.key == other.key)


@lru_cache(maxsize=64)
def _interned(steps: _Steps) -> _Steps:
    """Return the first of equal steps that was seen, so that comparing them is quick."""
    return steps


def _primitives(value: Any) -> set[str]:
    """Return the names of all operations of a program, or of those inside a parameter of an equation."""
    if isinstance(value, core.ClosedJaxpr):
        return _primitives(value.jaxpr)
    if isinstance(value, core.Jaxpr):
        inside = (_primitives(param) for eqn in value.eqns for param in eqn.params.values())
        return {eqn.primitive.name for eqn in value.eqns}.union(*inside)
    if isinstance(value, (tuple, list)):
        return set().union(*map(_primitives, value))
    return set()


def _nested_constants(value: Any) -> list[Any]:
    """Return the constants of all programs inside a parameter of an equation, or inside a program."""
    if isinstance(value, core.ClosedJaxpr):
        return [*value.consts, *_nested_constants(value.jaxpr)]
    if isinstance(value, core.Jaxpr):
        literals = [a.val for eqn in value.eqns for a in eqn.invars if isinstance(a, core.Literal)]
        return [*literals, *(c for eqn in value.eqns for p in eqn.params.values() for c in _nested_constants(p))]
    if isinstance(value, (tuple, list)):
        return [c for part in value for c in _nested_constants(part)]
    return []


def _describe(jaxpr: core.Jaxpr) -> Hashable:
    """Describe every equation with its parameters, variables numbered in order of appearance."""
    number: dict[Any, int] = {}

    def name(atom: Any) -> Hashable:
        if isinstance(atom, core.Literal):
            return str(atom.aval), np.asarray(atom.val).tobytes()
        return number.setdefault(atom, len(number)), str(atom.aval)

    rows = [tuple(map(name, jaxpr.constvars)), tuple(map(name, jaxpr.invars))]
    for eqn in jaxpr.eqns:
        params = tuple(sorted((k, _describe_param(v)) for k, v in eqn.params.items() if k != "name"))
        rows.append((eqn.primitive, tuple(map(name, eqn.invars)), params, tuple(map(name, eqn.outvars))))
    return (*rows, tuple(map(name, jaxpr.outvars)))


def _describe_param(value: Any) -> Hashable:
    """Describe a parameter of an equation, which may itself be a program."""
    if isinstance(value, core.ClosedJaxpr):
        return _describe(value.jaxpr), tuple(map(_describe_param, value.consts))
    if isinstance(value, core.Jaxpr):
        return _describe(value)
    if isinstance(value, (tuple, list)):
        return tuple(map(_describe_param, value))
    try:
        hash(value)
    except TypeError:
        return _Unlike(value)
    return _Kept(value)


class _Kept:
    """A parameter compared by its own equality, of the same type (1, 1.0 and True are three)."""

    def __init__(self, value: Any):
        self.value = value

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Kept) and type(self.value) is type(other.value) and bool(self.value == other.value)


class _Unlike(_Kept):
    """A parameter that cannot be compared: equal to itself alone, so its program is never shared."""

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Unlike) and self.value is other.value
