import numpy as np
import pytest

from sahmc import Gain


def test_paper_gain_is_t0_over_max_t0_t():
    t = np.arange(1, 3000)
    assert np.allclose([Gain(100.0)(int(k)) for k in t[::97]], 100.0 / np.maximum(100.0, t[::97]))


def test_power_form():
    assert np.isclose(Gain(10.0, power=0.75)(1000), 0.01**0.75)


@pytest.mark.parametrize("power", [0.5, 0.2, 1.1, 2.0, 0.0, -1.0, float("nan")])
def test_gains_outside_robbins_monro_are_refused(power):
    with pytest.raises(ValueError, match="Robbins-Monro"):
        Gain(10.0, power=power)


@pytest.mark.parametrize("t0", [0.0, 0.5, -3.0, float("nan")])
def test_t0_below_one_is_refused(t0):
    with pytest.raises(ValueError, match="t0"):
        Gain(t0)
