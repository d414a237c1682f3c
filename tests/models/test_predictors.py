"""What models tell besides their density: log likelihoods of single observations, simulated data, draws of the prior.

The draws are given here, so nothing is sampled.
"""

import json

import jax
import models_numpyro
import models_pymc
import numpy as np
import numpyro
import numpyro.distributions as dist
import pymc as pm
import pytensor
import pytest

import sahmc
from sahmc.models.stan_predictor import StanPredictor

SEEDS = 3


@pytest.fixture(autouse=True)
def quick(precision):
    """Compile less; and what PyTensor does to JAX is done whichever test comes first."""
    jax.config.update("jax_enable_x64", True)
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


def check_sums(made):
    """The log likelihoods of single observations sum to the log likelihood."""
    starts = [made.start(jax.random.key(seed)) for seed in range(SEEDS)]
    draws = jax.tree.map(lambda *leaves: np.stack(leaves), *map(made.constrain, starts))
    found = made.predictor.log_likelihood(draws)
    total = sum(x.reshape(SEEDS, -1).sum(axis=1) for x in found.values())
    np.testing.assert_allclose(total, [made.log_likelihood(start) for start in starts], rtol=1e-6)
    return found


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("regression", {"y": (40,)}),
        ("schools", {"y": (8,)}),
        ("correlation", {"pairs": (60,)}),
        ("missing", {"y": (40,)}),
        ("simplex", {"counts": ()}),
    ],
)
def test_observations_of_numpyro_sum_to_the_log_likelihood(name, shapes):
    model, args = models_numpyro.MODELS[name]
    found = check_sums(sahmc.from_numpyro(model, *args))
    assert {k: x.shape[1:] for k, x in found.items()} == shapes


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("regression", {"y": (40,)}),
        ("correlation", {"pairs": (60,)}),
        ("missing", {"y_observed": (35,)}),
    ],
)
def test_observations_of_pymc_sum_to_the_log_likelihood(name, shapes):
    found = check_sums(sahmc.from_pymc(models_pymc.MODELS[name]()))
    assert {k: x.shape[1:] for k, x in found.items()} == shapes


def check_simulated(made, size=400):
    """Data are made of the draws, though these are nowhere near the prior, and by the noise of the model."""
    slope = np.array([50.0, -30.0])
    draws = {"offset": 7.0, "slope": slope, "scale": 0.5, "mean": np.zeros(40)}
    draws = {k: np.broadcast_to(np.asarray(x), (size, *np.shape(x))).copy() for k, x in draws.items()}
    found = made.predictor.posterior_predictive(draws, 1)
    assert list(found) == ["y"] and found["y"].shape == (size, 40)
    z = (found["y"] - 7.0 - models_numpyro.X @ slope) / 0.5
    assert (np.abs(z.mean(axis=0)) < 4.5 / size**0.5).all()  # the largest of 40
    assert abs(z.var() - 1) < 4 * (2 / z.size) ** 0.5
    again, other = (made.predictor.posterior_predictive(draws, seed)["y"] for seed in (1, 2))
    assert np.array_equal(again, found["y"]) and not np.array_equal(other, again)


def check_prior(made, size=400):
    values, predictive = made.predictor.prior(size, 0)
    assert set(values) == {"offset", "slope", "scale", "mean"} and list(predictive) == ["y"]
    assert values["slope"].shape == (size, 2) and predictive["y"].shape == (size, 40)
    assert abs(values["offset"].mean()) < 4 * 2 / size**0.5
    np.testing.assert_allclose(values["mean"], values["offset"][:, None] + values["slope"] @ models_numpyro.X.T)
    z = (predictive["y"] - values["mean"]) / values["scale"][:, None]
    assert abs(z.var() - 1) < 4 * (2 / z.size) ** 0.5


def test_data_are_simulated_with_numpyro():
    model, args = models_numpyro.MODELS["regression"]
    made = sahmc.from_numpyro(model, *args)
    check_simulated(made)
    check_prior(made)


def test_data_are_simulated_with_pymc():
    made = sahmc.from_pymc(models_pymc.regression())
    check_simulated(made)
    check_prior(made)


def test_variables_that_depend_on_data_are_not_drawn_anew_by_pymc():
    with pm.Model(coords={"group": ["a", "b"]}) as model:
        centre = pm.Data("centre", np.zeros(2), dims="group")
        effect = pm.Normal("effect", centre, 1, dims="group")
        pm.Normal("y", effect, 0.1, observed=[1.0, 2.0], dims="group")
    draws = {"effect": np.full((50, 2), 30.0)}
    found = sahmc.from_pymc(model).predictor.posterior_predictive(draws, 0)["y"]
    assert (np.abs(found - 30) < 1).all()


def test_simulated_data_come_in_blocks_of_their_own(monkeypatch):
    monkeypatch.setattr("sahmc.models.numpyro_predictor.DRAWS_AT_ONCE", 7)
    model, args = models_numpyro.MODELS["regression"]
    check_simulated(sahmc.from_numpyro(model, *args), size=30)


def with_no_data():
    numpyro.factor("f", -(numpyro.sample("a", dist.Normal()) ** 2))


def test_what_a_model_cannot_tell_is_said():
    predictor = sahmc.from_numpyro(with_no_data).predictor
    with pytest.raises(ValueError, match="need observed variables"):
        predictor.log_likelihood({"a": np.zeros(3)})
    assert list(predictor.prior(5, 0).values) == ["a"]
    model, args = models_numpyro.MODELS["factor"]
    with pytest.raises(ValueError, match="a prior that can be drawn from; got 'an improper one'"):
        sahmc.from_numpyro(model, *args).predictor.prior(5, 0)
    with pytest.raises(ValueError, match=r"improper \['mean', 'scale'\]"):
        sahmc.from_pymc(models_pymc.improper()).predictor.prior(5, 0)


def test_generated_quantities_of_stan_go_by_their_names():
    draws = {"mu": np.zeros(4), "log_lik": np.ones((4, 3)), "y_rep": np.full((4, 3), 2.0)}
    predictor = StanPredictor()
    assert np.array_equal(predictor.log_likelihood(draws)["y"], draws["log_lik"])
    assert np.array_equal(predictor.posterior_predictive(draws, 0)["y"], draws["y_rep"])
    assert list(predictor.log_likelihood({"log_lik": np.ones((4, 3))})) == ["log_lik"]
    assert list(predictor.log_likelihood({"log_lik_t": np.ones((4, 3)), "log_lik_y": np.ones(4)})) == ["t", "y"]
    for ask, words in (
        (lambda: predictor.log_likelihood({"mu": np.zeros(4)}), "a generated quantity log_lik; got 'mu'"),
        (lambda: predictor.posterior_predictive({"mu": np.zeros(4)}, 0), "ends in _rep; got 'mu'"),
        (lambda: predictor.prior(5, 0), "got a Stan program"),
    ):
        with pytest.raises(ValueError, match=words):
            ask()


class Program:
    """What is read of a ``bridgestan.StanModel`` before it runs."""

    data = json.dumps({"N": 2, "y": [1.0, 2.0], "x": [0.0, 1.0]})

    def param_unc_num(self):
        return 1

    def param_names(self, *, include_tp=False, include_gq=False):
        return ["mu", "y_rep.1", "y_rep.2"]

    def log_density_gradient(self):
        raise NotImplementedError

    def new_rng(self, seed):
        return seed


def test_data_that_stan_makes_anew_are_the_observed_ones():
    observed = sahmc.from_stan(Program()).labels.observed_data
    assert list(observed) == ["y"] and observed["y"].tolist() == [1.0, 2.0]
