"""The summary of a run."""

import dataclasses
import inspect

import numpy as np
import pytest

from sahmc.models.positions import named
from sahmc.results import evidence, search
from sahmc.results.evidence import evidence_in_words
from sahmc.results.summary import summarise
from sahmc.results.variables import choose_variables

pytest.importorskip("matplotlib").use("Agg")


def test_summary(result):
    summary = result.summary()
    table = summary.to_dataframe()
    assert list(table.index)[:3] == ["x[0]", "x[1]", "y[0, 0]"] and len(table) == 6
    fine = result.expectation()
    assert np.allclose(table["mean"][:2], fine.mean["x"]) and np.allclose(table["mcse"][:2], fine.mcse["x"])
    assert np.allclose(table["ess"][:2], result.ess()["x"])
    assert (table["hdi_3%"] < table["mean"]).all() and (table["mean"] < table["hdi_97%"]).all()
    text, page = str(summary), summary._repr_html_()
    assert "y[1, 1]" in text and "r_hat" in text and "seed 0" in text and "<table>" in page
    assert all(finding.code in text and finding.code in page for finding in result.findings)
    own = result.summary(lambda p: {"sum": p["x"].sum()}).to_dataframe()
    assert list(own.index) == ["sum"] and np.isclose(own["mean"].iloc[0], fine.mean["x"].sum(), atol=1e-4)
    with pytest.raises(ValueError, match="prob"):
        result.summary(prob=94.0)


def test_the_interval_is_the_shortest_that_holds_enough(result):
    """Of y, a standard normal under the weights: about -1.88 to 1.88; of the raw draws it would be far wider."""
    table = result.summary().to_dataframe().loc["y[0, 0]"]
    assert abs(table["hdi_97%"] - 1.88) < 0.35 and abs(table["hdi_3%"] + 1.88) < 0.35
    assert np.quantile(result.draws["y"][..., 0, 0], 0.97) > 2.3


def test_it_says_what_the_evidence_is_of(result):
    assert result.summary().evidence == ""  # of a ladder that ends in heat, nothing beside it
    whole = "log of the integral of exp(log density) "
    known = dataclasses.replace(result.record, bridge=(-3.21987, 0.0423))
    assert evidence_in_words(known) == whole + "-3.220 +- 0.042"
    assert whole + "-3.220" in str(summarise(known, None, 0.9)) and whole in summarise(known, None, 0.9)._repr_html_()
    unknown = dataclasses.replace(result.record, bridge=(np.nan, np.nan))
    assert evidence_in_words(unknown) == ""


def test_within_a_mode_it_is_of_the_posterior_there(result):
    """Each mode is a Gaussian with a known centre; errors are those of a run whose chains come and go."""
    for mode, row in enumerate(result.modes()):
        summary = result.summary(mode=mode)
        table = summary.to_dataframe()
        centre = min((-6.0, 4.0, 0.0), key=lambda x: abs(x - row.mean["x"][0]))
        assert (abs(table["mean"][:2] - centre) < 4 * table["mcse"][:2]).all()
        assert np.allclose(table["mean"][:2], row.mean["x"]) and np.allclose(table["sd"][:2], row.sd["x"])
        assert (table["hdi_3%"][:2] > centre - 4).all() and (table["hdi_97%"][:2] < centre + 4).all()
        assert f"posterior within mode {mode}, of mass {row.mass:.3f}" in str(summary).replace("\n    ", " ")
    assert result.summary(mode=0).to_dataframe()["ess"].max() < result.summary().to_dataframe()["ess"].max()


@pytest.mark.parametrize("mode", [3, "one", True, 0.0])
def test_a_mode_that_is_not_there_is_refused(result, mode):
    with pytest.raises(ValueError, match=r"label of a mode with draws, which are (-1, )?0, 1, 2"):
        inspect.unwrap(summarise)(result.record, None, 0.9, mode=mode)
    with pytest.raises(ValueError, match="did not look for modes"):
        summarise(dataclasses.replace(result.record, modes=None), None, 0.9, mode=0)


def test_variables_are_chosen_as_arviz_does(result):
    def rows(*names, fn=None):
        return list(result.summary(fn, var_names=list(names)).names)

    x, y = ["x[0]", "x[1]"], ["y[0, 0]", "y[0, 1]", "y[1, 0]", "y[1, 1]"]
    assert rows("x") == x == list(result.summary(var_names="x").names) and rows("~x") == y
    assert rows("y", "x") == [*y, *x] and rows("y", "x", "~x") == y
    assert rows("b", fn=lambda p: {"a": p["x"].sum(), "b": p["x"]}) == ["b[0]", "b[1]"]
    with pytest.raises(ValueError, match=r"variables of the draws, 'x', 'y'.*got \['z'\]"):
        rows("z")
    for bad in (["~x", "~y"], 3, [0]):
        with pytest.raises(ValueError, match="var_names must be"):
            inspect.unwrap(choose_variables)(named(result.draws), bad)
    with pytest.raises(ValueError, match="var_names must be"):
        result.summary(var_names=["~x", "~y"])


def test_coords_are_in_every_name(result):
    axes = {"axis": ["east", "north, by <some> distance that is rather long"]}
    with_names = result.assign_coords(axes, {"x": ["axis"], "y": ["axis", "other"]})
    summary = with_names.summary()
    assert list(summary.names[:3]) == ["x[east]", f"x[{axes['axis'][1]}]", "y[east, 0]"]
    assert max(map(len, str(summary).splitlines())) <= 80
    assert "x[north, by &lt;some&gt; distance" in summary._repr_html_() and "<some>" not in summary._repr_html_()
    assert list(with_names.to_datatree().posterior.coords["axis"].values) == axes["axis"]
    assert result.summary().names[0] == "x[0]"  # the one it was made of stays as it was
    for coords, dims, word in (({"axis": ["a"]}, {"x": ["axis"]}, "2 names"), ({"place": ["a", "b"]}, {}, "dimension")):
        with pytest.raises(ValueError, match=word):
            result.assign_coords(coords, dims)


@pytest.mark.parametrize("every", [3, None, "ab", (1,), (0, 1), (1, 0.5), np.ones(3, int)])
def test_membership_takes_a_pair_of_counts(result, every):
    with pytest.raises(ValueError, match=r"every must be.*To fix it"):
        inspect.unwrap(evidence.membership)(result.record, every)


@pytest.mark.parametrize("total", [None, "x", 10**400, [1.0, 2.0], np.nan])
def test_log_omega_takes_a_number(result, total):
    with pytest.raises(ValueError, match=r"log_total must be a number.*To fix it"):
        inspect.unwrap(evidence.log_omega)(result.record, total)


@pytest.mark.parametrize("place", ["beside", 3, np.zeros(2)])
def test_search_power_takes_a_place(result, place):
    with pytest.raises(ValueError, match=r"place must be one of.*To fix it"):
        inspect.unwrap(search.search_power)(result.record, 0.1, 0.3, place)
