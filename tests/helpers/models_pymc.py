"""Ten PyMC models with one mode each: every kind of transform, coords, missing data, potentials."""

import warnings

import numpy as np
import pymc as pm

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = X @ np.array([1.0, -0.5]) + 0.3 + 0.6 * RNG.normal(size=40)
SCHOOLS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
PAIRS = RNG.multivariate_normal([0, 0], [[1, 0.6], [0.6, 2]], size=60)


def regression():
    with pm.Model(coords={"predictor": ["first", "second"], "row": np.arange(40)}) as model:
        x = pm.Data("x", X, dims=("row", "predictor"))
        offset, scale = pm.Normal("offset", 0, 2), pm.HalfNormal("scale", 1)
        slope = pm.Normal("slope", 0, 1, dims="predictor")
        mean = pm.Deterministic("mean", offset + x @ slope, dims="row")
        pm.Normal("y", mean, scale, observed=Y, dims="row")
    return model


def schools():
    with pm.Model(coords={"school": list("ABCDEFGH")}) as model:
        mean, spread = pm.Normal("mean", 0, 5), pm.HalfCauchy("spread", 5)
        effect = pm.Normal("effect", 0, 1, dims="school")
        pm.Normal("y", mean + spread * effect, SCHOOLS[1], observed=SCHOOLS[0], dims="school")
    return model


def simplex():
    with pm.Model() as model:
        share = pm.Dirichlet("share", np.ones(4))
        pm.Multinomial("counts", 40, share, observed=[12, 5, 20, 3])
    return model


def ordered():
    with pm.Model() as model:
        cut = pm.Normal("cut", [-1.0, 0, 1], 1, transform=pm.distributions.transforms.ordered, initval=[-1, 0, 1])
        pm.OrderedLogistic("grade", eta=0.0, cutpoints=cut, observed=RNG.integers(0, 4, size=50), compute_p=False)
    return model


def correlation():
    with pm.Model() as model:
        root, _, _ = pm.LKJCholeskyCov("root", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0), compute_corr=True)
        pm.MvNormal("pairs", np.zeros(2), chol=root, observed=PAIRS)
    return model


def missing():
    with pm.Model() as model:
        slope, scale = pm.Normal("slope", 0, 1, shape=2), pm.Exponential("scale", 1)
        y = np.ma.masked_array(Y, np.arange(40) % 9 == 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pm.Normal("y", X @ slope, scale, observed=y)
    return model


def bounded():
    with pm.Model() as model:
        low, share = pm.Uniform("low", -5, 1), pm.Beta("share", 2, 3)
        between = pm.TruncatedNormal("between", 0, 1, lower=-0.5, upper=2.0)
        pm.StudentT("y", nu=4, mu=low + share + between, sigma=1, observed=Y)
    return model


def positive():
    with pm.Model() as model:
        rate, power = pm.Gamma("rate", 2, 1), pm.InverseGamma("power", 3, 2)
        pm.Weibull("y", alpha=power, beta=1 / rate, observed=np.abs(Y) + 0.1)
    return model


def improper():
    with pm.Model() as model:
        mean, scale = pm.Flat("mean"), pm.HalfFlat("scale", initval=1.0)
        pm.Potential("jeffreys", -pm.math.log(scale))
        pm.Normal("y", mean, scale, observed=Y)
    return model


def random_walk():
    with pm.Model() as model:
        step = pm.HalfNormal("step", 0.5)
        level = pm.GaussianRandomWalk("level", sigma=step, init_dist=pm.Normal.dist(0, 1), steps=9)
        pm.Normal("y", level, 0.5, observed=np.sin(np.arange(10) / 2))
    return model


MODELS = {
    make.__name__: make
    for make in (
        regression,
        schools,
        simplex,
        ordered,
        correlation,
        missing,
        bounded,
        positive,
        improper,
        random_walk,
    )
}
