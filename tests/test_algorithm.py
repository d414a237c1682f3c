import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sahmc import (
    HMC,
    EnergyPartition,
    NoTilt,
    StepTilt,
    TemperatureLadder,
    TemperedTilt,
    TiltedTarget,
    init,
    sahmc_step,
)
from sahmc._support.noise import make_noise

EPS, LENGTH, CHAINS, STEPS = 0.7, 4, 8, 10


def energy(x):
    return 0.5 * jnp.sum(x**2) + 0.1 * jnp.sum(x**4)


def plain_hmc(y, uniform, x):
    """Plain HMC from the textbook, on its own; only the use of the random numbers is agreed on."""
    h0 = energy(x) + 0.5 * jnp.sum(y * y)
    new_x, new_y = x, y - 0.5 * EPS * jax.grad(energy)(x)
    for i in range(LENGTH):
        new_x = new_x + EPS * new_y
        new_y = new_y - (EPS if i < LENGTH - 1 else 0.5 * EPS) * jax.grad(energy)(new_x)
    h1 = energy(new_x) + 0.5 * jnp.sum(new_y * new_y)
    return jnp.where(jnp.log(uniform[-1]) < h0 - h1, new_x, x)


def textbook(positions):
    @jax.jit
    def iterate(t, x):
        key = jax.random.fold_in(jax.random.key(3), t)
        numbers = make_noise(key, CHAINS, 3, 3, 1, jnp.float32, 0).of_chains(CHAINS, 3)
        return jax.vmap(plain_hmc)(*numbers, x)

    path = []
    for t in range(STEPS):
        positions = iterate(t, positions)
        path.append(positions)
    return np.stack(path)


def one_region(tilt, positions):
    target = TiltedTarget.build(lambda x: -energy(x), positions[0], tilt)
    kernel = HMC(EPS, LENGTH, metric="unit", jitter=0.0)

    @jax.jit
    def iterate(t, state):
        key = jax.random.fold_in(jax.random.key(3), t)
        return sahmc_step(key, state, kernel, target, jnp.float32(0.5), jnp.ones(1))[0]

    state, path = init(target, positions), []
    for t in range(STEPS):
        state = iterate(t, state)
        path.append(state.chains.position)
    return np.stack(path), state


@pytest.mark.parametrize(
    "tilt",
    [NoTilt(), StepTilt(EnergyPartition([])), TemperedTilt(TemperatureLadder([1.0]))],
    ids=["none", "step", "tempered"],
)
def test_one_region_is_plain_hmc_bit_for_bit(tilt):
    """Operation by operation: a compiler is free to round fused operations in its own way."""
    positions = jax.random.normal(jax.random.key(0), (CHAINS, 3))
    with jax.disable_jit():
        path, state = one_region(tilt, positions)
        assert np.array_equal(path, textbook(positions))
    assert 0.6 < (np.diff(path[..., 0], axis=0) != 0).mean() < 0.999  # both decisions were seen
    assert state.theta.theta.tolist() == [0.0]


def test_a_nan_energy_is_a_counted_rejection_and_the_chain_goes_on():
    def log_density(x):
        return jnp.where(jnp.abs(x[0]) > 1.0, jnp.nan, -0.5 * jnp.sum(x**2))

    target = TiltedTarget.build(log_density, jnp.zeros(2), NoTilt())
    kernel = HMC(0.5, 4, metric="unit", jitter=0.0)
    state = init(target, jnp.zeros((50, 2)))
    step = jax.jit(lambda t, s: sahmc_step(jax.random.key(t), s, kernel, target, jnp.float32(0.0), jnp.ones(1)))
    diverging = accepted = 0
    for t in range(40):
        state, info = step(t, state)
        diverging += int(info.diverging.sum())
        accepted += int(info.is_accepted.sum())
        assert np.isfinite(state.chains.energy).all() and (np.abs(state.chains.position[:, 0]) <= 1).all()
        assert not (info.diverging & info.is_accepted).any()
    assert diverging > 100 and accepted > 100


GOOD = TiltedTarget.build(lambda x: -x @ x, jnp.zeros(2), NoTilt())


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: build(jnp.zeros((2, 2)), NoTilt()), "vector of floats"),
        (lambda: build(jnp.zeros(2), NoTilt), "tilt must be a tilt object"),
        (lambda: GOOD.evaluate(jnp.zeros(3)), r"array of shape \(2,\)"),
        (lambda: inspect.unwrap(init)(3, jnp.zeros((4, 2))), "target must be a TiltedTarget"),
        (lambda: inspect.unwrap(init)(GOOD, jnp.zeros(2)), "positions must be an array"),
        (lambda: step(rng_key=0), "rng_key must be one JAX key"),
        (lambda: step(state=None), "state must be a SAHMCState"),
        (lambda: step(kernel="hmc"), "kernel must be a kernel"),
        (lambda: step(gain="x"), "gain must be a number"),
        (lambda: step(gain=10**400), "gain must be a number"),
        (lambda: step(gain=np.array(["a", "b"])), "gain must be a number"),
        (lambda: step(desired=jnp.ones(3)), "desired must be an array of 1 numbers"),
    ],
)
def test_junk_in_a_loop_of_ones_own_is_refused(call, said):
    for gain in (0, 1, 0.5, jnp.int32(0), np.float32(0.1)):
        step(gain=gain, desired=np.ones(1, int))
    with pytest.raises(ValueError, match=f"{said}.*To fix it"):
        call()


def build(example, tilt):
    return inspect.unwrap(TiltedTarget.build.__func__)(TiltedTarget, lambda x: -x @ x, example, tilt)


def step(**given):
    state = init(GOOD, jnp.zeros((4, 2)))
    usual = dict(rng_key=jax.random.key(0), state=state, kernel=HMC(0.1, 3, "unit"), target=GOOD)
    usual |= dict(gain=jnp.float32(0.1), desired=jnp.ones(1))
    return inspect.unwrap(sahmc_step)(**{**usual, **given})
