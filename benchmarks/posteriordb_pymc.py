"""Five models of ``benchmarks/posteriordb`` in PyMC."""

from __future__ import annotations

from collections.abc import Callable

import pymc as pm
from posteriordb_models import Posterior, design, dogs_history, flat, read_data


def load(name: str) -> Posterior:
    """Return a posterior with its data."""
    return POSTERIORS[name](read_data(name))


def blr(data: dict) -> Posterior:
    x, y = design("sblr", data)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 10, shape=x.shape[1])
        sigma = pm.HalfNormal("sigma", 10)
        pm.Normal("y", x @ beta, sigma, observed=y)
    return Posterior(model, (), flat("beta", "sigma"))


def ar(data: dict) -> Posterior:
    x, y = design("arK", data)
    with pm.Model() as model:
        alpha = pm.Normal("alpha", 0, 10)
        beta = pm.Normal("beta", 0, 10, shape=x.shape[1] - 1)
        sigma = pm.HalfCauchy("sigma", 2.5)
        pm.Normal("y", alpha + x[:, 1:] @ beta, sigma, observed=y)
    return Posterior(model, (), flat("alpha", "beta", "sigma"))


def kidscore(data: dict) -> Posterior:
    x, y = design("kidiq", data)
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=x.shape[1])
        sigma = pm.HalfCauchy("sigma", 2.5)
        pm.Normal("y", x @ beta, sigma, observed=y)
    return Posterior(model, (), flat("beta", "sigma"))


def dogs(data: dict) -> Posterior:
    avoided, shocked, y = dogs_history(data)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 100, shape=3)
        pm.Bernoulli("y", logit_p=beta[0] + beta[1] * avoided + beta[2] * shocked, observed=y)
    return Posterior(model, (), flat("beta"))


def schools(data: dict) -> Posterior:
    with pm.Model(coords={"school": range(data["J"])}) as model:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
        eta = pm.Normal("eta", 0, 1, dims="school")
        theta = pm.Deterministic("theta", mu + tau * eta, dims="school")
        pm.Normal("y", theta, data["sigma"], observed=data["y"], dims="school")
    return Posterior(model, (), flat("theta", "mu", "tau"))


POSTERIORS: dict[str, Callable[[dict], Posterior]] = {
    "sblrc-blr": blr,
    "arK-arK": ar,
    "kidiq-kidscore_interaction": kidscore,
    "dogs-dogs": dogs,
    "eight_schools-eight_schools_noncentered": schools,
}
