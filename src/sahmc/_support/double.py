"""A program that was traced in 32 bits, run in 64.

To trace the user's function anew in 64 bits would not do: JAX remembers NumPy arrays by the type that they had when
they were first traced, and the function may itself ask for 32 bits. Here every equation is run as it is, but with
numbers of 64 bits, constants among them, which stay as exact as they were in 32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from sahmc._support.traced import TracedFunction


def in_double(fn: TracedFunction, position: jax.Array) -> Any:
    """Return what a traced function returns for a position of 64 bits, computed in 64 bits throughout."""
    return jax.tree.unflatten(fn.returns, _run(fn.steps.jaxpr, fn.consts, [position]))


def _run(jaxpr: core.Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Return the results of a program, equation by equation."""
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, map(_double, consts), strict=True))
    known.update(zip(jaxpr.invars, args, strict=True))

    def read(atom: Any) -> Any:
        return _double(jnp.asarray(atom.val)) if isinstance(atom, core.Literal) else known[atom]

    for eqn in jaxpr.eqns:
        found = _RULES.get(eqn.primitive.name, _bind)(eqn, [read(atom) for atom in eqn.invars])
        known.update(zip(eqn.outvars, found, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _double(value: Any) -> Any:
    """Return an array with 64 bits for each real number; others are left as they are."""
    return jnp.asarray(value, jnp.float64) if getattr(value, "dtype", None) == np.float32 else value


def _type(value: Any) -> Any:
    """Return a parameter of an equation, with the type of 64 bits where it says 32, and in programs inside."""
    if isinstance(value, (core.Jaxpr, core.ClosedJaxpr)):
        inner = value.jaxpr if isinstance(value, core.ClosedJaxpr) else value
        closed = jax.make_jaxpr(lambda *args: _run_inner(value, args))(*(_type(var.aval) for var in inner.invars))
        return closed if isinstance(value, core.ClosedJaxpr) else closed.jaxpr
    if isinstance(value, (np.dtype, type)) and value == np.float32:
        return np.dtype(np.float64)
    if isinstance(value, jax.core.ShapedArray) and value.dtype == np.float32:
        return value.update(dtype=np.dtype(np.float64))
    return tuple(map(_type, value)) if type(value) is tuple else value


def _bind(eqn: Any, values: Sequence[Any]) -> Sequence[Any]:
    """Run an equation as it is."""
    found = eqn.primitive.bind(*values, **{name: _type(value) for name, value in eqn.params.items()})
    return found if eqn.primitive.multiple_results else [found]


def _call(eqn: Any, values: Sequence[Any]) -> Sequence[Any]:
    """Run the program that an equation calls."""
    return _run_inner(next(eqn.params[name] for name in ("jaxpr", "call_jaxpr") if name in eqn.params), values)


def _run_inner(program: Any, values: Sequence[Any]) -> list[Any]:
    """Run a program, closed or not."""
    if isinstance(program, core.ClosedJaxpr):
        return _run(program.jaxpr, program.consts, values)
    return _run(program, [], values)


def _scan(eqn: Any, values: Sequence[Any]) -> Sequence[Any]:
    consts, carried = eqn.params["num_consts"], eqn.params["num_carry"]

    def body(carry: Any, x: Any) -> tuple[Any, Any]:
        found = _run_inner(eqn.params["jaxpr"], [*values[:consts], *carry, *x])
        return tuple(found[:carried]), tuple(found[carried:])

    start, xs = tuple(values[consts : consts + carried]), tuple(values[consts + carried :])
    options = {name: eqn.params[name] for name in ("length", "reverse", "unroll")}
    end, rows = jax.lax.scan(body, start, xs, **options)
    return [*end, *rows]


def _while(eqn: Any, values: Sequence[Any]) -> Sequence[Any]:
    for_cond, for_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    cond_consts, body_consts = values[:for_cond], values[for_cond : for_cond + for_body]
    return jax.lax.while_loop(
        lambda carry: _run_inner(eqn.params["cond_jaxpr"], [*cond_consts, *carry])[0],
        lambda carry: tuple(_run_inner(eqn.params["body_jaxpr"], [*body_consts, *carry])),
        tuple(values[for_cond + for_body :]),
    )


def _cond(eqn: Any, values: Sequence[Any]) -> Sequence[Any]:
    branches = [lambda *rest, branch=branch: _run_inner(branch, rest) for branch in eqn.params["branches"]]
    return jax.lax.switch(values[0], branches, *values[1:])


def _solve(eqn: Any, values: Sequence[Any]) -> Sequence[Any]:
    """Solve a linear system by the program that does so forward, ``solve``; the others are for gradients."""
    lengths = eqn.params["const_lengths"]
    before = lengths.matvec + lengths.vecmat
    consts = values[before : before + lengths.solve]
    return _run_inner(eqn.params["jaxprs"].solve, [*consts, *values[sum(lengths) :]])


_CALLS = ("jit", "pjit", "closed_call", "core_call", "remat2", "checkpoint", "custom_jvp_call", "custom_vjp_call")
_RULES: dict[str, Callable[[Any, Sequence[Any]], Sequence[Any]]] = {
    **dict.fromkeys(_CALLS, _call),
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "custom_linear_solve": _solve,
}
"""How equations with programs inside are run, by the names of their primitives."""
