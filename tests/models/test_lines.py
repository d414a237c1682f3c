"""Densities whose integral is infinite are told from those with heavy tails."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sahmc
from sahmc.models.energy import trace_energy
from sahmc.models.lines import improper_along

STARTS = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def along(log_density, offset=0.0):
    model = sahmc.Model(log_density=lambda x: log_density(x) + offset)
    energy_fn = trace_energy(model, lambda flat: flat, jnp.zeros(3), True)
    return improper_along(energy_fn, STARTS, np.array([1.0, 1e-3, 1e3])).tolist()


def normal(x):
    return -0.5 * jnp.sum(x[:2] ** 2)


PROPER = {
    "a normal": lambda x: normal(x) - 1e-6 * x[2] ** 2,
    "a t with one degree of freedom": lambda x: -2 * jnp.log1p(jnp.sum(x**2)),
    "three Cauchys": lambda x: -jnp.sum(jnp.log1p(x**2)),
    "1 / r^1.2": lambda x: normal(x) - 1.2 * jnp.log1p(jnp.abs(x[2])),
    "one tail a wall": lambda x: normal(x) + jnp.where(x[2] > 0, -jnp.inf, x[2] / 1e3),
    "a large number in place of infinity": lambda x: jnp.where(jnp.abs(x[2]) > 1e4, -1e10, normal(x)),
    "undefined far out": lambda x: normal(x) + jnp.where(jnp.abs(x[2]) > 1e6, jnp.nan, 0.0),
}
IMPROPER = {
    "1 / r": lambda x: normal(x) - jnp.log1p(jnp.abs(x[2])),
    "flat": normal,
    "flat on one side": lambda x: normal(x) - jnp.where(x[2] > 0, 0.0, x[2] ** 2),
    "a phase that is not bounded": lambda x: normal(x) + jnp.cos(x[2]),
    "rising": lambda x: normal(x) + 10 * x[2],
}


@pytest.mark.parametrize("name", PROPER)
def test_heavy_tails_and_walls_are_proper(name):
    assert along(PROPER[name]) == []


@pytest.mark.parametrize("name", IMPROPER)
def test_what_falls_off_too_slowly_is_found(name):
    assert along(IMPROPER[name]) == [2]


def test_nothing_is_said_where_rounding_hides_the_fall():
    """Cauchys on top of 1e9 nats: neighbouring numbers are 64 nats apart."""
    assert along(PROPER["three Cauchys"], 1e9) == [] and along(normal, 1e9) == []


def test_chains_stuck_at_a_pole_do_not_make_a_density_improper():
    """Half of Gamma(1/2) on either side of 0, seen from 1e-13 away."""
    model = sahmc.Model(log_density=lambda x: jnp.sum(-0.5 * jnp.log(jnp.abs(x)) - jnp.abs(x)))
    energy_fn = trace_energy(model, lambda flat: flat, jnp.zeros(3), True)
    assert improper_along(energy_fn, 1e-13 * STARTS, np.full(3, 1e-13)).size == 0


@pytest.mark.newest
def test_draws_that_only_the_largest_numbers_hold_are_told():
    """Chains fill the flat half of the line evenly, up to the last number, and agree."""
    options = {"draws": 200, "tune": 200, "random_seed": 0, "progressbar": False}
    start = {"a": jnp.array(0.0), "b": jnp.array(0.0)}
    with pytest.warns(UserWarning, match="improper: far out along b its"):
        result = sahmc.sample(lambda p: -0.5 * p["a"] ** 2 + jax.nn.log_sigmoid(p["b"]), start, **options)
    assert result.findings[0].severity == "error" and np.isnan(result.log_evidence().mean)


def test_a_separable_logistic_regression_is_told_and_has_no_evidence():
    """Its likelihood grows for ever along one direction, and nothing but a prior would hold it."""
    x = np.random.default_rng(0).normal(size=(40, 2))

    def log_density(p):
        return jnp.sum(jax.nn.log_sigmoid(jnp.where(x[:, 0] > 0, 1, -1) * (x @ p["slopes"])))

    options = {"draws": 100, "tune": 100, "random_seed": 0, "progressbar": False}
    with pytest.warns(UserWarning, match=r"improper: far out along slopes\[0\]"):
        result = sahmc.sample(log_density, {"slopes": jnp.zeros(2)}, **options)
    assert result.findings[0].severity == "error" and np.isnan(result.log_evidence().mean)
    with_prior = sahmc.sample(
        lambda p: log_density(p) - 0.5 * jnp.sum(p["slopes"] ** 2), {"slopes": jnp.zeros(2)}, **options
    )
    assert "improper" not in {finding.code for finding in with_prior.findings}


def test_in_very_many_dimensions_no_line_is_followed():
    model = sahmc.Model(log_density=lambda x: 0.0 * jnp.sum(x))
    for dim, found in ((400, 400), (401, 0)):
        energy_fn = trace_energy(model, lambda flat: flat, jnp.zeros(dim), True)
        assert improper_along(energy_fn, np.zeros((1, dim), np.float32), np.ones(dim)).size == found
