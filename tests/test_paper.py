"""The paper's experiments: what is remembered, and that the small ones run."""

import csv
import json

import numpy as np
import pytest

from sahmc.cli import main
from sahmc.paper import NAMES, eight_modes, find, mixture
from sahmc.paper.experiment import Book

pytest.importorskip("matplotlib").use("Agg")


def test_every_experiment_has_a_file_and_a_line_in_the_list(capsys):
    assert main(["paper", "list"]) == 0
    listed = capsys.readouterr().out
    for name in NAMES:
        assert find(name).name == name and name in listed


def test_published_numbers_are_complete():
    assert set(mixture.PUBLISHED) == {(s, m) for s in mixture.SETS for m in ("HMC", "SAHMC", "NUTS")}
    assert set(eight_modes.PUBLISHED) == {(d, m) for d in eight_modes.SETUP for m in ("HMC", "SAHMC", "NUTS")}


def test_cells_are_computed_once_for_the_same_settings(tmp_path):
    calls = []

    def compute(size):
        calls.append(size)
        return {"mean": size / 2, "draws": np.arange(size)}

    book = Book(tmp_path, quick=True, seeds=1)
    first = book.cell("one", compute, size=4)
    again = Book(tmp_path, quick=True, seeds=1).cell("one", compute, size=4)
    assert calls == [4] and again["mean"] == first["mean"] == 2 and np.array_equal(again["draws"], np.arange(4))
    assert book.cell("one", compute, size=6)["mean"] == 3 and calls == [4, 6]
    known = json.loads((tmp_path / "cells" / "one.json").read_text())
    assert known["settings"]["size"] == 6 and "jax" in known["hardware"]


@pytest.mark.slow
def test_the_small_mixture_runs_and_shows_what_the_paper_is_about(tmp_path, monkeypatch):
    monkeypatch.setattr(mixture, "QUICK", 100)
    assert main(["paper", "run", "mixture", "--quick", "--seeds", "3", "--out", str(tmp_path)]) == 0
    rows = list(csv.reader((tmp_path / "mixture" / "mixture.csv").open()))
    head, body = rows[0], rows[1:]
    assert len(body) == 16 and all(len(row) == len(head) for row in body)
    error = {(row[0], row[2]): float(row[-1]) for row in body}
    assert error["set 2", "HMC"] > 0.2 > 5 * error["set 2", "our default"]
    assert (tmp_path / "mixture" / "mixture.png").stat().st_size > 20_000
    text = (tmp_path / "mixture" / "mixture.md").read_text()
    assert "nan" not in text and "sahmc" in text
