import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sahmc
from sahmc.algorithm import sahmc_step
from sahmc.kernels.hmc import HMC
from sahmc.testing import mixture
from sahmc.tilt.importance import weighted_mean
from sahmc.tilt.target import TiltedTarget

TILT = sahmc.StepTilt(sahmc.EnergyPartition.uniform(0, 20, 2))
OPTIONS = dict(tilt=TILT, step_size=0.3, num_integration_steps=20)


def test_it_is_the_algorithm_step_by_step():
    target = mixture(-6.0, 4.0)
    algorithm = sahmc.blackjax_kernel(target.log_density, gain=50, **OPTIONS)
    state = algorithm.init(jnp.asarray(target.start))
    own = TiltedTarget.build(target.log_density, jnp.asarray(target.start), TILT)
    mine = sahmc.init(own, jnp.asarray(target.start)[None])
    kernel = HMC(step_size=0.3, num_integration_steps=20, metric="unit", jitter=0)
    desired = jnp.full(TILT.num_regions, 1 / TILT.num_regions)
    for t in range(3):
        key = jax.random.key(t)
        state, info = algorithm.step(key, state)
        mine, _ = sahmc_step(key, mine, kernel, own, sahmc.Gain(50)(jnp.float32(t + 1)), desired)
    np.testing.assert_allclose(state.position, mine.chains.position[0], rtol=1e-5)
    np.testing.assert_allclose(state.theta, mine.theta.theta, rtol=1e-5)
    np.testing.assert_allclose(state.logdensity, target.log_density(state.position), rtol=1e-5)
    assert int(info.num_integration_steps) == 20 and int(state.t) == 3


def test_it_runs_in_blackjax_and_weights_give_the_posterior_back():
    """A normal density under a theta that is far from flat; without the weights its variance would be wrong."""
    tilt = sahmc.StepTilt(sahmc.EnergyPartition(np.array([0.5, 2.0])))
    algorithm = sahmc.blackjax_kernel(
        lambda x: -0.5 * jnp.sum(x["a"] ** 2), tilt=tilt, step_size=0.4, num_integration_steps=4, gain=None,
        theta=np.array([0.0, -1.0, -2.0]),
    )  # fmt: skip
    _, (states, info) = blackjax.util.run_inference_algorithm(
        jax.random.key(0), algorithm, 20_000, initial_position={"a": jnp.zeros(1)}
    )
    weight = np.exp(np.asarray(states.log_weight, float))[None]
    square = np.asarray(states.position["a"][:, 0], float)[None] ** 2
    found = weighted_mean(square, weight / weight.sum())
    raw = weighted_mean(square, np.full(weight.shape, 1 / weight.size))
    assert abs(found.mean - 1) < 4 * found.mcse < 0.2 and raw.mean - 1 > 10 * raw.mcse
    assert 0.5 < float(info.acceptance_rate.mean()) <= 1


def test_parameters_of_window_adaptation_fit():
    def log_density(x):
        return -0.5 * jnp.sum((x / jnp.array([1.0, 3.0])) ** 2)

    adaptation = blackjax.window_adaptation(blackjax.hmc, log_density, num_integration_steps=5)
    (state, parameters), _ = adaptation.run(jax.random.key(0), jnp.zeros(2), 200)
    algorithm = sahmc.blackjax_kernel(log_density, tilt=TILT, **parameters)
    new, _ = jax.jit(algorithm.step)(jax.random.key(1), algorithm.init(state.position))
    assert new.position.shape == (2,) and np.isfinite(new.log_weight)


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="tilt must be a tilt"):
        sahmc.blackjax_kernel(lambda x: 0.0, tilt="step", step_size=0.1)
    with pytest.raises(ValueError, match="one number for each of the 12 regions"):
        sahmc.blackjax_kernel(lambda x: 0.0, theta=np.zeros(3), **OPTIONS)
