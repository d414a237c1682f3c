"""A program that was traced in 32 bits gives the digits of 64 when it is run in 64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import logsumexp

from sahmc._support.double import in_double
from sahmc._support.traced import trace

pytestmark = pytest.mark.newest

MATRIX = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32).astype(float) + 3 * np.eye(3)


def with_loops(x):
    rows = jax.lax.scan(lambda carry, row: (jnp.sin(carry) + row, carry * row), x[0], jnp.stack([x, x**2]).sum(1))
    last = jax.lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 1.01), (0, rows[0]))[1]
    rows = (rows[0], rows[1].at[jnp.array([0, 0, 1])].add(x))
    return last + jax.lax.cond(x[1] > 0, jnp.exp, jnp.cos, x[2]) + rows[1].sum()


def with_solves(x):
    matrix = jnp.asarray(MATRIX, jnp.float32) + jnp.diag(x)
    return jnp.linalg.solve(matrix, MATRIX).sum() + jnp.linalg.slogdet(matrix @ matrix.T)[1]


def with_rules_of_its_own(x):
    return logsumexp(jax.nn.log_sigmoid(x)) + jax.nn.relu(x).sum() + jnp.float32(0.1) * jax.checkpoint(jnp.tanh)(x)[0]


def with_loops_in_loops(x):
    def turned(carry):
        return jax.jit(lambda y: y @ jnp.asarray(MATRIX, jnp.float32) / 5 + np.arange(3, dtype=np.float32))(carry)

    def body(carry, row):
        carry = jax.lax.fori_loop(0, 3, lambda i, y: y + 0.1 * turned(y) * row, carry)
        ways = [lambda y: y / 2, lambda y: jnp.tanh(y) * np.arange(3, dtype=np.float32)]
        return jax.lax.switch(jnp.int32(row > 0), ways, carry), carry.sum()

    last, rows = jax.lax.scan(body, x, x, reverse=True)
    return last.sum() + rows @ jnp.arange(3.0)


def with_loops_of_unlike_length(x):
    def one(a):
        steps = jax.lax.while_loop(lambda c: c[0] < 9 * jnp.abs(a), lambda c: (c[0] + 1, c[1] * 1.1 + a), (0.0, a))
        return steps[1]

    return jax.vmap(one)(x).sum()


def with_waves(x):
    return jnp.abs(jnp.fft.fft(x)).sum() + jnp.real(jax.lax.complex(x, 2 * x) ** 2).sum()


def with_a_table(x):
    """The place in a table is found by an operation that stands for a program in some versions of JAX."""
    table = jnp.arange(-4.0, 5.0)
    return jnp.interp(x, table, jnp.sin(table)).sum()


def with_a_root(x):
    def newton(f, y):
        return jax.lax.fori_loop(0, 20, lambda _, y: y - f(y) / (3 * y**2 + 1), y)

    return jax.lax.custom_root(lambda y: y**3 + y - x.sum(), 0.5, newton, lambda g, y: y / g(1.0))


ALL = [
    *(with_loops, with_solves, with_rules_of_its_own, with_loops_in_loops, with_loops_of_unlike_length),
    *(with_waves, with_a_table, with_a_root),
]


@pytest.mark.parametrize("fn", ALL)
def test_numbers_are_those_of_64_bits(fn):
    point = np.random.default_rng(1).normal(size=3)
    traced = trace(fn, jnp.zeros(3, jnp.float32))
    with jax.enable_x64(True):
        found = jax.jit(lambda x: in_double(traced, x))(point)
        assert found.dtype == np.float64
        step = 1e-6  # a difference quotient has six digits in 64 bits, and none in 32
        ahead, behind = (float(in_double(traced, jnp.asarray(point + s * np.eye(3)[0]))) for s in (step, -step))
    slope = (ahead - behind) / (2 * step)
    assert np.isclose(found, fn(jnp.asarray(point, jnp.float32)), rtol=1e-4)
    assert np.isclose(slope, jax.jacfwd(fn)(jnp.asarray(point, jnp.float32))[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("fn", [with_loops_in_loops, with_solves, with_waves, with_a_table, with_a_root])
def test_gradients_and_batches_are_those_of_64_bits(fn):
    points = np.random.default_rng(2).normal(size=(4, 3))
    traced = trace(jax.value_and_grad(fn), jnp.zeros(3, jnp.float32))
    with jax.enable_x64(True):
        values, slopes = jax.jit(jax.vmap(lambda x: in_double(traced, x)))(points)
        assert values.dtype == slopes.dtype == np.float64
        near = (jnp.asarray(points[0] + s * np.eye(3)[1]) for s in (1e-6, -1e-6))
        ahead, behind = (float(in_double(traced, x)[0]) for x in near)
    assert np.isclose(slopes[0, 1], (ahead - behind) / 2e-6, rtol=1e-7, atol=1e-7)
    assert np.allclose(values, [fn(point) for point in points.astype(np.float32)], rtol=1e-4)


def test_numbers_of_fewer_bits_stay_as_they_are():
    traced = trace(lambda x: (x.astype(jnp.bfloat16) * 3).astype(jnp.float32).sum(), jnp.zeros(3, jnp.float32))
    point = jnp.asarray([0.1, 0.2, 0.3], jnp.float32)
    with jax.enable_x64(True):
        assert in_double(traced, point.astype(jnp.float64)) == float(traced(point))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: (x * jax.random.normal(jax.random.key(0), (3,))).sum(),
        lambda x: jax.lax.bitcast_convert_type(x, jnp.int32).sum() * x[0],
        lambda x: jax.pure_callback(lambda y: np.float32(y.sum()), jnp.float32(0), x),
    ],
)
def test_what_cannot_be_done_is_an_error(fn):
    """It is caught where it is asked for; a number of 32 bits in its place would be believed."""
    traced = trace(fn, jnp.zeros(3, jnp.float32))
    with jax.enable_x64(True), pytest.raises((TypeError, ValueError, jax.errors.JaxRuntimeError)):
        jax.block_until_ready(in_double(traced, jnp.ones(3)))


def test_data_stay_what_they_are_whatever_was_traced_before():
    """JAX remembers an array of 64 bits by the 32 that it had; a program traced in 64 would mix both."""
    data = np.linspace(0, 1, 7)
    kept = jax.make_jaxpr(lambda x: jnp.subtract(data, x).sum())(jnp.float32(0.3))
    traced = trace(lambda x: (jnp.subtract(data, x) ** 2).sum(), jnp.float32(0.3))
    with jax.enable_x64(True):
        found = in_double(traced, jnp.asarray(0.3))
    assert np.isclose(found, ((data.astype(np.float32).astype(float) - 0.3) ** 2).sum(), rtol=1e-14) and kept.eqns
