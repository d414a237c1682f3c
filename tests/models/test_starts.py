"""Where chains start."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from plans import plan_for

import sahmc
from sahmc.engine.start import prepare, start_chains
from sahmc.models.starts import ONE_BY_ONE, starting_positions

KEY = jax.random.key(0)


def normal(x):
    return -0.5 * jnp.sum(x**2)


def test_one_position_is_the_start_of_every_chain():
    flat, unravel = starting_positions(sahmc.Model(log_density=normal), {"a": 1.0, "b": jnp.zeros((2, 2))}, 3, KEY)
    assert flat.shape == (3, 5) and (flat == flat[0]).all()
    assert unravel(flat[0])["a"] == 1.0 and unravel(flat[0])["b"].shape == (2, 2)


def test_a_list_has_one_for_each_chain():
    flat, _ = starting_positions(sahmc.Model(log_density=normal), [jnp.full(3, float(i)) for i in range(4)], 4, KEY)
    assert flat[:, 0].tolist() == [0, 1, 2, 3]


def test_a_function_of_a_key_is_called_for_each_chain_and_so_is_the_models_own():
    def draw(key):
        return 10 * jax.random.normal(key, (3,))

    given, _ = starting_positions(sahmc.Model(log_density=normal), draw, 4, KEY)
    own, _ = starting_positions(sahmc.Model(normal, normal, start=draw), None, 4, KEY)
    assert len(np.unique(given)) == 12 and np.array_equal(given, own)


def test_starts_of_many_chains_are_drawn_together_where_that_gives_the_same():
    model, chains, calls = sahmc.Model(log_density=normal), ONE_BY_ONE + 1, []
    rng = np.random.default_rng(0)

    def pure(key):
        calls.append(key)
        return {"a": 10 * jax.random.normal(key, (3,)), "b": jax.random.uniform(key)}

    def forgetful(key):
        return rng.normal(size=3)

    def of_numpy(key):
        return np.random.default_rng(np.asarray(jax.random.key_data(key))).normal(size=3)

    flat, unravel = starting_positions(model, pure, chains, KEY)
    assert len(calls) == 3
    for chain in (0, 100, chains - 1):
        own = pure(jax.random.fold_in(KEY, chain))
        assert np.allclose(unravel(flat[chain])["a"], own["a"]) and np.allclose(unravel(flat[chain])["b"], own["b"])
    for draw in (forgetful, of_numpy):  # those that JAX cannot trace, or that forget their key, are called for each
        flat, _ = starting_positions(model, draw, chains, KEY)
        assert len(np.unique(flat)) == 3 * chains


def test_a_start_outside_the_support_is_drawn_again():
    """Three in four starts that the model draws are outside; initvals given by hand are not touched."""
    inside = sahmc.Model(
        log_density=lambda x: jnp.where(jnp.all(x > 0), -jnp.sum(x), -jnp.inf),
        start=lambda key: jax.random.uniform(key, (2,), minval=-1.0),
    )
    first, _ = starting_positions(inside, None, 8, KEY)
    assert not (first > 0).all()
    assert (prepare(inside, plan_for(inside, tilt="none"), None, KEY).positions > 0).all()
    given = prepare(inside, plan_for(inside, tilt="none"), -jnp.ones(2), KEY)
    assert (given.positions == -1).all()
    with pytest.raises(ValueError, match="must be finite where a chain starts"):
        start_chains(given)


def incomes(y):
    """Means of groups in a currency of small units: what is within 2 of 0 explains no income."""
    centre = numpyro.sample("centre", dist.Normal(0, 5e6))
    spread = numpyro.sample("spread", dist.HalfNormal(2e6))
    with numpyro.plate("group", 5):
        level = numpyro.sample("level", dist.Normal(centre, spread))
    numpyro.sample("y", dist.Normal(level, numpyro.sample("noise", dist.HalfNormal(2e6))), obs=y)


def test_starts_in_the_wrong_units_give_way_to_the_prior_unless_they_are_given():
    y = 3e6 + 1e6 * np.random.default_rng(0).normal(size=(20, 5))
    model = sahmc.from_numpyro(incomes, y)
    own = prepare(model, plan_for(model), None, KEY)
    drawn, again = own.draw_prior(), prepare(model, plan_for(model), None, KEY).draw_prior()
    assert np.array_equal(drawn, again) and len(np.unique(drawn)) == drawn.size
    positions = start_chains(own)[0].sahmc.chains.position
    assert (positions == drawn).all(axis=1).mean() > 0.3  # and those that are still too high come down from there
    given = prepare(model, plan_for(model), model.constrain(model.start(KEY)), KEY)
    assert not (start_chains(given)[0].sahmc.chains.position == drawn).any()


def test_an_array_that_may_be_one_start_or_several_is_refused():
    starts = np.zeros((4, 2), np.float32)
    model = sahmc.Model(log_density=normal)
    with pytest.raises(ValueError, match=r"list\(initvals\) if its rows are positions"):
        starting_positions(model, starts, 4, KEY)
    assert starting_positions(model, list(starts), 4, KEY)[0].shape == (4, 2)
    assert starting_positions(model, [starts] * 4, 4, KEY)[0].shape == (4, 8)
    assert starting_positions(model, starts, 3, KEY)[0].shape == (3, 8)  # no start for each of three chains
    pair = sahmc.Model(log_density=lambda p: normal(p[0]) + normal(p[1]))  # a tuple of arrays is no array
    assert starting_positions(pair, (starts[0], starts[1]), 2, KEY)[0].shape == (2, 4)
    assert starting_positions(pair, (starts[0], starts[1, :1]), 2, KEY)[0].shape == (2, 3)
    of_a_matrix = sahmc.Model(log_density=lambda x: -jnp.sum((x @ jnp.ones((2, 3))[:, 0]) ** 2) + x[0, 0])
    assert starting_positions(of_a_matrix, starts, 4, KEY)[0].shape == (4, 8)


@pytest.mark.parametrize("start", [np.array([0.0, np.nan]), [np.zeros(2), np.array([np.inf, 0.0])]])
def test_a_start_that_is_not_finite_is_named(start):
    with pytest.raises(ValueError, match="a start must be made of finite numbers; got 'NaN or infinity at the start"):
        starting_positions(sahmc.Model(log_density=normal), start, 2, KEY)
    drawn, _ = starting_positions(sahmc.Model(log_density=normal), lambda key: np.full(2, np.inf), 2, KEY)
    assert np.isinf(drawn).all()  # those that are drawn are drawn again
