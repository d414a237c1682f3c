"""What ``sample`` takes for a model, and what it says of what it cannot take. Nothing is sampled here."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pymc as pm
import pytest

import sahmc
from sahmc.models.convert import as_model, model_in_context


def slope(x, y=None):
    a = numpyro.sample("a", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(a * x, 1), obs=y)


def small():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("a"), observed=np.ones(3))
    return model


def test_the_pymc_model_around_the_call_is_the_model():
    model, other = small(), pm.Model()
    with model:
        assert model_in_context(None) is model
        assert model_in_context(other) is other
        with pytest.raises(ValueError, match="draws must be"):  # the model is there, and the next thing is looked at
            sahmc.sample(draws=-1)
    with pytest.raises(ValueError, match="a model must be passed, unless the call is inside `with model:`"):
        sahmc.sample()


class Backend:
    def __init__(self):
        self.model = small()


class Regression:
    """What is used of a ``bambi.Model``, which is known by the name of its module."""

    __module__ = "bambi.models"

    def __init__(self):
        self.built = self.backend = None

    def build(self):
        assert not self.built
        self.backend, self.built = Backend(), True


def test_a_model_of_bambi_is_built_once_and_is_its_pymc_model():
    model = Regression()
    for _ in range(2):
        made = as_model(model)
        assert made.has_prior and list(made.labels.observed_data) == ["y"]


@pytest.mark.parametrize(
    ("model", "given", "words"),
    [
        (slope, {}, r"got slope\(x, y\) with model_args=\(\) .*'x'.* pass model_args=\(x,\), data among them"),
        (slope, {"model_kwargs": {"y": np.ones(3)}}, r"model_kwargs=\{'y': ...\}: missing a required argument: 'x'"),
        (slope, {"model_args": (1, 2, 3)}, r"model_args=\(..., ..., ...\) .* too many positional arguments"),
        (slope, {"initvals": {"a": 0.0}}, "a NumPyro model must be given its arguments"),
        (partial(slope, y=np.ones(3)), {}, "a NumPyro model must be given its arguments"),
        (numpyro.handlers.condition(slope, {"a": 1.0}), {}, "a NumPyro model must be given its arguments"),
    ],
)
def test_a_numpyro_model_without_its_arguments_is_told_so(model, given, words):
    with pytest.raises(ValueError, match=words):
        sahmc.sample(model, **given)


def test_a_log_density_that_uses_numpyro_is_not_taken_for_a_model():
    def by_distribution(x):
        return dist.Normal(0, 1).log_prob(x).sum()

    def by_trace(x):
        with numpyro.handlers.trace() as sites, numpyro.handlers.substitute(data={"a": x}):
            numpyro.sample("a", dist.Normal(0, 1))
        return sites["a"]["fn"].log_prob(x)

    for log_density in (by_distribution, by_trace):
        assert as_model(log_density).log_density is log_density


def test_a_log_density_that_returns_nothing_is_told_so():
    with pytest.raises(ValueError, match=r"must return one real number; got 'None'.*end the function with `return`"):
        sahmc.sample(lambda x: None, jnp.zeros(2))


def test_arguments_for_what_is_no_numpyro_model():
    with pytest.raises(ValueError, match="model_args and model_kwargs are for a model of NumPyro; got a function that"):
        as_model(lambda p: -(p["x"] ** 2), (1,), None)
    with pytest.raises(TypeError):  # an error of the model itself
        as_model(lambda x: numpyro.sample("a", dist.Normal(0, 1)) + x["b"], (1,), None)
