"""Plots draw."""

import pytest

import sahmc

matplotlib = pytest.importorskip("matplotlib")


matplotlib.use("Agg")


PLOTS = (
    sahmc.plot_energy,
    sahmc.plot_visits,
    sahmc.plot_theta,
    sahmc.plot_round_trips,
    sahmc.plot_pair,
    sahmc.plot_marginal,
)


@pytest.mark.parametrize("name", ["tempered", "none", "paper"])
def test_every_plot_draws(runs, name):
    for plot in PLOTS:
        ax = plot(runs[name])
        assert ax.get_title() and ax.get_xlabel() and ax.get_ylabel()
        assert ax.collections or ax.lines or ax.patches
    if name == "tempered":
        assert "Barrier" in sahmc.plot_ladder(runs[name]).get_title()
    figure = sahmc.plot_overview(runs[name])
    assert len(figure.axes) == 6
    matplotlib.pyplot.close("all")
