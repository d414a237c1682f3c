"""Ordinary NumPyro models with one mode, in any units, under priors of any width.

``MODELS`` maps a name to ``build(width, unit)``, which returns a ``Problem``. ``width`` multiplies the standard
deviation of every prior: it is how many times too wide they are. ``unit`` multiplies data, and priors follow, so that a
posterior in other units is the same one: a value is that at unit 1 times ``unit**power``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from ordinary_truth import Problem, linear_truth, random_walk_truth

SEED = 20


def _problem(model, args, near, powers, unit, densities=0, exact=None):
    """Return a problem; ``near`` is at unit 1, and ``densities`` is the number of data that are in units."""
    scaled = {name: np.asarray(value) * unit ** np.asarray(powers[name], float) for name, value in near.items()}
    return Problem(model, args, scaled, powers, unit, -densities * float(np.log(unit)), exact)


def regression(x, y, intercept_sd, slope_sd, noise_sd):
    intercept = numpyro.sample("intercept", dist.Normal(0, intercept_sd))
    slope = numpyro.sample("slope", dist.Normal(0, slope_sd).to_event(1))
    noise = numpyro.sample("noise", dist.HalfNormal(noise_sd))
    numpyro.sample("y", dist.Normal(intercept + x @ slope, noise), obs=y)


def _linear(width, unit, x, y, intercept_sd, slope_sd, noise_sd, of_x=0, of_y=1):
    """Return a linear regression; x grows by the power ``of_x`` of the unit, or by one a column, y by ``of_y``."""
    of_x = np.broadcast_to(np.asarray(of_x, float), x.shape[1:])
    slope_sd = np.broadcast_to(np.asarray(slope_sd, float), x.shape[1:])
    powers = {"intercept": float(of_y), "slope": of_y - of_x, "noise": float(of_y)}
    design = np.column_stack([np.ones(len(y)), x])
    b = np.linalg.lstsq(design, y)[0]
    sds = [width * s * unit ** powers[k] for k, s in zip(powers, (intercept_sd, slope_sd, noise_sd), strict=True)]
    prior = width * np.concatenate([[intercept_sd], slope_sd])
    exact = partial(linear_truth, design, y, prior, width * noise_sd)
    near = {"intercept": b[0], "slope": b[1:], "noise": np.std(y - design @ b)}
    return _problem(regression, (x * unit**of_x, y * unit**of_y, *sds), near, powers, unit, of_y * len(y), exact)


def linear(width, unit):
    """100 rows, all standardised."""
    rng = np.random.default_rng(SEED)
    x = rng.normal(size=(100, 3))
    y = 0.4 + x @ [0.7, -0.3, 0.1] + 0.6 * rng.normal(size=100)
    return _linear(width, unit, x, y, 1.0, 1.0, 1.0)


def linear_raw(width, unit):
    """Spending on age and income, in years and dollars, of 200 people; the currency is the unit."""
    rng = np.random.default_rng(SEED + 1)
    x = np.column_stack([rng.uniform(20, 70, 200), rng.lognormal(10, 0.4, 200)])
    y = 200 + 3.0 * x[:, 0] + 0.01 * x[:, 1] + 40 * rng.normal(size=200)
    return _linear(width, unit, x, y, 500.0, [10.0, 0.05], 100.0, of_x=[0, 1])


def linear_offset(width, unit):
    """A trend over 150 calendar years, not centred: the intercept is that of the year 0; time is in units."""
    rng = np.random.default_rng(SEED + 2)
    year = np.linspace(1870, 2019, 150)
    y = 14 + 0.01 * (year - 1950) + 0.2 * rng.normal(size=150)
    return _linear(width, unit, year[:, None], y, 50.0, 0.1, 1.0, of_x=1, of_y=0)


def linear_tiny_noise(width, unit):
    """100 rows whose noise is 0.01."""
    rng = np.random.default_rng(SEED + 3)
    x = rng.normal(size=(100, 3))
    return _linear(width, unit, x, 1 + x @ [2.0, -1.0, 0.5] + 0.01 * rng.normal(size=100), 2.0, 2.0, 1.0)


def linear_2000(width, unit):
    """2000 rows, five predictors in units."""
    rng = np.random.default_rng(SEED + 4)
    x = rng.normal(size=(2000, 5)) + 2
    y = 3 + x @ [0.5, 0.0, -0.2, 0.1, 1.0] + 2 * rng.normal(size=2000)
    return _linear(width, unit, x, y, 5.0, 1.0, 5.0, of_x=1, of_y=0)


def linear_10000(width, unit):
    """10 000 rows, four predictors."""
    rng = np.random.default_rng(SEED + 5)
    x = rng.normal(size=(10_000, 4))
    return _linear(width, unit, x, 1 + x @ [0.3, -0.5, 0.0, 0.2] + rng.normal(size=10_000), 2.0, 1.0, 2.0)


def polynomial(width, unit):
    """A polynomial of degree 4 through 120 points."""
    rng = np.random.default_rng(SEED + 6)
    t = rng.uniform(-1, 1, 120)
    x = np.stack([t**k for k in range(1, 5)], axis=1)
    return _linear(width, unit, x, 0.5 + x @ [1.0, -2.0, 0.5, 1.5] + 0.3 * rng.normal(size=120), 2.0, 2.0, 1.0)


def anova(width, unit):
    """Six treatments of 25 plots each; effects are differences from the first."""
    rng = np.random.default_rng(SEED + 7)
    group = np.repeat(np.arange(6), 25)
    x = (group[:, None] == np.arange(1, 6)).astype(float)
    return _linear(width, unit, x, 50 + x @ [2.0, -3.0, 0.0, 5.0, 1.0] + 4 * rng.normal(size=150), 100.0, 10.0, 10.0)


def sparse(width, unit):
    """20 predictors of which three matter, 150 rows."""
    rng = np.random.default_rng(SEED + 8)
    x = rng.normal(size=(150, 20))
    return _linear(width, unit, x, x[:, :3] @ [1.0, -0.8, 0.5] + rng.normal(size=150), 1.0, 0.5, 1.0)


def ar1(width, unit):
    """An autoregression of 200 months."""
    rng = np.random.default_rng(SEED + 9)
    y = np.zeros(201)
    for t in range(1, 201):
        y[t] = 0.5 + 0.7 * y[t - 1] + 0.4 * rng.normal()
    return _linear(width, unit, y[:-1, None], y[1:], 1.0, 1.0, 1.0, of_x=1)


def logit_model(x, y, intercept_sd, slope_sd):
    intercept = numpyro.sample("intercept", dist.Normal(0, intercept_sd))
    slope = numpyro.sample("slope", dist.Normal(0, slope_sd).expand([x.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=intercept + x @ slope), obs=y)


def _logit(width, unit, x, intercept, slope, intercept_sd, slope_sd, rng):
    y = rng.binomial(1, 1 / (1 + np.exp(-(intercept + x @ slope))))
    near, powers = {"intercept": intercept, "slope": np.asarray(slope)}, {"intercept": 0, "slope": -1}
    return _problem(logit_model, (x * unit, y, width * intercept_sd, width * slope_sd / unit), near, powers, unit)


def logistic(width, unit):
    """200 rows, three standardised predictors in units."""
    rng = np.random.default_rng(SEED + 10)
    return _logit(width, unit, rng.normal(size=(200, 3)), 0.4, [1.0, -0.7, 0.2], 5.0, 2.5, rng)


def logistic_rare(width, unit):
    """An illness of four in a hundred, on the age of 3000 people, not centred and in units."""
    rng = np.random.default_rng(SEED + 11)
    return _logit(width, unit, rng.uniform(20, 80, (3000, 1)), -6.5, [0.06], 10.0, 0.2, rng)


def poisson_model(hours, x, y, base_sd, slope_sd):
    base = numpyro.sample("base", dist.HalfNormal(base_sd))
    slope = numpyro.sample("slope", dist.Normal(0, slope_sd).expand([x.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Poisson(base * hours * jnp.exp(x @ slope)), obs=y)


def poisson(width, unit):
    """300 counts over hours of watching, three predictors; the time is in units."""
    rng = np.random.default_rng(SEED + 12)
    x, hours = rng.normal(size=(300, 3)), rng.uniform(0.5, 2, 300)
    near, powers = {"base": 3.0, "slope": np.array([0.3, 0.2, -0.4])}, {"base": -1, "slope": 0}
    y = rng.poisson(3 * hours * np.exp(x @ near["slope"]))
    return _problem(poisson_model, (hours * unit, x, y, 5.0 * width / unit, width), near, powers, unit)


def negative_binomial_model(hours, x, y, base_sd, slope_sd, concentration_mean):
    base = numpyro.sample("base", dist.HalfCauchy(base_sd))
    slope = numpyro.sample("slope", dist.Normal(0, slope_sd).expand([x.shape[1]]).to_event(1))
    concentration = numpyro.sample("concentration", dist.Exponential(1 / concentration_mean))
    numpyro.sample("y", dist.NegativeBinomial2(base * hours * jnp.exp(x @ slope), concentration), obs=y)


def negative_binomial(width, unit):
    """400 overdispersed counts over hours of watching, two predictors; the time is in units."""
    rng = np.random.default_rng(SEED + 13)
    x, hours = rng.normal(size=(400, 2)), rng.uniform(0.5, 2, 400)
    near = {"base": 7.0, "slope": np.array([0.5, -0.3]), "concentration": 1.5}
    y = rng.poisson(7 * hours * np.exp(x @ near["slope"]) * rng.gamma(1.5, 1 / 1.5, 400))
    args = (hours * unit, x, y, 10.0 * width / unit, width, 5.0 * width)
    return _problem(negative_binomial_model, args, near, {"base": -1, "slope": 0, "concentration": 0}, unit)


def student_model(x, y, intercept_sd, slope_sd, noise_sd):
    intercept = numpyro.sample("intercept", dist.Normal(0, intercept_sd))
    slope = numpyro.sample("slope", dist.Normal(0, slope_sd).expand([x.shape[1]]).to_event(1))
    noise = numpyro.sample("noise", dist.HalfCauchy(noise_sd))
    freedom = numpyro.sample("freedom", dist.Gamma(2, 0.1))
    numpyro.sample("y", dist.StudentT(freedom, intercept + x @ slope, noise), obs=y)


def student(width, unit):
    """A regression of 300 rows with outliers; the prior of the degrees of freedom is the usual one at any width."""
    rng = np.random.default_rng(SEED + 14)
    x = rng.normal(size=(300, 2))
    near = {"intercept": 1.0, "slope": np.array([0.8, -0.4]), "noise": 0.5, "freedom": 3.0}
    y = 1 + x @ near["slope"] + 0.5 * rng.standard_t(3, 300)
    sds = [width * s * unit for s in (2.0, 1.0, 1.0)]
    powers = {"intercept": 1, "slope": 1, "noise": 1, "freedom": 0}
    return _problem(student_model, (x, y * unit, *sds), near, powers, unit, 300)


def centred_model(group, y, mean_sd, between_sd, within_sd):
    mean = numpyro.sample("mean", dist.Normal(0, mean_sd))
    between = numpyro.sample("between", dist.HalfNormal(between_sd))
    within = numpyro.sample("within", dist.HalfNormal(within_sd))
    with numpyro.plate("groups", int(group.max()) + 1):
        level = numpyro.sample("level", dist.Normal(mean, between))
    numpyro.sample("y", dist.Normal(level[group], within), obs=y)


def non_centred_model(group, y, mean_sd, between_sd, within_sd):
    mean = numpyro.sample("mean", dist.Normal(0, mean_sd))
    between = numpyro.sample("between", dist.HalfCauchy(between_sd))
    within = numpyro.sample("within", dist.HalfCauchy(within_sd))
    with numpyro.plate("groups", int(group.max()) + 1):
        effect = numpyro.sample("effect", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal((mean + between * effect)[group], within), obs=y)


def hierarchical_centred(width, unit):
    """20 groups of 10 that tell their own levels well."""
    rng = np.random.default_rng(SEED + 15)
    group, effect = np.repeat(np.arange(20), 10), rng.normal(size=20)
    near = {"mean": 3.0, "between": 1.5, "within": 1.0, "level": 3 + 1.5 * effect}
    y = near["level"][group] + rng.normal(size=200)
    sds = [width * s * unit for s in (5.0, 2.0, 2.0)]
    return _problem(centred_model, (group, y * unit, *sds), near, dict.fromkeys(near, 1), unit, 200)


def hierarchical_non_centred(width, unit):
    """24 groups of 5 that tell their own levels badly."""
    rng = np.random.default_rng(SEED + 16)
    group, effect = np.repeat(np.arange(24), 5), rng.normal(size=24)
    near = {"mean": 3.0, "between": 1.0, "within": 1.5, "effect": effect}
    y = (3 + effect)[group] + 1.5 * rng.normal(size=120)
    sds = [width * s * unit for s in (5.0, 1.0, 1.0)]
    powers = {"mean": 1, "between": 1, "within": 1, "effect": 0}
    return _problem(non_centred_model, (group, y * unit, *sds), near, powers, unit, 120)


def slopes_model(group, x, y, mean_sd, between_sd, within_sd):
    mean = numpyro.sample("mean", dist.Normal(0, mean_sd).expand([2]).to_event(1))
    between = numpyro.sample("between", dist.HalfNormal(between_sd).expand([2]).to_event(1))
    within = numpyro.sample("within", dist.HalfNormal(within_sd))
    with numpyro.plate("groups", int(group.max()) + 1):
        effect = numpyro.sample("effect", dist.Normal(0, 1).expand([2]).to_event(1))
    own = mean + between * effect
    numpyro.sample("y", dist.Normal(own[group, 0] + own[group, 1] * x, within), obs=y)


def hierarchical_slopes(width, unit):
    """15 groups of 20 with an intercept and a slope each."""
    rng = np.random.default_rng(SEED + 17)
    group, effect, x = np.repeat(np.arange(15), 20), rng.normal(size=(15, 2)), rng.normal(size=300)
    near = {"mean": np.array([1.0, 0.5]), "between": np.array([0.8, 0.4]), "within": 1.0, "effect": effect}
    own = near["mean"] + near["between"] * effect
    y = own[group, 0] + own[group, 1] * x + rng.normal(size=300)
    sds = [width * s * unit for s in (2.0, 1.0, 2.0)]
    powers = {"mean": 1, "between": 1, "within": 1, "effect": 0}
    return _problem(slopes_model, (group, x, y * unit, *sds), near, powers, unit, 300)


def growth_model(t, y, size_sd, rate_sd, middle_sd, noise_sd):
    size = numpyro.sample("size", dist.HalfNormal(size_sd))
    rate = numpyro.sample("rate", dist.HalfNormal(rate_sd))
    middle = numpyro.sample("middle", dist.Normal(0, middle_sd))
    noise = numpyro.sample("noise", dist.HalfNormal(noise_sd))
    numpyro.sample("y", dist.Normal(size / (1 + jnp.exp(-rate * (t - middle))), noise), obs=y)


def growth(width, unit):
    """Logistic growth, 100 weighings; the weight is in units."""
    rng = np.random.default_rng(SEED + 18)
    near = {"size": 10.0, "rate": 0.8, "middle": 5.0, "noise": 0.4}
    t = np.linspace(0, 12, 100)
    y = 10 / (1 + np.exp(-0.8 * (t - 5))) + 0.4 * rng.normal(size=100)
    args = (t, y * unit, 20.0 * width * unit, 2.0 * width, 10.0 * width, width * unit)
    return _problem(growth_model, args, near, {"size": 1, "rate": 0, "middle": 0, "noise": 1}, unit, 100)


def decay_model(t, y, start_sd, rate_sd, floor_sd, noise_sd):
    start = numpyro.sample("start", dist.Normal(0, start_sd))
    rate = numpyro.sample("rate", dist.HalfNormal(rate_sd))
    floor = numpyro.sample("floor", dist.Normal(0, floor_sd))
    noise = numpyro.sample("noise", dist.HalfNormal(noise_sd))
    numpyro.sample("y", dist.Normal(start * jnp.exp(-rate * t) + floor, noise), obs=y)


def decay(width, unit):
    """Exponential decay to a floor, 100 readings; time is in units."""
    rng = np.random.default_rng(SEED + 19)
    near = {"start": 3.0, "rate": 0.5, "floor": 0.7, "noise": 0.1}
    t = np.linspace(0, 10, 100)
    y = 3 * np.exp(-0.5 * t) + 0.7 + 0.1 * rng.normal(size=100)
    args = (t * unit, y, 5.0 * width, width / unit, 5.0 * width, width)
    return _problem(decay_model, args, near, {"start": 0, "rate": -1, "floor": 0, "noise": 0}, unit)


def weibull_model(x, time, censored, base_sd, slope_sd, shape_sd):
    base = numpyro.sample("base", dist.HalfNormal(base_sd))
    slope = numpyro.sample("slope", dist.Normal(0, slope_sd).expand([x.shape[1]]).to_event(1))
    shape = numpyro.sample("shape", dist.HalfNormal(shape_sd))
    scale = base * jnp.exp(x @ slope)
    numpyro.sample("time", dist.Weibull(scale[~censored], shape), obs=time[~censored])
    numpyro.factor("censored", -jnp.sum((time[censored] / scale[censored]) ** shape))


def weibull(width, unit):
    """250 survival times, some of them censored, two predictors; the time is in units."""
    rng = np.random.default_rng(SEED + 20)
    x = rng.normal(size=(250, 2))
    near = {"base": 7.0, "slope": np.array([0.5, -0.3]), "shape": 1.5}
    time, end = 7 * np.exp(x @ near["slope"]) * rng.weibull(1.5, 250), rng.uniform(4, 25, 250)
    args = (x, np.minimum(time, end) * unit, time > end, 20.0 * width * unit, width, 2.0 * width)
    dead = int(np.sum(time <= end))
    return _problem(weibull_model, args, near, {"base": 1, "slope": 0, "shape": 0}, unit, dead)


def local_level_model(y, step_sd, noise_sd):
    step = numpyro.sample("step", dist.HalfNormal(step_sd))
    noise = numpyro.sample("noise", dist.HalfNormal(noise_sd))
    level = numpyro.sample("level", dist.GaussianRandomWalk(step, num_steps=len(y)))
    numpyro.sample("y", dist.Normal(level, noise), obs=y)


def local_level(width, unit):
    """A random walk of 100 steps, seen through noise."""
    rng = np.random.default_rng(SEED + 21)
    level = np.cumsum(rng.normal(size=100))
    near = {"step": 1.0, "noise": 1.0, "level": level}
    y = level + rng.normal(size=100)
    args = (y * unit, width * unit, width * unit)
    exact = partial(random_walk_truth, y, width, width)
    return _problem(local_level_model, args, near, dict.fromkeys(near, 1), unit, 100, exact)


def ordinal_model(x, y, slope_sd, cut_sd):
    slope = numpyro.sample("slope", dist.Normal(0, slope_sd).expand([x.shape[1]]).to_event(1))
    base = dist.Normal(0, cut_sd).expand([3]).to_event(1)
    cut = numpyro.sample("cut", dist.TransformedDistribution(base, dist.transforms.OrderedTransform()))
    numpyro.sample("y", dist.OrderedLogistic(x @ slope, cut), obs=y)


def ordinal(width, unit):
    """400 grades of four, two predictors in units."""
    rng = np.random.default_rng(SEED + 22)
    x, cut, slope = rng.normal(size=(400, 2)), np.array([-1.5, 0.0, 1.8]), np.array([0.9, -0.5])
    y = np.sum((x @ slope + rng.logistic(size=400))[:, None] > cut, axis=1)
    args = (x * unit, y, 2.0 * width / unit, 2.0 * width)
    return _problem(ordinal_model, args, {"slope": slope, "cut": cut}, {"slope": -1, "cut": 0}, unit)


MODELS: dict[str, Callable[[float, float], Problem]] = {
    build.__name__.replace("_", "-"): build
    for build in (
        *(linear, linear_raw, linear_offset, linear_tiny_noise, linear_2000, linear_10000),
        *(polynomial, anova, sparse, ar1, logistic, logistic_rare, poisson, negative_binomial, student),
        *(hierarchical_centred, hierarchical_non_centred, hierarchical_slopes),
        *(growth, decay, weibull, local_level, ordinal),
    )
}
