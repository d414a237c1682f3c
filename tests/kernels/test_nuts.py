"""NUTS against an implementation of others, and what is its own."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sahmc import NUTS, DiagonalMetric, NoTilt, TiltedTarget, sample
from sahmc.testing import mixture

DIM, CHAINS, STEPS = 10, 1000, 6
ROOT = np.random.default_rng(0).normal(size=(DIM, DIM)) / np.sqrt(DIM)
COVARIANCE = ROOT @ ROOT.T + 0.1 * np.eye(DIM)
PRECISION = np.linalg.inv(COVARIANCE)


def gaussian(x):
    return -0.5 * x @ jnp.asarray(PRECISION, x.dtype) @ x


def funnel(x):
    return -0.5 * (x[0] / 3) ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 0.5 * (DIM - 1) * x[0]


def exact_gaussian(rng):
    return rng.multivariate_normal(np.zeros(DIM), COVARIANCE, CHAINS)


def exact_funnel(rng):
    top = 3 * rng.normal(size=(CHAINS, 1))
    return np.hstack([top, np.exp(top / 2) * rng.normal(size=(CHAINS, DIM - 1))])


TARGETS = {"gaussian": (gaussian, exact_gaussian, 0.3), "funnel": (funnel, exact_funnel, 0.3)}
VARIANCES = DiagonalMetric(np.linspace(0.5, 2.0, DIM))


def run(step, start):
    """Per chain: means of the first two moments, of the depth of the trees and of their size."""

    @jax.jit
    def chain(states):
        def body(states, key):
            states, depth, size = jax.vmap(step)(jax.random.split(key, CHAINS), states)
            x = states.position
            return states, jnp.stack([x[:, 0], x[:, 1], x[:, 0] ** 2, jnp.abs(x[:, 1]), depth, size])

        return jax.lax.scan(body, states, jax.random.split(jax.random.key(1), STEPS))[1].mean(axis=0)

    return np.asarray(chain(start), float)


def ours(log_density, step_size, start):
    target = TiltedTarget.build(log_density, jnp.zeros(DIM), NoTilt())
    nuts = NUTS(step_size, metric=VARIANCES)

    def step(key, state):
        state, info = nuts.step(key, state, target)
        return state, info.tree_depth.astype(float), info.n_steps.astype(float)

    return run(step, jax.vmap(target.evaluate)(start))


def theirs(log_density, step_size, start):
    nuts = blackjax.nuts(log_density, step_size=step_size, inverse_mass_matrix=VARIANCES.inverse_mass)

    def step(key, state):
        state, info = nuts.step(jax.random.fold_in(key, 7), state)
        return state, info.num_trajectory_expansions.astype(float), info.num_integration_steps.astype(float)

    return run(step, jax.vmap(nuts.init)(start))


def distance(a, b):
    """In standard errors, of which the chains tell."""
    error = np.hypot(a.std(axis=1), b.std(axis=1)) / np.sqrt(CHAINS)
    return np.abs(a.mean(axis=1) - b.mean(axis=1)) / error


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n == "funnel" else n for n in TARGETS])
def test_moments_are_those_of_blackjax_and_trees_no_larger(name):
    log_density, exact, step_size = TARGETS[name]
    starts = [jnp.asarray(exact(np.random.default_rng(seed)), jnp.float32) for seed in (1, 2)]
    reference = theirs(log_density, step_size, starts[1])
    found = ours(log_density, step_size, starts[0])
    apart = distance(found, reference)
    assert (apart[:4] < 4).all()
    smaller = found[4:].mean(axis=1) < reference[4:].mean(axis=1)
    assert ((apart[4:] < 4) | smaller).all()  # turns are also looked for across the middle of a tree
    broken = distance(ours(log_density, 0.6 * step_size, starts[0]), reference)
    assert (broken[4:] > 4).any()  # trees tell step sizes apart


def test_trajectories_in_a_round_gaussian_do_not_go_round_and_round(monkeypatch):
    step_size = 0.8689  # seven steps are a little more than a period
    target = TiltedTarget.build(lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(11), NoTilt())
    starts = jax.vmap(target.evaluate)(jax.random.normal(jax.random.key(1), (200, 11)))

    def steps():
        keys = jax.random.split(jax.random.key(0), 200)
        _, info = jax.vmap(NUTS(step_size, metric="unit").step, (0, 0, None))(keys, starts, target)
        return float(info.n_steps.mean())

    assert steps() < 7
    monkeypatch.setattr("sahmc.kernels.nuts._turns_across", lambda *places: jnp.zeros((), bool))
    assert steps() > 40


def test_trees_end_at_the_largest_depth():
    target = TiltedTarget.build(gaussian, jnp.zeros(DIM), NoTilt())
    kernel = NUTS(0.001, metric="unit", max_tree_depth=4)
    keys = jax.random.split(jax.random.key(0), 50)
    _, info = jax.vmap(kernel.step, (0, None, None))(keys, target.evaluate(jnp.ones(DIM)), target)
    assert (info.tree_depth == 4).all() and (info.n_steps == 15).all()
    assert not info.diverging.any()


def test_a_trajectory_that_breaks_is_a_divergence():
    target = TiltedTarget.build(lambda x: -0.5 * jnp.sum(x**2) * 1e6, jnp.zeros(2), NoTilt())
    states, info = jax.vmap(NUTS(1.0, metric="unit").step, (0, None, None))(
        jax.random.split(jax.random.key(0), 20), target.evaluate(jnp.full(2, 1e-3)), target
    )
    assert info.diverging.all() and (info.n_steps == 1).all() and not info.is_accepted.any()
    assert (states.position == 1e-3).all()


@pytest.mark.parametrize("tilt", ["tempered", "linear"])
def test_all_modes_from_one(tilt):
    target = mixture(-8.0, 6.0)
    result = sample(target.log_density, target.start, kernel="nuts", tilt=tilt, random_seed=0, progressbar=False)
    found = result.expectation(target.indicators)
    assert np.abs(found.mean - target.masses).max() < 0.03
    assert target.worst_z(result) < 4
    assert result.tree_depth.shape == result.energy.shape and result.tree_depth.max() <= 10
    assert result.num_deepest < 1e-4 * result.num_trajectories and not result.findings


def test_cut_off_trees_are_a_finding():
    target = mixture(-8.0, 6.0)
    kernel = NUTS(0.05, metric="unit", max_tree_depth=2)
    with pytest.warns(UserWarning, match="tree-depth"):
        result = sample(target.log_density, target.start, kernel=kernel, draws=50, tune=50, tilt="none", random_seed=0)
    assert "tree-depth" in [finding.code for finding in result.findings]


@pytest.mark.parametrize("depth", [0, 21])
def test_depths_that_make_no_sense_are_refused(depth):
    with pytest.raises(ValueError, match="max_tree_depth"):
        NUTS(max_tree_depth=depth)
