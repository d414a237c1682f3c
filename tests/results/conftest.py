"""One run of two variables, its warm-up kept, for all that is computed from a result."""

import jax.numpy as jnp
import pytest

import sahmc
from sahmc.testing import mixture


@pytest.fixture(scope="session")
def result():
    def log_density(p):
        return mixture(-6.0, 4.0).log_density(p["x"]) - 0.5 * jnp.sum(p["y"] ** 2)

    start = {"x": jnp.zeros(2), "y": jnp.zeros((2, 2))}
    return sahmc.sample(
        log_density,
        start,
        draws=400,
        tune=500,
        chains=8,
        random_seed=0,
        progressbar=False,
        save_warmup=True,
        reference=False,
    )


@pytest.fixture(scope="session")
def tree(result):
    return result.to_datatree(coords={"axis": ["east", "north"]}, dims={"x": ["axis"]})
