"""A program that was traced in 32 bits gives the digits of 64 when it is run in 64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import logsumexp

from sahmc._support.double import in_double
from sahmc._support.traced import trace

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


@pytest.mark.parametrize("fn", [with_loops, with_solves, with_rules_of_its_own])
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


def test_data_stay_what_they_are_whatever_was_traced_before():
    """JAX remembers an array of 64 bits by the 32 that it had; a program traced in 64 would mix both."""
    data = np.linspace(0, 1, 7)
    kept = jax.make_jaxpr(lambda x: jnp.subtract(data, x).sum())(jnp.float32(0.3))
    traced = trace(lambda x: (jnp.subtract(data, x) ** 2).sum(), jnp.float32(0.3))
    with jax.enable_x64(True):
        found = in_double(traced, jnp.asarray(0.3))
    assert np.isclose(found, ((data.astype(np.float32).astype(float) - 0.3) ** 2).sum(), rtol=1e-14) and kept.eqns
