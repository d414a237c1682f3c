"""Twelve everyday models beyond those of the tests: NumPyro models and raw log densities, most with one mode.

``MODELS`` maps a name to (what ``sample`` takes, initvals or None, whether it has one mode).
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import sahmc

RNG = np.random.default_rng(17)
AGE = RNG.uniform(20, 70, 60)
INCOME = RNG.lognormal(10, 0.4, 60)
SPENT = 200 + 3.0 * AGE + 0.01 * INCOME + 40 * RNG.normal(size=60)
X = RNG.normal(size=(80, 3))
WON = RNG.binomial(1, 1 / (1 + np.exp(-(X @ [1.0, -0.7, 0.2] + 0.4))))
COUNTED = RNG.poisson(np.exp(X @ [0.3, 0.2, -0.4] + 1.0))
COUNTY = RNG.integers(0, 10, 120)
LEVEL = (0.5 + RNG.normal(size=10))[COUNTY] + 0.8 * RNG.normal(size=120)
TIMES = np.sort(RNG.uniform(0, 10, 40))
WAVE = 1.2 * np.sin(2.1 * TIMES + 0.6) + 0.4 * RNG.normal(size=40)
DECAY = 3 * np.exp(-0.5 * TIMES) + 0.7 + 0.1 * RNG.normal(size=40)
SERIES = np.zeros(80)
for _t in range(1, 80):
    SERIES[_t] = 0.7 * SERIES[_t - 1] + 0.5 * RNG.normal()
LUMPS = np.concatenate([RNG.normal(-2, 0.6, 40), RNG.normal(1.5, 0.8, 40)])


def spending(x):
    """A linear regression as people write it: raw units, flat priors, no centring."""
    mean = x[0] + x[1] * AGE + x[2] * INCOME / 1e3
    return jnp.sum(-0.5 * ((SPENT - mean) / jnp.exp(x[3])) ** 2 - x[3])


def student(x):
    return -3.0 * jnp.sum(jnp.log1p(x**2 / 5))


def pair(x):
    return jnp.logaddexp(-0.5 * jnp.sum((x - 2) ** 2), -0.5 * jnp.sum((x + 2) ** 2))


def logistic(x, y):
    slope = numpyro.sample("slope", dist.Normal(0, 2.5).expand([3]).to_event(1))
    offset = numpyro.sample("offset", dist.Normal(0, 5))
    numpyro.sample("y", dist.Bernoulli(logits=x @ slope + offset), obs=y)


def poisson(x, y):
    slope = numpyro.sample("slope", dist.Normal(0, 1).expand([3]).to_event(1))
    offset = numpyro.sample("offset", dist.Normal(0, 2))
    numpyro.sample("y", dist.Poisson(jnp.exp(x @ slope + offset)), obs=y)


def counties(county, y):
    mean = numpyro.sample("mean", dist.Normal(0, 2))
    between, within = numpyro.sample("between", dist.HalfNormal(1)), numpyro.sample("within", dist.HalfNormal(1))
    effect = numpyro.sample("effect", dist.Normal(0, 1).expand([10]).to_event(1))
    numpyro.sample("y", dist.Normal((mean + between * effect)[county], within), obs=y)


def sinusoid(t, y):
    size = numpyro.sample("size", dist.HalfNormal(2))
    phase, speed = numpyro.sample("phase", dist.Normal(0, 2)), numpyro.sample("speed", dist.Normal(2, 0.5))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    numpyro.sample("y", dist.Normal(size * jnp.sin(speed * t + phase), noise), obs=y)


def decay(t, y):
    start, rate = numpyro.sample("start", dist.Normal(0, 5)), numpyro.sample("rate", dist.LogNormal(0, 1))
    floor, noise = numpyro.sample("floor", dist.Normal(0, 5)), numpyro.sample("noise", dist.HalfNormal(1))
    numpyro.sample("y", dist.Normal(start * jnp.exp(-rate * t) + floor, noise), obs=y)


def autoregression(y):
    lag, drift = numpyro.sample("lag", dist.Uniform(-1, 1)), numpyro.sample("drift", dist.Normal(0, 1))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    numpyro.sample("y", dist.Normal(drift + lag * y[:-1], noise), obs=y[1:])


def two_lumps(y):
    share = numpyro.sample("share", dist.Beta(2, 2))
    place = numpyro.sample("place", dist.Normal(0, 3).expand([2]).to_event(1))
    width = numpyro.sample("width", dist.LogNormal(-0.5, 0.5).expand([2]).to_event(1))
    parts = dist.MixtureSameFamily(dist.Categorical(jnp.stack([share, 1 - share])), dist.Normal(place, width))
    numpyro.sample("y", parts, obs=y)


def length_scale(t, y):
    scale, height = numpyro.sample("scale", dist.LogNormal(0, 1)), numpyro.sample("height", dist.LogNormal(0, 1))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    apart = (t[:, None] - t) ** 2
    cover = height**2 * jnp.exp(-0.5 * apart / scale**2) + (noise**2 + 1e-4) * jnp.eye(len(t))
    numpyro.sample("y", dist.MultivariateNormal(0.0, cover), obs=y)


def of(model, *args):
    return sahmc.from_numpyro(model, *args)


MODELS = {
    "spending": lambda: (spending, jnp.array([150.0, 2.0, 8.0, 4.0]), True),
    "gaussian-3": lambda: (lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(3), True),
    "student-5": lambda: (student, jnp.zeros(5), True),
    "pair-4": lambda: (pair, jnp.full(4, 2.0), False),
    "logistic": lambda: (of(logistic, X, WON), None, True),
    "poisson": lambda: (of(poisson, X, COUNTED), None, True),
    "counties": lambda: (of(counties, COUNTY, LEVEL), None, True),
    "sinusoid": lambda: (of(sinusoid, TIMES, WAVE), None, False),
    "decay": lambda: (of(decay, TIMES, DECAY), None, True),
    "autoregression": lambda: (of(autoregression, SERIES), None, True),
    "two-lumps": lambda: (of(two_lumps, LUMPS), None, False),
    "length-scale": lambda: (of(length_scale, TIMES, WAVE), None, False),
}
