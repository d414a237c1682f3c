"""Metrics that follow the position, the implicit leapfrog, and RMHMC."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sahmc import RMHMC, GeneralisedLeapfrog, NoTilt, SoftAbs, TiltedTarget, fisher_metric, sample
from sahmc.testing import mixture


def test_steps_too_long_to_be_solved_are_counted_rejections():
    target = TiltedTarget.build(lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(2), NoTilt())
    kernel = RMHMC(4.0, 2, metric=lambda x: jnp.diag(1.0 + 30 * x**2), jitter=0.0)
    states, info = jax.vmap(kernel.step, (0, None, None))(
        jax.random.split(jax.random.key(0), 200), target.evaluate(jnp.array([0.5, 0.5])), target
    )
    assert info.failed.mean() > 0.2
    assert not (info.failed & info.is_accepted).any() and not (info.failed & info.diverging).any()
    assert (states.position[info.failed] == 0.5).all() and (info.mechanical_acceptance[info.failed] == 0).all()


@pytest.mark.slow
def test_all_modes_from_one():
    target = mixture(-8.0, 6.0)
    result = sample(target.log_density, target.start, kernel="rmhmc", draws=300, tune=500, random_seed=0)
    assert target.worst_z(result) < 4
    assert (result.expectation(target.indicators).mean > 0.2).all()
    assert 0 < result.num_failed < 0.2 * result.num_trajectories


def test_a_metric_function_is_given_the_users_structure():
    def log_density(p):
        return -0.5 * p["a"] ** 2 - 0.5 * jnp.sum(p["b"] ** 2) / 4

    def metric_fn(p):
        return jnp.diag(jnp.concatenate([jnp.ones(1) + p["a"] ** 2 / 10, jnp.full(2, 0.25)]))

    start = {"a": jnp.zeros(()), "b": jnp.zeros(2)}
    kernel = RMHMC(metric=metric_fn)
    result = sample(log_density, start, kernel=kernel, tilt="none", draws=200, tune=100, random_seed=0)
    spread = result.expectation(lambda p: p["b"] ** 2)
    assert (np.abs(spread.mean - 4) < 4 * spread.mcse).all()


@pytest.mark.parametrize(
    "metric", [lambda x: -jnp.eye(2), lambda x: jnp.ones(2), lambda x: jnp.full((2, 2), jnp.nan), lambda x: jnp.eye(3)]
)
def test_a_metric_that_is_none_is_refused_before_anything_compiles(metric):
    with pytest.raises(ValueError, match=r"symmetric positive definite matrix of shape \(2, 2\)"):
        sample(lambda x: -jnp.sum(x**2), jnp.zeros(2), kernel=RMHMC(metric=metric))


@pytest.mark.parametrize(
    "make, match",
    [
        (lambda: RMHMC(metric="diagonal"), "metric must be a function"),
        (lambda: RMHMC(integrator="leapfrog"), "GeneralisedLeapfrog"),
        (lambda: SoftAbs(-1.0), "alpha"),
        (lambda: GeneralisedLeapfrog(tolerance=2.0), "tolerance"),
        (lambda: GeneralisedLeapfrog(max_iterations=0), "max_iterations"),
        (lambda: inspect.unwrap(fisher_metric)(3), "residuals"),
    ],
)
def test_bad_parts_are_refused(make, match):
    with pytest.raises(ValueError, match=match):
        make()
