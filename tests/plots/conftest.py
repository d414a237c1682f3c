"""Three runs to draw: the default, plain HMC, and the paper's form."""

import warnings

import jax.numpy as jnp
import pytest

import sahmc


@pytest.fixture(scope="session")
def runs(set2):
    options = {"draws": 300, "tune": 400, "chains": 8, "random_seed": 0, "progressbar": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "tempered": sahmc.sample(set2.log_density, jnp.zeros(2), **options),
            "none": sahmc.sample(set2.log_density, jnp.zeros(2), tilt="none", **options),
            "paper": sahmc.sample(
                set2.log_density, jnp.zeros(2), tilt="step", theta="per-chain", adapt="always", **options
            ),
        }
