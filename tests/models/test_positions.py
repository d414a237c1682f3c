"""Names of the numbers in a draw."""

import numpy as np

from sahmc.models.model import Labels
from sahmc.models.positions import labels, numbered, untransformed

KNOWN = Labels(
    coords={"county": ["Aitkin", "Anoka"], "day": np.array(["2024-05-01", "2024-05-02"], "M8[ns]"), "size": [0.1, 2.0]},
    dims={"a": ["county"], "b": ["county", "b_dim_1"], "c": ["day", "size"], "d": ["county"]},
)


def test_coords_take_the_place_of_indices():
    draws = {"a": np.zeros((4, 7, 2)), "b": np.zeros((4, 7, 2, 1)), "e": np.zeros((4, 7)), "f": np.zeros((4, 7, 1))}
    assert labels(draws, 2, KNOWN) == ["a[Aitkin]", "a[Anoka]", "b[Aitkin, 0]", "b[Anoka, 0]", "e", "f[0]"]
    assert labels(draws, 2) == ["a[0]", "a[1]", "b[0, 0]", "b[1, 0]", "e", "f[0]"]


def test_dates_and_numbers_are_short():
    assert numbered("c", (2, 2), KNOWN)[:2] == ["c[2024-05-01, 0.1]", "c[2024-05-01, 2]"]


def test_coords_that_do_not_fit_are_left_alone():
    assert numbered("d", (3,), KNOWN) == ["d[0]", "d[1]", "d[2]"]
    assert numbered("a", (2, 2), KNOWN) == ["a[Aitkin, 0]", "a[Aitkin, 1]", "a[Anoka, 0]", "a[Anoka, 1]"]


def test_an_unconstrained_value_is_called_as_its_variable():
    names = ["tau_log__", "chol_cholesky-cov-packed__", "log_tau", "x__"]
    assert [untransformed(name) for name in names] == ["tau", "chol", "log_tau", "x__"]
