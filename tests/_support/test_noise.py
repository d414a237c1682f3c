import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from sahmc._support.noise import make_noise, threefry

FOUR_SIGMA = 6e-5


def test_the_hash_is_that_of_jax():
    key = jax.random.key(7)
    words = jax.random.key_data(key)
    for number in (0, 1, 12345, 2**31 - 1):
        mine = threefry((words[0], words[1]), jnp.uint32(0), jnp.uint32(number))
        assert np.array_equal(np.array(mine), jax.random.key_data(jax.random.fold_in(key, number)))


def test_numbers_do_not_depend_on_how_many_are_made_together():
    """Nor on the number of moves, of chains, or on which device a chain is."""
    keys = jax.random.split(jax.random.key(0), 3)
    whole = make_noise(keys, 8, 5, 3, 2, jnp.float32, 0)
    part = make_noise(keys[1], 2, 5, 3, 2, jnp.float32, 4)
    move = jax.tree.map(lambda x: x[1], whole)
    for all_chains, some in zip(move.of_chains(8, 5), part.of_chains(2, 5), strict=True):
        assert np.array_equal(all_chains[4:6], some)
    assert np.array_equal(move.shared, part.shared)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_numbers_are_normal_and_uniform_and_independent(dtype):
    with jax.enable_x64(dtype == jnp.float64):
        noise = make_noise(jax.random.key(1), 20_000, 5, 3, 0, dtype, 0)
        normal, uniform = (np.asarray(part, float) for part in noise.of_chains(20_000, 5))
    assert normal.shape == (20_000, 5) and uniform.shape == (20_000, 3)
    assert stats.kstest(normal.ravel(), "norm").pvalue > FOUR_SIGMA
    assert stats.kstest(uniform.ravel(), "uniform").pvalue > FOUR_SIGMA
    assert stats.kstest(normal.ravel() * 1.05, "norm").pvalue < FOUR_SIGMA  # a twin five per cent too wide is caught
    every = np.concatenate([normal, uniform], axis=1)
    apart = np.corrcoef(every.T)[np.triu_indices(8, 1)]
    later = [np.corrcoef(every[1:, i], every[:-1, i])[0, 1] for i in range(8)]
    assert np.abs([*apart, *later]).max() < 4.5 / np.sqrt(20_000)  # 4 sigma for the largest of 36
    assert uniform.min() > 0 and uniform.max() < 1 and np.isfinite(normal).all()


def test_the_extremes_are_finite():
    from sahmc._support.noise import _normal32, _uniform32

    ends = jnp.array([0, 2**32 - 1], jnp.uint32)
    assert np.allclose(_normal32(ends), [-5.42, 5.42], atol=0.01)
    assert 0 < _uniform32(ends)[0] < 2**-23 and 1 - 2**-22 < _uniform32(ends)[1] < 1
