"""The search may find that the pilot was in a place without mass. What the pilot learnt there is then learnt anew."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import sahmc
from sahmc.warmup import warmup
from sahmc.warmup.second_pilot import SecondPilot

WEEK = jnp.linspace(0, 12, 100)
WEIGHT = 10 / (1 + jnp.exp(-0.8 * (WEEK - 5))) + 0.4 * np.random.default_rng(3).normal(size=100)
TRUTH = np.array([np.log(10.0), np.log(0.8), 5.0, np.log(0.4)])


def growth(p):
    """Logistic growth. Far before the first week the curve is flat, and so is the density."""
    size, rate, middle, noise = p["size"], p["rate"], p["middle"], p["noise"]
    misfit = (WEIGHT - jnp.exp(size) * jax.nn.sigmoid(jnp.exp(rate) * (WEEK - middle))) / jnp.exp(noise)
    prior = (middle / 1000) ** 2 + (rate / 3) ** 2 + (size / 5) ** 2 + (noise / 5) ** 2
    return -0.5 * jnp.sum(misfit**2) - 100 * noise - 0.5 * prior


def off_by(result):
    """How far the means are from the highest density, in standard deviations of Laplace's Gaussian there."""

    def energy(x):
        return -growth(dict(zip(("size", "rate", "middle", "noise"), x, strict=True)))

    best = minimize(jax.jit(energy), TRUTH, jac=jax.jit(jax.grad(energy)), method="BFGS").x
    width = np.sqrt(np.diag(np.linalg.inv(jax.hessian(energy)(jnp.asarray(best)))))
    mean = result.expectation(lambda p: jnp.stack([p["size"], p["rate"], p["middle"], p["noise"]])).mean
    return float(np.max(np.abs(mean - best) / width))


@pytest.mark.parametrize(("repeated", "seed"), [(True, 0), (True, 2), (True, 3), (False, 0)])
def test_a_pilot_on_a_plateau_is_repeated_where_the_search_leads(repeated, seed, monkeypatch):
    """The broken twin goes on with the lengths of the plateau, where the middle may be anywhere."""
    if not repeated:
        monkeypatch.setattr(warmup, "pilot_again", lambda context, piloted, *_: SecondPilot(piloted, False, True))
    start = {"size": 2.0, "rate": 4.0, "middle": -600.0, "noise": 1.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = sahmc.sample(growth, start, random_seed=seed, draws=300, tune=400, progressbar=False)
    if repeated:
        assert result.findings == () and off_by(result) < 0.5  # means of a skewed posterior are not at its peak
    else:
        assert off_by(result) > 4
