"""Ten NumPyro models with one mode each: every kind of support, plates, missing data, factors."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer.reparam import LocScaleReparam

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = X @ np.array([1.0, -0.5]) + 0.3 + 0.6 * RNG.normal(size=40)
SCHOOLS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
PAIRS = RNG.multivariate_normal([0, 0], [[1, 0.6], [0.6, 2]], size=60)
MISSING = np.where(np.arange(40) % 9 == 0, np.nan, Y)
GRADES = RNG.integers(0, 4, size=50)
COUNTS = np.array([12, 5, 20, 3])


def regression(x, y=None):
    offset = numpyro.sample("offset", dist.Normal(0, 2))
    slope = numpyro.sample("slope", dist.Normal(0, 1).expand([2]).to_event(1))
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    mean = numpyro.deterministic("mean", offset + x @ slope)
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(mean, scale), obs=y)


@numpyro.handlers.reparam(config={"effect": LocScaleReparam(0)})
def schools(y, sd):
    mean = numpyro.sample("mean", dist.Normal(0, 5))
    spread = numpyro.sample("spread", dist.HalfCauchy(5))
    with numpyro.plate("school", len(y)):
        effect = numpyro.sample("effect", dist.Normal(mean, spread))
        numpyro.sample("y", dist.Normal(effect, sd), obs=y)


def simplex(counts):
    share = numpyro.sample("share", dist.Dirichlet(jnp.ones(4)))
    numpyro.sample("counts", dist.Multinomial(int(counts.sum()), share), obs=counts)


def ordered(grades):
    cut = numpyro.sample(
        "cut",
        dist.TransformedDistribution(
            dist.Normal(jnp.linspace(-1, 1, 3), 1).to_event(1), dist.transforms.OrderedTransform()
        ),
    )
    with numpyro.plate("pupil", len(grades)):
        numpyro.sample("grade", dist.OrderedLogistic(0.0, cut), obs=grades)


def correlation(pairs):
    scale = numpyro.sample("scale", dist.LogNormal(0, 1).expand([2]).to_event(1))
    root = numpyro.sample("root", dist.LKJCholesky(2, 2.0))
    numpyro.deterministic("rho", root[1, 0])
    with numpyro.plate("pair", len(pairs)):
        numpyro.sample("pairs", dist.MultivariateNormal(0.0, scale_tril=scale[:, None] * root), obs=pairs)


def missing(x, y):
    slope = numpyro.sample("slope", dist.Normal(0, 1).expand([2]).to_event(1))
    scale = numpyro.sample("scale", dist.Exponential(1))
    absent = np.isnan(y)
    filled = numpyro.sample("filled", dist.Normal((x @ slope)[absent], scale).to_event(1))
    whole = jnp.asarray(np.nan_to_num(y)).at[np.flatnonzero(absent)].set(filled)
    with numpyro.plate("row", len(y)), numpyro.handlers.mask(mask=jnp.asarray(~absent)):
        numpyro.sample("y", dist.Normal(x @ slope, scale), obs=whole)


def bounded(y):
    low = numpyro.sample("low", dist.Uniform(-5, 1))
    share = numpyro.sample("share", dist.Beta(2, 3))
    between = numpyro.sample("between", dist.TruncatedNormal(0, 1, low=-0.5, high=2.0))
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.StudentT(4, low + share + between, 1.0), obs=y)


def positive(y):
    rate = numpyro.sample("rate", dist.Gamma(2, 1))
    power = numpyro.sample("power", dist.InverseGamma(3, 2))
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.Weibull(1 / rate, power), obs=jnp.abs(y) + 0.1)


def with_factor(y):
    mean = numpyro.sample("mean", dist.ImproperUniform(dist.constraints.real, (), ()))
    scale = numpyro.sample("scale", dist.ImproperUniform(dist.constraints.positive, (), ()))
    numpyro.factor("jeffreys", -jnp.log(scale))
    numpyro.sample("y", dist.Normal(mean, scale).expand([len(y)]).to_event(1), obs=y)


def circular(angles):
    centre = numpyro.sample("centre", dist.Normal(0, 1))
    concentration = numpyro.sample("concentration", dist.Gamma(2, 0.5))
    with numpyro.plate("row", len(angles)):
        numpyro.sample("angle", dist.VonMises(centre, concentration), obs=angles)


MODELS = {
    "regression": (regression, (X, Y)),
    "schools": (schools, SCHOOLS),
    "simplex": (simplex, (COUNTS,)),
    "ordered": (ordered, (GRADES,)),
    "correlation": (correlation, (PAIRS,)),
    "missing": (missing, (X, MISSING)),
    "bounded": (bounded, (Y,)),
    "positive": (positive, (Y,)),
    "factor": (with_factor, (Y,)),
    "circular": (circular, (Y / 2,)),
}
