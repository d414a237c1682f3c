"""The paper's algorithm in a loop of your own: init and sahmc_step are all there is to it."""

import jax
import jax.numpy as jnp

import sahmc


def log_density(x):
    """Two unit Gaussians, ten apart."""
    return jnp.logaddexp(-0.5 * jnp.sum((x - 5.0) ** 2), -0.5 * jnp.sum((x + 5.0) ** 2))


chains, start = 20, jnp.array([5.0])
tilt = sahmc.StepTilt(sahmc.EnergyPartition.uniform(1, 15, 1))
target = sahmc.TiltedTarget.build(log_density, start, tilt)
kernel = sahmc.HMC(step_size=0.4, num_integration_steps=(1, 12), metric="unit")
gain = sahmc.Gain(t0=500)
desired = jnp.full(tilt.num_regions, 1 / tilt.num_regions)


@jax.jit
def iterate(t, state):
    key = jax.random.fold_in(jax.random.key(0), t)
    used = state.theta.theta  # what the move is made under; weights under different thetas must be made comparable
    state, _ = sahmc.sahmc_step(key, state, kernel, target, gain(t + 1), desired)
    weigh = jax.vmap(tilt.log_weight, (None, 0, None, None))
    return state, (state.chains.position[:, 0], weigh(used, state.chains.energy, desired, state.theta.visits > 0))


state = sahmc.init(target, jnp.tile(start, (chains, 1)))
state, _ = jax.lax.scan(lambda s, t: iterate(t, s), state, jnp.arange(20_000))
state, (x, log_weight) = jax.lax.scan(lambda s, t: iterate(t, s), state, jnp.arange(20_000, 60_000))
weight = jnp.exp(log_weight - log_weight.max())
print("visits", state.theta.visits)
print("mass of the left mode", float(jnp.sum(weight * (x < 0)) / jnp.sum(weight)), "(exactly 0.5)")
