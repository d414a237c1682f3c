"""A result as it prints itself."""

import dataclasses

from sahmc.results.records import Finding
from sahmc.results.result import Result


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
