"""The lines most people need: a log density, sample(), and what to ask of the result."""

import jax
import jax.numpy as jnp

import sahmc

centres = jnp.array([[-8.0, -8.0], [6.0, 6.0], [0.0, 0.0]])


def log_density(x):  # any JAX function of one position, up to a constant
    return jax.nn.logsumexp(-0.5 * jnp.sum((x - centres) ** 2, axis=-1))


result = sahmc.sample(log_density, jnp.zeros(2), random_seed=0)
print(result.summary())  # every quantity, and what is wrong with the run: nothing here
print(result.modes())  # every mode, with its mass
mean, mcse = result.expectation()  # posterior mean and its Monte Carlo standard error
mass, _ = result.expectation(lambda x: x[0] > 3)  # probability of the mode on the right
draws = result.resample(1000)  # equal-weight draws of the posterior
tree = result.to_datatree()  # for ArviZ
