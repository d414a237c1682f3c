"""The record of the warm-up, as it is printed."""

import jax.numpy as jnp
import pytest

import sahmc
from sahmc.testing.targets import eight_modes


def test_the_record_of_a_model_names_the_prior():
    model = sahmc.Model(lambda x: -2.0 * jnp.sum((x - 1) ** 2), lambda x: -0.5 * jnp.sum(x**2))
    with pytest.warns(UserWarning, match="found problems"):
        result = sahmc.sample(model, jnp.zeros(2), random_seed=0, draws=50, tune=100)
    assert "came down from the prior" in repr(result.warmup) and "up to the prior" in repr(result.warmup)


def test_the_record_prints_what_was_chosen():
    target = eight_modes(3)
    result = sahmc.sample(target.log_density, jnp.asarray(target.start, jnp.float32), random_seed=0, draws=50, tune=200)
    text = repr(result.warmup)
    assert all(word in text for word in ("pilot", "climb", "8 known", "ladder", "adaptation", "gradients"))
    assert sum(result.warmup.gradients.values()) < result.num_gradients
