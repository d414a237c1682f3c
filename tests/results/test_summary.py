"""The summary of a run."""

import dataclasses

import numpy as np
import pytest

from sahmc.results.evidence import evidence_in_words
from sahmc.results.summary import summarise

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
    whole = "log of the integral of exp(log density): "
    known = dataclasses.replace(result.record, bridge=(-3.21987, 0.0423))
    assert evidence_in_words(known) == whole + "-3.220 +- 0.042"
    assert whole + "-3.220" in str(summarise(known, None, 0.9)) and whole in summarise(known, None, 0.9)._repr_html_()
    unknown = dataclasses.replace(result.record, bridge=(np.nan, np.nan))
    assert evidence_in_words(unknown) == whole + "not known, see the findings"
