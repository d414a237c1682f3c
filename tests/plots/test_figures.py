"""Plots draw."""

import inspect

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


@pytest.mark.newest
@pytest.mark.parametrize("name", ["tempered", "none", "paper"])
def test_every_plot_draws(runs, name):
    for plot in PLOTS:
        ax = plot(runs[name])
        assert ax.get_title() and ax.get_xlabel() and ax.get_ylabel()
        assert ax.collections or ax.lines or ax.patches
    if name == "tempered":
        assert "Barrier" in sahmc.plot_ladder(runs[name]).get_title()
        assert "within mode 1" in runs[name].plot_pair(mode=1).get_title()
        assert "within mode 1" in runs[name].plot_overview(mode=1).axes[2].get_title()
    figure = sahmc.plot_overview(runs[name])
    assert len(figure.axes) == 6
    matplotlib.pyplot.close("all")


def test_variables_are_chosen_by_name_and_shown_with_their_coords(runs):
    result = runs["tempered"].assign_coords({"axis": ["east", "north"]}, {"x": ["axis"]})
    assert [ax.get_xlabel() for ax in result.plot_marginal(var_names="x").flat] == ["x[east]", "x[north]"]
    assert result.plot_pair(var_names=["x"]).get_ylabel() == "x[north]"
    for plot in (result.plot_pair, result.plot_marginal, result.plot_overview):
        with pytest.raises(ValueError, match="var_names must be"):
            plot(var_names=["z"])
        with pytest.raises(ValueError, match="mode must be"):
            plot(mode=9)
    assert result.plot_ladder().get_title() == sahmc.plot_ladder(result).get_title()
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize("chains", ["x", 0, 0.5, None])
def test_round_trips_are_of_a_number_of_chains(runs, chains):
    with pytest.raises(ValueError, match="chains must be a whole number"):
        inspect.unwrap(sahmc.plot_round_trips)(runs["tempered"], chains=chains)
