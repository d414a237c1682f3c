"""Posteriors of posteriordb, nothing set, against its reference draws: three here, all of them in the slow tests."""

import csv
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import posteriordb
import posteriordb_models
import pytest

import sahmc

BENCHMARK = Path(posteriordb.__file__)
QUICK = ("sblrc-blr", "arma-arma11", "eight_schools-eight_schools_noncentered")
NO_ALARM = {"low_dim_gauss_mix-unordered", *posteriordb_models.posteriors()} - {
    "eight_schools-eight_schools_centered",  # a funnel
    "normal_5-normal_mixture_k",  # 120 copies, and minor modes
    "soil_carbon-soil_incubation",  # bent modes
    "gp_pois_regr-gp_pois_regr",  # a funnel
}
"""The posteriors in whose runs no finding of severity "error" is known."""


@pytest.mark.parametrize("name", QUICK)
def test_means_and_squares_are_those_of_the_reference(name):
    posterior = posteriordb_models.load(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = sahmc.sample(posterior.model, model_args=posterior.args, random_seed=0, progressbar=False)
    assert result.findings == ()
    mean, mcse = result.expectation(posteriordb.measured(posterior.quantities))
    assert posteriordb.largest_z(name, mean, mcse)[0] < 4
    key, (truth, error) = next(iter(posteriordb.known(name).items()))
    broken = {**mean, key: truth + 5 * np.hypot(error, mcse[key])}  # the broken twin
    assert posteriordb.largest_z(name, broken, mcse)[0] > 4
    exact = posteriordb.evidence_truth(name) if name == "sblrc-blr" else None
    if exact is not None:
        found = result.log_evidence()
        assert abs(found.mean - exact) < 4 * found.mcse and found.mcse < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(posteriordb_models.posteriors()))
def test_every_posterior_is_that_of_its_reference(name, tmp_path):
    out = tmp_path / "rows.csv"
    command = [
        sys.executable,
        str(BENCHMARK),
        "run",
        "--models",
        name,
        "--seeds",
        "1",
        "--jobs",
        "1",
        "--out",
        str(out),
    ]
    subprocess.run(command, check=True)
    with out.open() as file:
        (row,) = csv.DictReader(file)
    assert row["exception"] == "" and float(row["z"]) <= 4
    assert row["errors"] == "" or name not in NO_ALARM
