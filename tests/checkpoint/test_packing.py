"""Records become bytes and come back the same; nothing else does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sahmc
from sahmc._support.frozen import FrozenDict
from sahmc.checkpoint.packing import pack, unpack
from sahmc.results.records import Counts, Finding
from sahmc.results.warmup_record import Rung
from sahmc.tilt.tilts import TemperedTilt


def test_values_come_back_as_they_were():
    value = {
        "plain": [None, True, 3, -0.1, float("inf"), "word"],
        "tuple": (1, (2.5, [])),
        "array": np.arange(6, dtype=np.int16).reshape(2, 3),
        "number": np.float32(0.1),
        "flag": np.bool_(True),
        "frozen": FrozenDict({"a": (1,)}),
        "records": (Finding("rhat", "error", "It is high.", 1.2, "Draw more."), Counts(*range(9))),
        "rung": Rung(0.5, 1.0, 2.0, 0.1, 1.0, float("nan")),
    }
    back = unpack(pack(value))
    assert back["plain"] == value["plain"] and back["tuple"] == value["tuple"] and back["records"] == value["records"]
    assert np.array_equal(back["array"], value["array"]) and back["array"].dtype == np.int16
    assert type(back["number"]) is np.float32 and back["number"] == value["number"] and type(back["flag"]) is np.bool_
    assert back["frozen"] == {"a": (1,)} and type(back["records"][0]) is Finding
    assert np.isnan(back["rung"].memory) and back["rung"].beta == 0.5


def test_a_tilt_comes_back_with_arrays_of_jax():
    tilt = TemperedTilt(sahmc.TemperatureLadder.geometric(30.0, 5))
    back = unpack(pack(tilt))
    assert type(back) is TemperedTilt and isinstance(back.partition.betas, jax.Array)
    assert jnp.array_equal(back.partition.betas, tilt.partition.betas)


class Finding2(Finding):
    """A class that is not known."""


@pytest.mark.parametrize("value", [{1, 2}, print, np.array([None]), Finding2("a", "b", "c", 1.0, "d"), 1j])
def test_what_is_not_data_of_ours_is_refused(value):
    with pytest.raises(TypeError):
        pack({"deep": [value]})


def test_bytes_that_name_another_class_make_nothing(monkeypatch):
    content = pack(Counts(*range(9)))
    monkeypatch.setattr("sahmc.checkpoint.packing.RECORDS", ())
    with pytest.raises(KeyError):
        unpack(content)
