"""The models of ``benchmarks/posteriordb`` in NumPyro, as a user would write them: regressions, mixtures, hierarchies.

Time series, hidden Markov models and differential equations are in ``posteriordb_series.py``. ``POSTERIORS`` has them
all; ``load(name)`` returns one with its data.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints

HERE = Path(__file__).parent / "posteriordb"


class Posterior(NamedTuple):
    """A model with its data, and what is to be known of it."""

    model: Any
    """A function with sample statements, or a model of PyMC."""
    args: tuple
    quantities: Callable[[dict], dict]
    """From one draw, a dict of arrays by site, to numbers by the names of the reference."""
    bits: int = 32
    """The precision that it needs."""


def load(name: str) -> Posterior:
    """Return a posterior with the data that its name begins with."""
    return posteriors()[name](read_data(name))


def posteriors() -> dict[str, Callable[[dict], Posterior]]:
    """Return the builders of all posteriors, by name."""
    from posteriordb_series import POSTERIORS as SERIES

    return {**POSTERIORS, **SERIES}


def read_data(name: str) -> dict[str, Any]:
    """Return the data of a posterior, lists as arrays."""
    data = json.loads((HERE / "data" / f"{name.partition('-')[0]}.json").read_text())
    return {key: np.asarray(value) if isinstance(value, list) else value for key, value in data.items()}


def flat(*sites: str) -> Callable[[dict], dict]:
    """Return a function from a draw to the numbers in these sites, named as in Stan: beta[1], phi[2,1]."""

    def numbers(draw: dict) -> dict:
        found = {}
        for site in sites:
            for index in np.ndindex(draw[site].shape):
                label = f"[{','.join(str(i + 1) for i in index)}]" if index else ""
                found[site + label] = draw[site][index]
        return found

    return numbers


def orders(values: Any) -> dict[str, Any]:
    """Return, for each order that exchangeable numbers may have, whether they have it."""
    ranks = jnp.argsort(values)
    return {
        "order " + "<".join(str(i + 1) for i in order): jnp.all(ranks == jnp.array(order)).astype(float)
        for order in itertools.permutations(range(len(values)))
    }


def flat_vector(name: str, size: int) -> Any:
    """Return a vector with a flat prior."""
    return numpyro.sample(name, dist.ImproperUniform(constraints.real_vector, (), (size,)))


def flat_positive(name: str) -> Any:
    """Return a positive number with a flat prior."""
    return numpyro.sample(name, dist.ImproperUniform(constraints.positive, (), ()))


def ordered(name: str, support: Any, prior: Any) -> Any:
    """Return an ordered vector; ``prior`` is that of its numbers, apart from the order."""
    values = numpyro.sample(name, dist.ImproperUniform(support, (), (2,)))
    numpyro.factor(f"{name}_prior", prior.log_prob(values).sum())
    return values


# Regressions


def blr(x, y):
    beta = numpyro.sample("beta", dist.Normal(0, 10).expand([x.shape[1]]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(10))
    numpyro.sample("y", dist.Normal(x @ beta, sigma), obs=y)


def flat_regression(x, y):
    beta = flat_vector("beta", x.shape[1])
    sigma = flat_positive("sigma")
    numpyro.sample("y", dist.Normal(x @ beta, sigma), obs=y)


def kidscore(x, y):
    beta = flat_vector("beta", x.shape[1])
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    numpyro.sample("y", dist.Normal(x @ beta, sigma), obs=y)


def dogs(avoided, shocked, y):
    beta = numpyro.sample("beta", dist.Normal(0, 100).expand([3]).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=beta[0] + beta[1] * avoided + beta[2] * shocked), obs=y)


def columns(*values: Any) -> np.ndarray:
    """Return a design matrix: a column of ones, and these."""
    return np.stack([np.ones(len(values[0])), *values], axis=1).astype(float)


def design(name: str, data: dict) -> tuple[np.ndarray, np.ndarray]:
    """Return predictors and response of a linear regression."""
    if name.startswith("sblr"):
        return data["X"], data["y"]
    if name.startswith("arK"):
        y, lags = data["y"], data["K"]
        return columns(*(y[lags - k : len(y) - k] for k in range(1, lags + 1))), y[lags:]
    if name.startswith("kidiq"):
        school, iq = data["mom_hs"], data["mom_iq"]
        return columns(school, iq, school * iq), data["kid_score"].astype(float)
    if name.startswith("nes"):
        ages = [(data["age_discrete"] == k) for k in (2, 3, 4)]
        rest = [data[k] for k in ("educ1", "gender", "income")]
        return columns(data["real_ideo"], data["race_adj"], *ages, *rest), data["partyid7"].astype(float)
    if name.startswith("mesquite"):
        one, two = data["diam1"], data["diam2"]
        logs = [np.log(v) for v in (one * two * data["canopy_height"], one * two, one / two, data["total_height"])]
        return columns(*logs, data["group"]), np.log(data["weight"])
    height, male = data["height"], data["male"]
    return columns(height, male, height * male), np.log(data["earn"])


def regression(name: str, model: Callable) -> Callable[[dict], Posterior]:
    """Return the builder of a linear regression with coefficients beta and noise sigma."""
    return lambda data: Posterior(model, design(name, data), flat("beta", "sigma"))


def dogs_history(data: dict) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return how often each dog has avoided a shock and how often not, before each trial, and the trials."""
    y = data["y"]
    before = [np.cumsum(v, axis=1) - v for v in (1 - y, y)]
    return before[0].astype(float), before[1].astype(float), y


# Hierarchies and Gaussian processes


def schools(y, sigma):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", len(y)):
        eta = numpyro.sample("eta", dist.Normal(0, 1))
        theta = numpyro.deterministic("theta", mu + tau * eta)
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def schools_centred(y, sigma):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", len(y)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def irt(y):
    items, pupils = y.shape
    sigma_theta = numpyro.sample("sigma_theta", dist.HalfCauchy(2))
    theta = numpyro.sample("theta", dist.Normal(0, sigma_theta).expand([pupils]).to_event(1))
    sigma_a = numpyro.sample("sigma_a", dist.HalfCauchy(2))
    a = numpyro.sample("a", dist.LogNormal(0, sigma_a).expand([items]).to_event(1))
    mu_b = numpyro.sample("mu_b", dist.Normal(0, 5))
    sigma_b = numpyro.sample("sigma_b", dist.HalfCauchy(2))
    b = numpyro.sample("b", dist.Normal(mu_b, sigma_b).expand([items]).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=a[:, None] * (theta - b[:, None])), obs=y)


def kernel(x, rho, alpha):
    """Return the covariance of a Gaussian process at ``x``."""
    return alpha**2 * jnp.exp(-((x[:, None] - x) ** 2) / (2 * rho**2))


def gp_poisson(x, k):
    rho = numpyro.sample("rho", dist.Gamma(25, 4))
    alpha = numpyro.sample("alpha", dist.HalfNormal(2))
    z = numpyro.sample("f_tilde", dist.Normal(0, 1).expand([len(x)]).to_event(1))
    root = jnp.linalg.cholesky(kernel(x, rho, alpha) + 1e-10 * jnp.eye(len(x)))
    f = numpyro.deterministic("f", root @ z)
    numpyro.sample("k", dist.Poisson(jnp.exp(f)), obs=k)


def gp_regression(x, y):
    rho = numpyro.sample("rho", dist.Gamma(25, 4))
    alpha = numpyro.sample("alpha", dist.HalfNormal(2))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    numpyro.sample("y", dist.MultivariateNormal(0.0, kernel(x, rho, alpha) + sigma * jnp.eye(len(x))), obs=y)


# Mixtures


def mixture_of_two(y, order):
    prior = dist.Normal(0, 2)
    if order:
        mu = ordered("mu", constraints.ordered_vector, prior)
    else:
        mu = numpyro.sample("mu", prior.expand([2]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2).expand([2]).to_event(1))
    theta = numpyro.sample("theta", dist.Beta(5, 5))
    share = dist.Categorical(jnp.stack([theta, 1 - theta]))
    numpyro.sample("y", dist.MixtureSameFamily(share, dist.Normal(mu, sigma)), obs=y)


def normal_mixture(y):
    theta = numpyro.sample("theta", dist.Uniform(0, 1))
    mu = numpyro.sample("mu", dist.Normal(0, 10).expand([2]).to_event(1))
    share = dist.Categorical(jnp.stack([theta, 1 - theta]))
    numpyro.sample("y", dist.MixtureSameFamily(share, dist.Normal(mu, 1.0)), obs=y)


def normal_mixture_k(parts, y):
    theta = numpyro.sample("theta", dist.Dirichlet(jnp.ones(parts)))
    mu = numpyro.sample("mu", dist.Normal(0, 10).expand([parts]).to_event(1))
    sigma = numpyro.sample("sigma", dist.Uniform(0, 10).expand([parts]).to_event(1))
    numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(theta), dist.Normal(mu, sigma)), obs=y)


def lda(topics, documents, words, w, doc):
    theta = numpyro.sample("theta", dist.Dirichlet(jnp.ones(topics)).expand([documents]).to_event(1))
    phi = numpyro.sample("phi", dist.Dirichlet(jnp.ones(words)).expand([topics]).to_event(1))
    numpyro.sample("w", dist.Categorical((theta @ phi)[doc]), obs=w)


def sorted_mixture(draw: dict) -> dict:
    """Return the numbers of a mixture of two by the order of mu, and which label was below."""
    at = jnp.argsort(draw["mu"])
    theta = jnp.stack([draw["theta"], 1 - draw["theta"]])[at[0]]
    named = flat("mu", "sigma", "theta")({"mu": draw["mu"][at], "sigma": draw["sigma"][at], "theta": theta})
    return {**named, **orders(draw["mu"])}


POSTERIORS: dict[str, Callable[[dict], Posterior]] = {
    "sblrc-blr": regression("sblrc", blr),
    "sblri-blr": regression("sblri", blr),
    "kidiq-kidscore_interaction": regression("kidiq", kidscore),
    "nes2000-nes": regression("nes", flat_regression),
    "mesquite-logmesquite_logvash": regression("mesquite", flat_regression),
    "earnings-logearn_interaction": regression("earnings", flat_regression),
    "dogs-dogs": lambda data: Posterior(dogs, dogs_history(data), flat("beta")),
    "eight_schools-eight_schools_noncentered": lambda data: Posterior(
        schools, (data["y"].astype(float), data["sigma"].astype(float)), flat("theta", "mu", "tau")
    ),
    "eight_schools-eight_schools_centered": lambda data: Posterior(
        schools_centred, (data["y"].astype(float), data["sigma"].astype(float)), flat("theta", "mu", "tau")
    ),
    "irt_2pl-irt_2pl": lambda data: Posterior(
        irt, (data["y"],), flat("sigma_theta", "theta", "sigma_a", "a", "mu_b", "sigma_b", "b")
    ),
    "gp_pois_regr-gp_pois_regr": lambda data: Posterior(
        gp_poisson, (data["x"].astype(float), data["k"]), flat("rho", "alpha", "f"), bits=64
    ),
    "gp_pois_regr-gp_regr": lambda data: Posterior(
        gp_regression, (data["x"].astype(float), data["y"]), flat("rho", "alpha", "sigma")
    ),
    "low_dim_gauss_mix-low_dim_gauss_mix": lambda data: Posterior(
        mixture_of_two, (data["y"], True), flat("mu", "sigma", "theta")
    ),
    "low_dim_gauss_mix-unordered": lambda data: Posterior(mixture_of_two, (data["y"], False), sorted_mixture),
    "low_dim_gauss_mix_collapse-low_dim_gauss_mix_collapse": lambda data: Posterior(
        mixture_of_two, (data["y"], False), lambda draw: orders(draw["mu"])
    ),
    "normal_2-normal_mixture": lambda data: Posterior(normal_mixture, (data["y"],), lambda draw: orders(draw["mu"])),
    "normal_5-normal_mixture_k": lambda data: Posterior(
        normal_mixture_k, (data["K"], data["y"]), lambda draw: orders(draw["mu"])
    ),
    "three_docs1200-ldaK2": lambda data: Posterior(
        lda, (2, data["M"], data["V"], data["w"] - 1, data["doc"] - 1), lambda draw: orders(draw["phi"][:, 0])
    ),
}
