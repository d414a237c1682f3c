"""A result as it prints itself."""

import dataclasses

from sahmc.results.records import Finding
from sahmc.results.result import Result
from sahmc.results.summary import overview


def test_it_fits_a_terminal_and_says_the_essentials(result):
    text = repr(result)
    assert max(map(len, text.splitlines())) <= 80
    assert all(word in text for word in ("8 chains of 400 draws", "x (2,) and y (2, 2)", "3, of mass 0.", "seed 0"))
    one = dataclasses.replace(result.record, findings=(Finding("drift", "warning", "a", 0.0, "b"),))
    assert "1 warning (drift)" in repr(Result(one)) and "findings    none" in repr(
        Result(dataclasses.replace(one, findings=()))
    )


def test_a_notebook_shows_a_table_with_nothing_in_it_that_runs(result):
    bad = "<script>alert(1)</script>"
    record = dataclasses.replace(result.record, settings={**result.record.settings, "kernel": bad})
    page = Result(record)._repr_html_()
    assert "<table>" in page and "<script" not in page and "&lt;script&gt;" in page


def test_divergences_that_are_no_finding_are_said_to_be_hot(result):
    def told(all_of_them, cold):
        counts = result.record.counts._replace(diverging=all_of_them, cold_diverging=cold)
        return overview(dataclasses.replace(result.record, counts=counts))["moves"]

    assert "no divergences, weight" in told(0, 0)
    assert "12 divergences (hot levels), weight" in told(12, 0)
    assert "12 divergences (9 of them on hot levels), weight" in told(12, 3)
    assert "12 divergences, weight" in told(12, 12)
