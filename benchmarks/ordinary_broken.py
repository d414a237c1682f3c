"""Models whose likelihood breaks far from the posterior: nan, overflow, walls, blow-ups, priors 10^12 nats away.

``BROKEN`` maps a name to a function that returns a ``Problem``. Their chains start at ``near``, since a start drawn
anywhere would have no density.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.stats import norm
from ordinary_truth import Problem, linear_truth

import sahmc

SEED = 60
TUBE = 2.0
"""The root mean square of residuals, over the least there is, at which the tube ends: 1.5 n nats from its middle."""


def _design(num, size, seed):
    """Return a design with an intercept, and a generator for the noise."""
    rng = np.random.default_rng(seed)
    return np.column_stack([np.ones(num), rng.normal(size=(num, size - 1))]), rng


def _fitted(x, y):
    """Return the values of least squares, noise included."""
    b = np.linalg.lstsq(x, y)[0]
    return {"intercept": b[0], "slope": b[1:], "noise": np.std(y - x @ b)}


def _of(model, args, near, exact=None, bits=None):
    return Problem(model, args, near, dict.fromkeys(near, 0), exact=exact, bits=bits)


def tube_model(x, y, prior_sd, edge, outside):
    intercept = numpyro.sample("intercept", dist.Normal(0, prior_sd))
    slope = numpyro.sample("slope", dist.Normal(0, prior_sd).expand([x.shape[1] - 1]).to_event(1))
    noise = numpyro.sample("noise", dist.HalfNormal(prior_sd))
    mean = x @ jnp.concatenate([intercept[None], slope])
    numpyro.sample("y", dist.Normal(mean, noise), obs=y)
    numpyro.factor("tube", jnp.where(jnp.mean((y - mean) ** 2) < edge**2, 0.0, outside))


def _tube(outside):
    """A regression in five dimensions of 60 rows, cut off 90 nats down: what lies outside does not count."""
    x, rng = _design(60, 4, SEED)
    y = x @ [0.5, 1.0, -1.0, 0.3] + rng.normal(size=60)
    near = _fitted(x, y)
    args = (x, y, 100.0, TUBE * near["noise"], outside)
    return _of(tube_model, args, near, partial(linear_truth, x, y, np.full(4, 100.0), 100.0))


def nan_tube():
    """The likelihood is nan outside a tube around the posterior."""
    return _tube(np.nan)


def wall_tube():
    """The likelihood is zero outside a tube around the posterior."""
    return _tube(-np.inf)


def double_exponential_model(x, y):
    intercept = numpyro.sample("intercept", dist.Normal(0, 10))
    slope = numpyro.sample("slope", dist.Normal(0, 10).expand([x.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Poisson(jnp.exp(jnp.exp(intercept + x @ slope))), obs=y)


def double_exponential():
    """A rate exp(exp(.)), which overflows in 32 bits where its argument is 4.5."""
    x, rng = _design(200, 3, SEED + 1)
    near = {"intercept": 0.3, "slope": np.array([0.3, -0.2])}
    y = rng.poisson(np.exp(np.exp(x @ [0.3, 0.3, -0.2])))
    return _of(double_exponential_model, (x[:, 1:], y), near)


def power_overflow():
    """A log likelihood written with noise**100: +inf where the noise is below 0.4, -inf where it is above 2.4."""
    x, rng = _design(100, 3, SEED + 2)
    y = x @ [1.0, 0.5, -0.5] + rng.normal(size=100)
    prior_sd = 1000.0

    def log_likelihood(z):
        noise = jnp.exp(z["noise"])
        mean = x @ jnp.concatenate([z["intercept"][None], z["slope"]])
        return -jnp.log(noise ** len(y)) - 0.5 * jnp.sum((y - mean) ** 2) / noise**2 - 50 * jnp.log(2 * jnp.pi)

    def log_prior(z):
        b = jnp.concatenate([z["intercept"][None], z["slope"]])
        return -0.5 * jnp.sum((b / prior_sd) ** 2) - 0.5 * (jnp.exp(z["noise"]) / prior_sd) ** 2 + z["noise"]

    model = sahmc.Model(
        log_likelihood,
        log_prior,
        constrain=lambda z: {**z, "noise": jnp.exp(z["noise"])},
        unconstrain=lambda v: {**{k: jnp.asarray(a, float) for k, a in v.items()}, "noise": jnp.log(v["noise"])},
    )
    return _of(model, (), _fitted(x, y), partial(linear_truth, x, y, np.full(3, prior_sd), prior_sd))


def far_model(x, y, centre, prior_sd):
    intercept = numpyro.sample("intercept", dist.Normal(centre, prior_sd))
    slope = numpyro.sample("slope", dist.Normal(centre, prior_sd).expand([x.shape[1] - 1]).to_event(1))
    numpyro.sample("y", dist.Normal(x @ jnp.concatenate([intercept[None], slope]), 1.0), obs=y)


def _far(centre, prior_sd, bits=None):
    x, rng = _design(40, 4, SEED + 3)
    y = x @ [0.5, 1.0, -1.0, 0.3] + rng.normal(size=40)
    exact = partial(linear_truth, x, y, np.full(4, prior_sd), 1.0, centre, learnt=False)
    near = {name: known.mean for name, known in exact().moments.items()}
    return _of(far_model, (x, y, centre, prior_sd), near, exact, bits)


def far_prior():
    """Priors of width 10^6 and noise 1: a draw of the prior is 10^13 nats from the posterior."""
    return _far(0.0, 1e6)


def off_prior():
    """Priors whose mean is 10^6 of their standard deviations from the posterior; that takes 64 bits."""
    return _far(1e9, 1e3, bits=64)


def epidemic_model(day, y, step):
    """Susceptible, infected: by Runge and Kutta, with a fixed step that is too long for absurd rates."""
    infect = numpyro.sample("infect", dist.LogNormal(0, 3))
    recover = numpyro.sample("recover", dist.LogNormal(0, 3))
    first = numpyro.sample("first", dist.LogNormal(-3, 3))
    noise = numpyro.sample("noise", dist.HalfNormal(1))

    def slope(state):
        new, gone = infect * state[0] * state[1], recover * state[1]
        return jnp.stack([-new, new - gone])

    def move(state, _):
        k1 = slope(state)
        k2 = slope(state + 0.5 * step * k1)
        k3 = slope(state + 0.5 * step * k2)
        k4 = slope(state + step * k3)
        return state + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4), state[1]

    _, infected = jax.lax.scan(move, jnp.stack([1 - first, first]), None, int(day[-1]) + 1)
    numpyro.sample("y", dist.Normal(infected[day], noise), obs=y)


def epidemic():
    """An ODE that blows up for absurd rates."""
    rng = np.random.default_rng(SEED + 4)
    near, day, step = {"infect": 0.8, "recover": 0.25, "first": 0.01, "noise": 0.02}, np.arange(0, 61, 2), 0.5
    state, path = np.array([0.99, 0.01]), []
    for _ in range(61 * 50):
        path.append(state[1])
        new, gone = 0.8 * state[0] * state[1], 0.25 * state[1]
        state = state + step / 50 * np.array([-new, new - gone])
    y = np.array(path)[::50][day] + 0.02 * rng.normal(size=len(day))
    return _of(epidemic_model, (day, y, step), near)


def moving_average_model(y):
    mean = numpyro.sample("mean", dist.Normal(0, 10))
    weight = numpyro.sample("weight", dist.Normal(0, 10).expand([2]).to_event(1))
    noise = numpyro.sample("noise", dist.HalfNormal(10))

    def move(before, now):
        left = now - mean - weight[0] * before[0] - weight[1] * before[1]
        return (left, before[0]), left

    nothing = jnp.zeros_like(mean)
    _, left = jax.lax.scan(move, (nothing, nothing), jnp.asarray(y))
    numpyro.factor("y", jnp.sum(norm.logpdf(left, 0, noise)))


def moving_average():
    """A moving average whose residuals explode like weight^150 where it cannot be inverted."""
    rng = np.random.default_rng(SEED + 5)
    near = {"mean": 2.0, "weight": np.array([0.5, 0.2]), "noise": 1.0}
    shock = rng.normal(size=152)
    return _of(moving_average_model, (2 + shock[2:] + 0.5 * shock[1:-1] + 0.2 * shock[:-2],), near)


def raw_wide():
    """A raw ``Model`` of six dimensions whose normal prior is 10^8 times as wide as the posterior."""
    x, rng = _design(100, 6, SEED + 6)
    y = x @ [1.0, 0.5, -0.5, 0.0, 2.0, 0.2] + rng.normal(size=100)
    prior_sd = 1e7

    def log_likelihood(z):
        mean = x @ jnp.concatenate([z["intercept"][None], z["slope"]])
        return -0.5 * jnp.sum((y - mean) ** 2) - 50 * jnp.log(2 * jnp.pi)

    def log_prior(z):
        return -0.5 * jnp.sum((jnp.concatenate([z["intercept"][None], z["slope"]]) / prior_sd) ** 2)

    near = _fitted(x, y)
    near.pop("noise")
    exact = partial(linear_truth, x, y, np.full(6, prior_sd), 1.0, learnt=False)
    return _of(sahmc.Model(log_likelihood, log_prior), (), near, exact)


BROKEN = {
    build.__name__.replace("_", "-"): build
    for build in (
        *(nan_tube, wall_tube, double_exponential, power_overflow, far_prior, off_prior),
        *(epidemic, moving_average, raw_wide),
    )
}
