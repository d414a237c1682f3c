import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sahmc.engine.step_size import init_step_size, update_step_size


@pytest.mark.parametrize("chains", [1, 33, 4096, 200_000])
def test_the_acceptance_aimed_at_leaves_the_step_size_alone(chains):
    """Whatever the number of chains: their sum must neither overflow nor round away."""
    state = init_step_size(jnp.array([0.5]), eager=False)
    for _ in range(5):
        state = update_step_size(state, jnp.full(chains, 0.8), jnp.zeros(chains, jnp.int32), 0.8)
    assert np.allclose(jnp.exp(state.log_step), 0.5, rtol=5e-3)


def test_each_level_finds_its_own_step():
    """Acceptance exp(-step / scale) is 0.8 at step = 0.223 scale."""
    scale = np.array([0.1, 1.0, 30.0])
    state = init_step_size(jnp.array([1.0, 1.0, 1.0]), eager=False)
    rng, update = np.random.default_rng(0), jax.jit(update_step_size)
    for _ in range(3000):
        level = rng.integers(3, size=4)
        acceptance = np.exp(-np.exp(np.asarray(state.log_step))[level] / scale[level])
        state = update(state, jnp.asarray(acceptance, jnp.float32), jnp.asarray(level, jnp.int32), 0.8)
    assert np.allclose(np.exp(state.log_average), -np.log(0.8) * scale, rtol=0.05)


def test_nothing_is_learnt_of_a_level_that_was_not_visited():
    state = init_step_size(jnp.array([1.0, 2.0]), eager=True)
    level = jnp.zeros(3, jnp.int32)
    moved = update_step_size(state, jnp.ones(3), level, 0.8)
    assert moved.num_updates.tolist() == [1, 0] and moved.log_step[1] == state.log_step[1]
