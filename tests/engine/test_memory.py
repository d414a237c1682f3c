import inspect
from types import SimpleNamespace

import jax.numpy as jnp
import pytest

import sahmc
from sahmc.engine import memory


def log_density(x):
    return -0.5 * jnp.sum(x**2)


def test_more_chains_than_fit_are_refused_before_they_are_made():
    """Two thousand million chains: not even their starts would fit anywhere."""
    with pytest.raises(ValueError, match=r"must fit into its memory.*2,000,000,000 chains in 3 dimensions"):
        sahmc.sample(log_density, jnp.zeros(3), chains=2 * 10**9, draws=1)


def test_more_draws_than_fit_are_refused_unless_they_stay_on_disk(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "host_memory", lambda: 2**26)
    with pytest.raises(ValueError, match=r"all draws must fit into memory, of which 64 MiB.*checkpoint="):
        sahmc.sample(log_density, jnp.zeros(3), chains=8, draws=10**6)
    plan = SimpleNamespace(chains=8, draws=2 * 10**5)
    check = inspect.unwrap(memory.require_memory)
    check(plan, 3, 4, memory.Devices(), True, None)
    check(plan, 3, 4, memory.Devices(), False, 0)  # what keep makes of a position counts in its place
    with pytest.raises(ValueError, match="all draws must fit"):
        check(plan, 3, 4, memory.Devices(), False, None)


def test_sizes_are_said_as_a_person_would():
    assert [memory._size(n) for n in (5, 2**20, 3 * 2**40)] == ["5 bytes", "1 MiB", "3,072.0 GiB"]
