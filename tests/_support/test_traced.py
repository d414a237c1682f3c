import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sahmc
from sahmc._support import compiled
from sahmc._support.compiled import MOST_PROGRAMS
from sahmc._support.traced import trace
from sahmc.engine.loop import run_chunk
from sahmc.models.energy import trace_energy
from sahmc.models.evaluation import energies

pytestmark = pytest.mark.newest


def test_runs_like_the_function():
    data = jnp.arange(3.0)
    traced = trace(lambda x: (jnp.sum(x * data), {"twice": 2 * x}), jnp.ones(3))
    value, rest = jax.vmap(traced)(jnp.ones((4, 3)))
    assert value.tolist() == [3.0] * 4 and rest["twice"].shape == (4, 3)


def test_same_steps_are_shared_and_other_data_are_not_lost():
    functions = [
        trace(lambda x, k=k: jnp.sum(x * (jnp.arange(3.0) + jnp.asarray([k, k, k]))), jnp.ones(3)) for k in (1.0, 2.0)
    ]
    one, two = (trace(lambda x, d=d: jnp.sum(x * d), jnp.ones(3)) for d in (np.arange(3.0), np.arange(3.0) + 1))
    assert one.steps is two.steps and float(one(jnp.ones(3))) == 3 and float(two(jnp.ones(3))) == 6
    assert [float(f(jnp.ones(3))) for f in functions] == [6.0, 9.0]


def test_steps_with_programs_inside_are_shared():
    def log_density(x, rows):
        last = jax.lax.scan(lambda c, row: (jax.nn.logsumexp(c + row), jnp.sin(c)), x[0], rows)
        return jnp.interp(last[0], jnp.arange(3.0), rows[:3]) + last[1].sum()

    one, two = (
        trace(jax.value_and_grad(lambda x, k=k: log_density(x, np.full(5, k))), jnp.ones(3)) for k in (1.0, 2.0)
    )
    assert one.steps is two.steps and float(one(jnp.ones(3))[0]) != float(two(jnp.ones(3))[0])


def test_unlike_steps_are_told_apart():
    """The printed form of these two hides the one parameter in which they differ."""
    rows = trace(lambda x: jax.lax.broadcast_in_dim(x, (3, 3), (0,)) * jnp.arange(3.0), jnp.ones(3))
    columns = trace(lambda x: jax.lax.broadcast_in_dim(x, (3, 3), (1,)) * jnp.arange(3.0), jnp.ones(3))
    assert rows.steps is not columns.steps
    scaled = [trace(lambda x, k=k: k * x, jnp.ones(3)) for k in (0.1, 0.1000001)]
    assert scaled[0].steps is not scaled[1].steps


def test_log_density_is_called_once_in_a_run_and_sees_changed_data(origin):
    calls = 0
    centre = np.zeros(2, np.float32)

    def log_density(x):
        nonlocal calls
        calls += 1
        return -0.5 * jnp.sum((x - centre) ** 2)

    def mean(seed):
        ladder = sahmc.EnergyPartition.uniform(0, 4, 1)  # given, so that both runs have the same shapes
        result = sahmc.sample(
            log_density, origin, draws=500, tune=500, chains=8, random_seed=seed, tilt="step", partition=ladder
        )
        return result.expectation().mean

    first = mean(0)
    assert calls == 1
    compiled = run_chunk._cache_size()
    centre = np.array([5.0, -5.0], np.float32)
    second = mean(0)
    assert calls == 2
    assert run_chunk._cache_size() == compiled
    assert np.allclose(second - first, [5, -5], atol=0.5)


def test_compiled_code_of_many_models_is_let_go(origin, monkeypatch):
    """Each new model leaves tens of MiB of it in the process; the last few are kept, to be run again."""
    monkeypatch.setattr(compiled, "_programs", set())  # what other tests ran in this process is not counted
    energies.clear_cache()
    sizes = []
    for number in range(MOST_PROGRAMS + 2):

        def log_density(x, number=number):
            for _ in range(number):
                x = jnp.sin(x) + x
            return -0.5 * jnp.sum(x**2)

        positions = jnp.zeros((1, 2))
        energy_fn = trace_energy(sahmc.Model(log_density=log_density), lambda x: x, origin, True)
        energies(energy_fn, positions)
        sizes.append(energies._cache_size())
    assert sizes == [*range(1, MOST_PROGRAMS + 1), 1, 2]


def test_a_callback_that_cannot_be_batched_is_told_what_to_do(origin):
    def log_density(x):
        return jax.pure_callback(lambda x: np.float32(0), jnp.zeros(()), x)

    with pytest.raises(ValueError, match="vmap_method"):
        sahmc.sample(log_density, origin, kernel="random_walk")
    with pytest.raises(ValueError, match="must return one real number; got 'None'"):
        sahmc.sample(lambda x: None, origin)
