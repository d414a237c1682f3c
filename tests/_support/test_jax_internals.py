"""What the library believes of JAX's programs is so in the JAX that is installed."""

import gc
import re
import weakref
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sahmc._support import jax_internals as inside
from sahmc._support.traced import trace

pytestmark = pytest.mark.newest

INTERNAL = re.compile(
    r"\bjax\.(core|_src|experimental|interpreters|lib)\b|from jax import .*\b(core|experimental|lib)\b"
)
CACHE = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")

X = jnp.ones(3, jnp.float32)
DATA = np.arange(3, dtype=np.float32)


@jax.custom_jvp
def with_a_tangent(x):
    return jnp.sin(x) * DATA


@jax.custom_vjp
def with_a_cotangent(x):
    return jnp.sin(x) * DATA


with_a_tangent.defjvp(lambda primals, tangents: (with_a_tangent(*primals), tangents[0]))
with_a_cotangent.defvjp(lambda x: (with_a_cotangent(x), None), lambda _, slope: (slope,))
INNER = {
    "jit": jax.jit(lambda x: jnp.sin(x) * DATA),
    "checkpoint": jax.checkpoint(lambda x: jnp.sin(x) * DATA),
    "custom_jvp": with_a_tangent,
    "custom_vjp": with_a_cotangent,
}
OUTER = {
    "jit": jax.jit,
    "scan": lambda fn: lambda x: jax.lax.scan(lambda c, row: (fn(c) + row, row), x, x)[0],
    "while": lambda fn: lambda x: jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, fn(c[1])), (0, x))[1],
    "cond": lambda fn: lambda x: jax.lax.cond(x[0] > 0, fn, jnp.cos, x),
    "linear_solve": lambda fn: lambda x: jax.lax.custom_linear_solve(jnp.negative, x, lambda _, y: fn(y)),
    "root": lambda fn: lambda x: jax.lax.custom_root(jnp.negative, x, lambda _, y: fn(y), lambda _, y: -y),
}


def made(fn, *examples):
    return inside.make_program(fn, *(examples or [X]))


def names(program):
    return [eqn.primitive.name for each in inside.programs_in(program) for eqn in inside.equations(each)]


def test_a_program_is_apart_from_its_constants():
    program, consts, shapes = made(lambda x: {"a": x * DATA + 2.5, "b": x @ x})
    assert inside.is_program(program) and not inside.constants(program)
    assert [var.aval.shape for var in inside.inputs(program)] == [(3,), (3,)] and np.array_equal(consts[0], DATA)
    assert len(inside.outputs(program)) == 2 and shapes["b"].shape == ()
    one, two = (inside.run_program(program, [factor * DATA], X) for factor in (1, 2))
    assert np.allclose(one[0], DATA + 2.5) and np.allclose(two[0], 2 * DATA + 2.5)


def test_programs_that_are_kept_do_not_keep_data():
    data = jnp.arange(1234.0)
    traced, gone = trace(lambda x: jnp.sum(data * x), jnp.ones(())), weakref.ref(data)
    steps = traced.steps
    del data, traced
    jax.clear_caches()
    gc.collect()
    assert gone() is None and steps.program is not None


def test_literals_have_the_types_of_their_places():
    eqns = inside.equations(made(lambda x: (x + 2.5, x.astype(jnp.int32) + 7))[0])
    found = [inside.literal(atom) for eqn in eqns for atom in eqn.invars if inside.is_literal(atom)]
    assert [(float(number), number.dtype) for number in found] == [(2.5, np.float32), (7.0, np.int32)]


@pytest.mark.parametrize("name", INNER)
def test_calls_are_seen_through(name):
    (eqn,) = inside.equations(made(INNER[name])[0])
    called = inside.called_program(eqn)
    assert "sin" in names(called) and len(inside.inputs(called)) - len(inside.constants(called)) == len(eqn.invars)


@pytest.mark.parametrize("name", ["scan", "while", "cond", "linear_solve"])
def test_other_operations_with_programs_inside_are_no_calls(name):
    eqns = [eqn for eqn in inside.equations(made(OUTER[name](jnp.sin))[0]) if "sin" not in eqn.primitive.name]
    assert all(inside.called_program(eqn) is None for eqn in eqns)


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("inner", INNER)
def test_what_is_inside_is_found(outer, inner):
    program, consts, _ = made(OUTER[outer](INNER[inner]))
    held = [*consts, *(c for each in inside.programs_in(program) for c in inside.constants(each))]
    assert "sin" in names(program) and any(np.array_equal(c, DATA) for c in held)
    traced = trace(OUTER[outer](INNER[inner]), X)
    assert any(np.array_equal(c, DATA) for c in traced.constants()) and not traced.calls_out


@pytest.mark.parametrize("outer", OUTER)
def test_calls_to_the_outside_are_seen_wherever_they_are(outer):
    def called(x):
        return jax.pure_callback(np.sin, x, x, vmap_method="expand_dims")

    assert trace(OUTER[outer](called), X).calls_out and trace(called, X).calls_out


def test_calls_of_compiled_libraries_are_seen():
    assert trace(jax.ffi.ffi_call("none", jax.ShapeDtypeStruct((3,), np.float32)), X).calls_out


@pytest.mark.parametrize("outer", ["scan", "while", "cond", "linear_solve"])
def test_an_operation_takes_another_program(outer):
    """The sine in it becomes a cosine, and the rest is as before."""

    def run(program, *values):
        known = dict(zip(inside.inputs(program), [*inside.constants(program), *values], strict=True))

        def read(atom):
            return inside.literal(atom) if inside.is_literal(atom) else known[atom]

        for eqn in inside.equations(program):
            read_in = [read(atom) for atom in eqn.invars]
            params = {key: changed(value) for key, value in eqn.params.items()}
            found = [jnp.cos(*read_in)] if eqn.primitive.name == "sin" else inside.bind(eqn, read_in, params)
            known.update(zip(eqn.outvars, found, strict=True))
        return [read(atom) for atom in inside.outputs(program)]

    def changed(value):
        if inside.is_program(value):
            free = inside.inputs(value)[len(inside.constants(value)) :]
            shapes = [jax.ShapeDtypeStruct(var.aval.shape, var.aval.dtype) for var in free]
            return inside.remade(value, lambda *args: run(value, *args), *shapes)
        if isinstance(value, tuple):
            parts = map(changed, value)
            return value._make(parts) if hasattr(value, "_make") else tuple(parts)
        return value

    program, consts, _ = made(OUTER[outer](lambda x: jnp.sin(x) * 0.7))
    (found,) = jax.jit(lambda x: run(program, *consts, x))(X)
    assert np.allclose(found, OUTER[outer](lambda x: jnp.cos(x) * 0.7)(X))


def test_operations_that_stand_for_programs_are_opened():
    """``jnp.interp`` has such a one in it since JAX 0.12, and an operation of its own must be told from it always."""
    programs = list(inside.programs_in(made(lambda x: jnp.interp(x, DATA, DATA**2))[0]))
    high = [eqn for each in programs for eqn in inside.equations(each) if eqn.primitive.name == inside.HIGH]
    for eqn in high:
        called = inside.called_program(eqn)
        assert [atom.aval.dtype for atom in inside.outputs(called)] == [var.aval.dtype for var in eqn.outvars]


def test_types_in_parameters_are_exchanged():
    types = {np.dtype(np.float32): np.dtype(np.float64)}
    avals = [var.aval for var in inside.inputs(made(lambda x: x)[0])]
    (aval,) = (inside.retyped(each, types) for each in avals)
    assert (aval.dtype, aval.shape) == (np.float64, (3,))
    assert inside.retyped(jnp.float32, types) == np.float64 == inside.retyped(np.dtype("float32"), types)
    assert inside.retyped(np.dtype("int32"), types) == np.int32 and inside.retyped("float32", types) == "float32"


def test_it_is_known_that_jax_has_started():
    jax.block_until_ready(X + 1)
    assert inside.has_started()


@pytest.mark.parametrize("make", [jax.random.key, jax.random.PRNGKey], ids=["key", "words"])
def test_arrays_that_are_traced_are_told_from_those_with_numbers(make):
    seen = []
    for transformed in (jax.jit, jax.vmap):
        transformed(lambda key: seen.append(inside.is_traced(key)) or key)(jnp.stack([make(0), make(1)]))
    assert seen == [True, True] and not inside.is_traced(make(0))


def test_a_folder_of_programs_that_is_named_late_is_used(tmp_path):
    """JAX asks for the folder once, at the first program, unless it is made to look again."""
    named = {name: getattr(jax.config, name) for name in CACHE}
    try:
        jax.config.update(CACHE[0], None)
        inside.look_for_cache_again()
        jax.block_until_ready(jax.jit(lambda x: x * 3)(X))
        jax.config.update(CACHE[0], str(tmp_path))
        jax.config.update(CACHE[1], 0.0)
        inside.look_for_cache_again()
        jax.block_until_ready(jax.jit(lambda x: jnp.sin(x) * 5)(X))
        assert list(tmp_path.glob("*-cache"))
    finally:
        for name, value in named.items():
            jax.config.update(name, value)
        inside.look_for_cache_again()


def test_nothing_else_looks_into_jax():
    """Only this one module, and no benchmark or example, names what JAX may change or take away."""
    root = Path(__file__).parents[2]
    files = [path for folder in ("src", "benchmarks", "examples") for path in (root / folder).rglob("*.py")]
    found = {path.name for path in files if INTERNAL.search(path.read_text())}
    assert found == {"jax_internals.py"}
