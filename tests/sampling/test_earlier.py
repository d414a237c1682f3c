"""What another run leaves to one that starts from it, and what is refused."""

import dataclasses
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plans import plan_for

import sahmc
from sahmc.sampling.earlier import Earlier, prepare_from

KEY = jax.random.key(0)
PAIR = Earlier({"s": np.arange(8.0), "a": -np.arange(8.0)}, True, frozenset({"a", "s", "twice"}), None)
VECTOR = Earlier(np.arange(16.0, dtype=np.float32).reshape(8, 2), True, frozenset({"x"}), None)
MUST = "a result must be of a model with the variables of this one; got "


def started(log_density, earlier, **parts):
    model = sahmc.Model(log_density=log_density, **parts)
    return prepare_from(model, plan_for(model), earlier, KEY)


def normal(x):
    return -jnp.sum(x**2)


@pytest.mark.parametrize(
    ("earlier", "start", "told"),
    [
        (PAIR, {"zeta": 0.0, "beta": 0.0}, "'a () and s () there, beta () and zeta () here'"),
        (PAIR, {"a": 0.0, "s": jnp.zeros(1)}, r"'s () there, s (1,) here'"),
        (PAIR, {"a": 0.0}, "'s () there, no other here'"),
        (PAIR, jnp.zeros(2), "'a () and s () there, x (2,) here'"),
        (VECTOR, {"a": 0.0, "s": 0.0}, "'x (2,) there, a () and s () here'"),
        (VECTOR, jnp.zeros(3), "'x (2,) there, x (3,) here'"),
    ],
)
def test_other_variables_are_refused_before_anything_is_traced(earlier, start, told):
    def never(x):
        raise AssertionError("it was traced")

    with pytest.raises(ValueError) as error:
        started(never, earlier, start=lambda key: start)
    assert MUST + told in str(error.value)


def test_names_of_parts_of_a_vector_are_compared():
    """As those of a Stan program are."""
    parts = dict(start=lambda key: jnp.zeros(2), unconstrain=lambda v: jnp.stack([v["mu"], v["tau"]]))
    parts["constrain"] = lambda x: {"mu": x[0], "tau": x[1]}
    with pytest.raises(ValueError, match="got 'x there, mu and tau here'"):
        started(normal, VECTOR, **parts)
    ready = started(normal, dataclasses.replace(VECTOR, names=frozenset({"mu", "tau"})), **parts)
    assert np.array_equal(ready.positions, VECTOR.starts)


def test_what_a_log_density_cannot_take_is_told_in_one_line():
    with pytest.raises(
        ValueError, match=r"got a \(\) and s \(\), with which its log density fails: TypeError: [^\n]+$"
    ):
        started(lambda x: -jnp.sum((x - 1.0) ** 2), PAIR)
    with pytest.raises(ValueError, match="a log density must read keys that are there, which are 'a', 's'; got 'q'"):
        started(lambda x: -(x["q"] ** 2), PAIR)


def test_chains_start_from_variables_by_name():
    class Pair(types.SimpleNamespace):
        pass

    jax.tree_util.register_pytree_with_keys(
        Pair,
        lambda p: ([(jax.tree_util.GetAttrKey(k), getattr(p, k)) for k in ("s", "a")], None),
        lambda _, leaves: Pair(s=leaves[0], a=leaves[1]),
    )
    ready = started(lambda p: -(p.a**2) - p.s**2, PAIR, start=lambda key: Pair(s=0.0, a=0.0))
    assert np.array_equal(ready.positions, np.stack([PAIR.starts["s"], PAIR.starts["a"]], axis=1))
    assert ready.unravel(ready.positions[3]).a == -3


def test_draws_that_were_loaded_are_variables():
    loaded = Earlier({"scale": np.arange(1.0, 9.0)}, False, frozenset({"scale"}), None)
    parts = dict(start=lambda key: {"log": jnp.zeros(())}, constrain=lambda z: {"scale": jnp.exp(z["log"])})
    ready = started(lambda z: -(z["log"] ** 2), loaded, unconstrain=lambda v: {"log": jnp.log(v["scale"])}, **parts)
    assert np.allclose(ready.positions[:, 0], np.log(np.arange(1.0, 9.0)))
    with pytest.raises(ValueError, match="unconstrain must read keys that are there, which are 'scale'; got 'width'"):
        started(normal, loaded, unconstrain=lambda v: {"log": jnp.log(v["width"])}, **parts)
    with pytest.raises(ValueError, match="initvals of a model that names its variables are dicts of them"):
        started(normal, dataclasses.replace(VECTOR, whole=False), unconstrain=lambda v: v["log"], **parts)
