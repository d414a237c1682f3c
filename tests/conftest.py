import jax.numpy as jnp
import pytest

from sahmc.testing import mixture


@pytest.fixture(scope="session")
def set1():
    return mixture(-6.0, 4.0)


@pytest.fixture(scope="session")
def set2():
    return mixture(-8.0, 6.0)


@pytest.fixture
def origin():
    return jnp.zeros(2)
