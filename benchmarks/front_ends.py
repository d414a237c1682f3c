"""What a model written elsewhere costs beside the same log density written by hand, in one run, in turn.

    python benchmarks/front_ends.py            # NumPyro and PyMC
    python benchmarks/front_ends.py stan       # the callback, with a gradient that costs next to nothing

Ratios of medians over runs that take turns, compilation left out; their spread is that of single runs. By hand three
times: with the normal density as NumPyro and PyMC compute it, ((y - mean) / scale)^2; as jax.scipy does, whose
(y - mean)^2 / scale^2 is fewer steps over the data; and with all that can be taken out of the sum.
"""

import statistics
import sys
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

import sahmc

jax.config.update("jax_enable_x64", True)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 8))
Y = X @ RNG.normal(size=8) + 0.3 + 0.6 * RNG.normal(size=500)
RUNS = 5


def normal(y, mean, scale):
    return -0.5 * jnp.square((y - mean) / scale) - jnp.log(jnp.sqrt(2 * jnp.pi) * scale)


def frugal(y, mean, scale):
    return -0.5 * jnp.sum((y - mean) ** 2) / scale**2 - len(y) * jnp.log(jnp.sqrt(2 * jnp.pi) * scale)


def by_hand(density=normal):
    """slope ~ N(0, 1), offset ~ N(0, 2), scale ~ half-normal(1) on the log line; y ~ N(offset + x slope, scale)."""
    x, y = jnp.asarray(X), jnp.asarray(Y)

    def log_prior(z):
        scale = jnp.exp(z["scale"])
        weights = jnp.sum(norm.logpdf(z["slope"])) + norm.logpdf(z["offset"], 0, 2)
        return weights + norm.logpdf(scale) + jnp.log(2) + z["scale"]

    def log_likelihood(z):
        return jnp.sum(density(y, z["offset"] + x @ z["slope"], jnp.exp(z["scale"])))

    def start(key):
        keys = jax.random.split(key, 3)
        shapes = {"offset": (), "scale": (), "slope": (8,)}
        return {
            k: jax.random.uniform(key, s, minval=-2.0, maxval=2.0)
            for key, (k, s) in zip(keys, shapes.items(), strict=True)
        }

    def constrain(z):
        return {**z, "scale": jnp.exp(z["scale"])}

    return sahmc.Model(log_likelihood, log_prior, start, constrain=constrain)


def in_numpyro():
    import numpyro
    import numpyro.distributions as dist

    def model(x, y):
        offset = numpyro.sample("offset", dist.Normal(0, 2))
        scale = numpyro.sample("scale", dist.HalfNormal(1))
        slope = numpyro.sample("slope", dist.Normal(0, 1).expand([8]).to_event(1))
        with numpyro.plate("row", len(y)):
            numpyro.sample("y", dist.Normal(offset + x @ slope, scale), obs=y)

    return sahmc.from_numpyro(model, jnp.asarray(X), jnp.asarray(Y))


def in_pymc():
    import pymc as pm

    with pm.Model() as model:
        offset, scale = pm.Normal("offset", 0, 2), pm.HalfNormal("scale", 1)
        slope = pm.Normal("slope", 0, 1, shape=8)
        pm.Normal("y", offset + X @ slope, scale, observed=Y)
    return sahmc.from_pymc(model)


def seconds_per_gradient(model, seed):
    """With all settings given, so that every run is the same compiled code."""
    kernel = sahmc.HMC(step_size=0.01, num_integration_steps=10, metric="unit")
    ladder = sahmc.TemperatureLadder.geometric(10.0, 6)
    result = sahmc.sample(
        model, kernel=kernel, partition=ladder, jumps=False, draws=500, tune=500, random_seed=seed, progressbar=False
    )
    return result.settings["sampling_time"] / result.num_gradients


def front_ends():
    models = {
        "by hand": by_hand(),
        "by hand, jax.scipy": by_hand(norm.logpdf),
        "by hand, frugal": by_hand(frugal),
        "NumPyro": in_numpyro(),
        "PyMC": in_pymc(),
    }
    times = {name: [] for name in models}
    for run in range(RUNS + 1):
        for name, model in models.items():
            times[name].append(seconds_per_gradient(model, run))
    print("| model | microseconds a gradient | over by hand | spread of single runs |\n|---|---|---|---|")
    base = statistics.median(times["by hand"][1:])
    for name, own in times.items():
        middle = statistics.median(own[1:])
        spread = statistics.stdev(own[1:]) / middle
        print(f"| {name} | {1e6 * middle:.1f} | {middle / base:.3f} | {spread:.1%} |")


class Free:
    """A stand-in for ``bridgestan.StanModel`` whose gradient costs next to nothing: a normal density."""

    def __init__(self, dim):
        self.dim = dim

    def param_unc_num(self):
        return self.dim

    def param_names(self, **which):
        return [f"x.{i + 1}" for i in range(self.dim)]

    def log_density_gradient(self, theta, **which):
        return -0.5 * theta @ theta, -theta

    def param_constrain(self, theta, **which):
        return theta

    def new_rng(self, seed):
        return None


def stan():
    """Of a batch of chains: the callback from JAX beside the same calls in a plain loop."""
    model, dim = Free(10), 10
    gradient = jax.jit(jax.vmap(jax.value_and_grad(sahmc.from_stan(model).log_density)))

    def callback(thetas):
        return jax.block_until_ready(gradient(thetas))

    def plain(thetas):
        return [model.log_density_gradient(row) for row in np.asarray(thetas)]

    print("| chains | microseconds a chain, callback | plain loop | overhead |\n|---|---|---|---|")
    for chains in (1, 8, 32, 128):
        thetas = jnp.asarray(RNG.normal(size=(chains, dim)))
        one, two = (median_seconds(call, thetas) * 1e6 / chains for call in (callback, plain))
        print(f"| {chains} | {one:.1f} | {two:.1f} | {one - two:.1f} |")


def median_seconds(call, thetas, times=200):
    call(thetas)
    took = []
    for _ in range(times):
        began = time.perf_counter()
        call(thetas)
        took.append(time.perf_counter() - began)
    return statistics.median(took)


if __name__ == "__main__":
    warnings.simplefilter("ignore", UserWarning)
    stan() if sys.argv[1:] == ["stan"] else front_ends()
