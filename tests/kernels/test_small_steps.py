"""A share of moves with small steps leaves the target as it is, and gets chains out of places that are too narrow."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sahmc
from sahmc import HMC, NoTilt, TiltedTarget
from sahmc._support.pytree import strategy, updated
from sahmc.engine.stage import StageRunner
from sahmc.kernels.around import plain
from sahmc.kernels.hmc import SMALL_STEPS, SMALLEST
from sahmc.testing import check_invariance, grid_sampler
from sahmc.testing.cases import HIGH, LOW, frozen_target
from sahmc.testing.kernel import FOUR_SIGMA

MIXED = HMC(0.5, 5, metric="unit", small_steps=0.5)


@strategy
class Adapting(HMC):
    """Takes its small steps where the energy is high, and the usual ones elsewhere."""

    def step_by(self, normal, uniform, rng_key, state, target):
        share = jnp.where(state.energy > 1.0, 0.99, 0.0)
        return HMC.step_by(updated(self, small_steps=share), normal, uniform, rng_key, state, target)


@pytest.mark.parametrize("label", ["none", "step", "tempered with prior"])
def test_a_share_that_does_not_depend_on_the_position_is_exact(label):
    target = frozen_target(label)
    draw = grid_sampler(target, LOW, HIGH)
    assert check_invariance(MIXED, target, draw)[0] > FOUR_SIGMA


def test_a_share_that_depends_on_the_position_is_caught():
    target = frozen_target("none")
    broken = Adapting(0.5, 5, metric="unit", small_steps=0.5)
    assert check_invariance(broken, target, grid_sampler(target, LOW, HIGH))[0] < FOUR_SIGMA


@pytest.mark.parametrize(
    ("kernel", "share"),
    [
        (HMC(), SMALL_STEPS),
        (HMC(small_steps=0.0), 0.0),
        (HMC(0.5), 0.0),
        (HMC(jitter=0), 0.0),
        (HMC(0.5, small_steps=0.1), 0.1),
    ],
)
def test_the_share_is_zero_where_the_step_size_was_chosen(kernel, share):
    assert kernel.small_steps == share


def test_factors_of_the_step_size():
    """A fifth of them are log-uniform below 1; the others keep the jitter."""
    uniforms = (np.arange(100_000) + 0.5) / 100_000
    factors = np.asarray(jax.vmap(HMC().factor)(jnp.asarray(uniforms)))
    short, usual = factors[uniforms < SMALL_STEPS], factors[uniforms >= SMALL_STEPS]
    assert abs(np.median(np.log(short)) - 0.5 * np.log(SMALLEST)) < 1e-3 and short.min() > 0.999 * SMALLEST
    assert abs(usual.mean() - 1) < 1e-4 and usual.min() > 0.699 and usual.max() < 1.301
    assert np.array_equal(jax.vmap(HMC(0.1).factor)(jnp.asarray(uniforms, jnp.float32)), jittered(uniforms))


def jittered(uniforms):
    u = jnp.asarray(uniforms, jnp.float32)
    return 1.0 + 0.3 * (2.0 * u - 1.0)


def funnel(x):
    """The log density of ten numbers of scale exp(x_0), with x_0 of spread 2."""
    return -0.125 * x[0] ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-2 * x[0]) - 10 * x[0]


@pytest.mark.parametrize(("share", "stays"), [(0.0, True), (0.2, False)])
def test_a_chain_in_the_neck_of_a_funnel_moves(share, stays):
    """A step of 0.5 is 27 times the width there."""
    start = jnp.append(-4.0, jnp.full(10, 0.018))
    kernel = HMC(0.5, 4, metric="unit", small_steps=share)
    target = TiltedTarget.build(funnel, start, NoTilt())
    state = target.evaluate(start)

    def moved(key):
        return kernel.step(key, state, target)[0].position[0] != start[0]

    accepted = np.mean(jax.vmap(moved)(jax.random.split(jax.random.key(0), 4000)))
    assert accepted < 0.002 if stays else accepted > 0.015


def test_only_draws_are_made_with_small_steps(monkeypatch):
    """Chains that creep into a pit would mislead the warm-up."""
    shares, run = {}, StageRunner.run

    def watched(runner, stage, state, setup, *args, **options):
        shares.setdefault(stage, set()).add(float(plain(setup.kernel).small_steps))
        return run(runner, stage, state, setup, *args, **options)

    monkeypatch.setattr(StageRunner, "run", watched)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sahmc.sample(lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(2), draws=20, tune=100, random_seed=0, progressbar=False)
    assert shares.pop("draw") == {SMALL_STEPS}
    assert "pilot" in shares and "adapt" in shares and set.union(*shares.values()) == {0.0}
