"""The picture of a barrier."""

import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

import sahmc
from sahmc.barrier.barrier import EnergyBarrier
from sahmc.plots.data import barrier_curves


def made_up(tilted):
    """Distance 0, 1, 2, 3; over 9 down to -1, or over 4 with the top elsewhere."""
    energy = np.array([2.0, 11.0, 6.0, 1.0])
    after = np.array([5.0, 6.0, 9.0, 4.0]) if tilted else None
    line = np.arange(4.0)
    return EnergyBarrier(line[:, None], line, energy, after, line[1:2], 11.0, 9.0, 4.0 if tilted else None, False, 7)


def test_curves_begin_at_zero_and_rise_to_their_heights():
    before, after = barrier_curves(made_up(True))
    assert before.energy.tolist() == [0, 9, 4, -1] and before.peak == (1.0, 9.0)
    assert after.energy.tolist() == [0, 1, 4, -1] and after.peak == (2.0, 4.0)
    assert len(barrier_curves(made_up(False))) == 1


def test_the_picture_shows_both_heights_on_the_axes_given():
    axes = Figure().subplots()
    assert sahmc.plot_barrier(made_up(True), axes) is axes
    assert [text.get_text() for text in axes.texts] == ["9.0", "4.0", "x1", "x2"]
    assert len(axes.get_legend().get_texts()) == 2 and "not converged" in axes.get_xlabel()


def test_without_matplotlib_the_picture_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ValueError, match=r"sahmc\[plots\]"):
        sahmc.plot_barrier(made_up(False))
