"""The paper's experiments: what is remembered, and that the small ones run."""

import csv
import json

import numpy as np
import pytest

from sahmc.cli.main import main
from sahmc.paper import NAMES, eight_modes, methods, mixture, pima, stan
from sahmc.paper.experiment import Book, find
from sahmc.paper.pima_data import NoDataError, load_pima, parse_pima
from sahmc.paper.two_stage import partition_of

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


def made_up_patients(size=60):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(size, 8)).round(3)
    return x, (x[:, 1] + 0.5 * rng.normal(size=size) > 0).astype(int)


def test_patients_are_read_from_csv_and_arff_alike(tmp_path):
    x, y = made_up_patients()
    rows = [",".join(map(str, row)) for row in x]
    as_csv = "a,b,c,d,e,f,g,h,class\n" + "\n".join(
        f"{row},{'pos' if k else 'neg'}" for row, k in zip(rows, y, strict=True)
    )
    words = ("tested_negative", "tested_positive")
    as_arff = "% made up\n@relation pima\n@attribute a real\n@data\n" + "\n".join(
        f"{row},{words[k]}" for row, k in zip(rows, y, strict=True)
    )
    for text in (as_csv, as_arff):
        read = parse_pima(text)
        assert np.allclose(read.x, x) and np.array_equal(read.y, y) and not read.as_published
    with pytest.raises(NoDataError, match="line 3 must hold eight numbers"):
        parse_pima("1,2,3,4,5,6,7,8,0\n1,2,3,4,5,6,7,8,1\n1,2,3,4,5,6,seven,8,1\n")
    with pytest.raises(NoDataError, match="at least 20 rows"):
        parse_pima("\n".join(as_csv.splitlines()[:10]))


def test_without_data_it_says_how_to_get_them(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sahmc.paper.pima_data.OPENML", (tmp_path / "nowhere").as_uri())
    with pytest.raises(NoDataError, match="--data FILE"):
        load_pima()
    assert main(["paper", "run", "pima", "--quick", "--out", str(tmp_path / "out")]) == 2
    assert "openml.org" in capsys.readouterr().err
    (tmp_path / "wrong").write_text("\n".join("1,2,3,4,5,6,7,8,0" for _ in range(30)))
    monkeypatch.setattr("sahmc.paper.pima_data.OPENML", (tmp_path / "wrong").as_uri())
    with pytest.raises(NoDataError, match="checksum"):
        load_pima()


def test_splits_share_no_rows_and_the_logistic_regression_is_right():
    x, y = made_up_patients(400)
    (train, labels, new), truth = pima.splits(pima.PimaData(x, y, False), 2)
    assert (
        train.shape == (2, 360, 8) and new.shape == (2, 40, 8) and labels.shape == (2, 360) and truth.shape == (2, 40)
    )
    assert int(labels[0].sum() + truth[0].sum()) == y.sum()
    assert np.allclose(np.asarray(train[0]).std(axis=0), 1, atol=1e-3)
    fitted = pima.logistic_regression(
        *(np.asarray(part[0], float) for part in (train, labels)), np.asarray(train[0], float)
    )
    score = np.asarray(train[0], float).T @ (np.asarray(labels[0]) - fitted)  # zero at the maximum of the likelihood
    assert np.abs(score).max() < 1e-6
    guess = pima.logistic_regression(*(np.asarray(part[0], float) for part in (train, labels, new))) > 0.5
    assert (guess != truth[0]).mean() < 0.25


def test_the_spectral_ess_is_right_where_lags_suffice_and_too_high_where_not():
    rng = np.random.default_rng(0)
    size = 100_000
    for rho in (0.0, 0.5, 0.9):
        noise = rng.normal(size=size)
        x = np.empty(size)
        x[0] = noise[0]
        for t in range(1, size):
            x[t] = rho * x[t - 1] + np.sqrt(1 - rho**2) * noise[t]
        found = methods.spectral_ess(x[None, :, None])[0, 0]
        assert found == pytest.approx(size * (1 - rho) / (1 + rho), rel=0.1)
    switching = np.cumprod(np.where(rng.random(size) < 1e-4, -1.0, 1.0)) * 0.3 + rng.normal(size=size)
    by_all_lags = methods.raw_ess(switching[None, :, None])[0, 0]
    assert 10 * by_all_lags < methods.spectral_ess(switching[None, :, None])[0, 0]


def test_the_first_stage_gives_edges_over_what_it_saw():
    edges = np.asarray(partition_of(np.array([3.0, 9.5, 4.0])).edges)
    assert edges[0] == 5.0 and np.allclose(np.diff(edges), 2.0) and edges[-1] >= 9.5


def test_stan_is_left_out_where_there_is_no_r(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert not stan.has_stan()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_small_version_runs_and_leaves_no_blank(name, tmp_path):
    data = tmp_path / "patients.csv"
    x, y = made_up_patients(200)
    data.write_text("\n".join(",".join(map(str, (*row, k))) for row, k in zip(x, y, strict=True)))
    where = ["--out", str(tmp_path), "--data", str(data)]
    assert main(["paper", "run", name, "--quick", "--seeds", "2", *where]) == 0
    tables = list((tmp_path / name).glob("*.csv"))
    assert tables
    for table in tables:
        head, *body = csv.reader(table.open())
        assert len(body) > 1 and all(len(row) == len(head) and all(row) for row in body)
        text = table.with_suffix(".md").read_text()
        assert "nan" not in text and "inf" not in text.replace("influence", "") and "sahmc" in text
    for picture in (tmp_path / name).glob("*.png"):
        assert picture.stat().st_size > 20_000


@pytest.mark.slow
def test_the_small_mixture_shows_what_the_paper_is_about(tmp_path, monkeypatch):
    monkeypatch.setattr(mixture, "QUICK", 100)
    assert main(["paper", "run", "mixture", "--quick", "--seeds", "3", "--out", str(tmp_path)]) == 0
    rows = list(csv.reader((tmp_path / "mixture" / "mixture-masses.csv").open()))[1:]
    error = {(row[0], row[1]): float(row[-2]) for row in rows}
    assert error["set 2", "HMC"] > 0.2 > 5 * error["set 2", "our default"]
