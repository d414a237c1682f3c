"""The record of a run is plain data that nothing changes."""

import dataclasses
import pickle
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from records import differences, parts

import sahmc
from sahmc._support.frozen import FrozenDict, frozen, thawed


@pytest.fixture(scope="module")
def result():
    """A run whose partition is given, so that it has not looked for modes; its position is a dict."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sahmc.sample(
            lambda p: jnp.logaddexp(-0.5 * (p["x"] - 4) ** 2, -0.5 * (p["x"] + 4) ** 2),
            {"x": 0.0},
            partition=sahmc.TemperatureLadder.geometric(20, 4),
            draws=100,
            tune=100,
            chains=8,
            random_seed=0,
            progressbar=False,
        )


def test_no_array_can_be_written_to(result):
    arrays = {name: value for name, value in parts(result.record) if isinstance(value, np.ndarray)}
    assert len(arrays) > 15
    writable = [name for name, value in arrays.items() if value.flags.writeable and not name.startswith("record.tilt")]
    assert writable == []
    with pytest.raises(ValueError, match="read-only"):
        result.theta[0] = 1.0


def test_no_container_can_be_changed(result):
    before = dict(parts(result.record))
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.record.findings = ()
    with pytest.raises(TypeError):
        result.record.settings["random_seed"] = 1
    with pytest.raises(TypeError):
        result.warmup.gradients["pilot"] = 0
    result.draws["x"] = None
    result.settings["versions"]["sahmc"] = "other"
    assert all(
        np.array_equal(value, before[name], equal_nan=True)
        for name, value in parts(result.record)
        if isinstance(value, np.ndarray) and value.dtype.kind == "f"
    )
    assert result.draws["x"].shape == (8, 100) and result.settings["versions"]["sahmc"] == sahmc.__version__


def test_asking_for_modes_changes_nothing(result):
    """What ``modes()`` finds is not written into the result, nor from there into the tree."""
    assert result.mode_assignment is None
    before = result.to_datatree()
    table = result.modes()
    after = result.to_datatree()
    assert len(table) == 2 and result.mode_assignment is None
    for group in before.children:
        assert set(before[group].data_vars) == set(after[group].data_vars), group
        for name in before[group].data_vars:
            assert np.array_equal(before[group][name], after[group][name], equal_nan=True), (group, name)
    assert str(result.modes()) == str(table)


def test_the_record_can_be_pickled_and_the_model_stays_behind(result):
    back = pickle.loads(pickle.dumps(result))
    assert differences(back.record, result.record) == [] and back.live is None
    with pytest.raises(ValueError, match="needs the run that made the draws"):
        back.modes()


def test_a_difference_is_seen(result):
    other = dataclasses.replace(result.record, round_trips=result.round_trips + 1)
    assert differences(result.record, other) == ["record.round_trips"]
    single = dataclasses.replace(result.record, round_trips=result.round_trips.astype(np.int16))
    assert differences(result.record, single) == ["record.round_trips"]


def test_the_callers_own_arrays_stay_as_they_were():
    mine = np.zeros(3)
    held = frozen({"a": [mine], "b": {"c": 1}})
    assert mine.flags.writeable and not held["a"][0].flags.writeable and isinstance(held["b"], FrozenDict)
    assert thawed(held)["b"] == {"c": 1} and jax.tree.leaves(thawed(held)["a"])[0] is held["a"][0]
