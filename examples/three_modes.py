"""The two lines most people need: a log density, and sample()."""

import jax
import jax.numpy as jnp

import sahmc

CENTRES = jnp.array([[-8.0, -8.0], [6.0, 6.0], [0.0, 0.0]])


def log_density(x):
    return jax.nn.logsumexp(-0.5 * jnp.sum((x - CENTRES) ** 2, axis=-1))


result = sahmc.sample(log_density, jnp.zeros(2), random_seed=0)
mean, mcse = result.expectation()
print(result)
print("posterior mean", mean, "+-", mcse, "(exactly -2/3 in both coordinates)")
print("draws of the posterior", result.resample(1000).shape)
