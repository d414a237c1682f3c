"""Programs are compiled with quick options where these are known, and only by themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sahmc._support import compiled
from sahmc._support.compiled import Compiled


@pytest.fixture
def quick(monkeypatch):
    """The options as users have them: the tests have flags of their own."""
    monkeypatch.setenv("XLA_FLAGS", "")
    compiled._accepted.cache_clear()
    yield
    compiled._accepted.cache_clear()


def test_options_that_this_version_does_not_know_are_left_out(quick, monkeypatch):
    known = dict(compiled._accepted())
    assert "xla_backend_optimization_level" in known
    monkeypatch.setitem(compiled.QUICK, "xla_no_such_option", True)
    compiled._accepted.cache_clear()
    assert compiled._accepted() == known


def test_options_that_the_user_has_set_stay(quick, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=3")
    assert "xla_backend_optimization_level" not in compiled._accepted()


def test_a_compiled_function_can_be_part_of_another(quick):
    """JAX refuses options there: the broken twin is ``jax.jit`` with them."""

    def double(x):
        return 2 * x

    made = Compiled(double)
    assert float(jax.jit(lambda x: made(x) + 1)(3.0)) == 7
    assert np.array_equal(jax.vmap(made)(jnp.arange(3.0)), [0, 2, 4])
    assert float(jax.grad(made)(3.0)) == 2 and float(made(3.0)) == 6 and made._cache_size() == 1
    made.clear_cache()
    assert made._cache_size() == 0
    broken = jax.jit(double, compiler_options=compiled._accepted())
    with pytest.raises(ValueError, match="top-level"):
        jax.jit(lambda x: broken(x) + 1)(3.0)
