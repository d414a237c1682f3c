"""What is kept of a draw, and what is told on the way."""

import inspect
import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import sahmc

pytest.importorskip("matplotlib").use("Agg")


unchecked_sample = inspect.unwrap(sahmc.sample)  # the library's own checks, not those of types


def test_keep_reduces_positions_on_the_fly(set1):
    options = {"draws": 100, "tune": 200, "chains": 8, "random_seed": 0, "progressbar": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = sahmc.sample(set1.log_density, jnp.zeros(2), **options)
        part = sahmc.sample(set1.log_density, jnp.zeros(2), **options, keep=lambda x: {"sum": x.sum(), "high": x > 0})
    assert np.allclose(part.draws["sum"], whole.draws.sum(axis=-1), atol=1e-5)
    assert part.draws["high"].dtype == bool and np.array_equal(part.draws["high"], whole.draws > 0)
    assert np.isclose(part.expectation().mean["sum"], whole.expectation(lambda x: x.sum()).mean, atol=1e-4)
    with pytest.raises(ValueError, match="keep="):
        part.modes()
    for bad, word in ((3, "function of a position"), (lambda x: {}, "return arrays"), (lambda x: float(x[0]), "JAX")):
        with pytest.raises(ValueError, match=word):
            unchecked_sample(set1.log_density, jnp.zeros(2), **options, keep=bad)


def test_progress_is_told(set1):
    told = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sahmc.sample(set1.log_density, jnp.zeros(2), draws=100, tune=200, chains=8, random_seed=0, callback=told.append)
    stages = list(dict.fromkeys(p.stage for p in told))
    assert stages == ["pilot", "climb", "adapt", "draw"]
    last = {p.stage: p for p in told}
    assert last["draw"].done == last["draw"].total and last["adapt"].regions > 1
    assert all(0 <= p.acceptance_rate <= 1 and p.done <= p.total for p in told)
