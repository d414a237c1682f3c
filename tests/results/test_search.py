"""What a run says of its search for modes."""

import dataclasses

import numpy as np
import pytest

import sahmc
from sahmc.results.search import check_search, search_in_words
from sahmc.results.warmup_record import SearchPower


def log_density(x):
    return -0.5 * (x**2).sum()


@pytest.fixture(scope="module")
def result():
    return sahmc.sample(log_density, np.zeros(3, np.float32), draws=100, tune=100, chains=8, random_seed=0)


def with_power(record, share):
    power = SearchPower((0.1, 1.0), (-7.0, 7.0), ((share, share), (share, share)), probes=100, dim=3)
    return dataclasses.replace(record, warmup=dataclasses.replace(record.warmup, power=power))


def test_the_probability_is_told_and_survives_a_file(result, tmp_path):
    assert 0.0 <= result.search_power(0.1, 0.2) <= result.search_power(0.1, 0.5) <= 1.0
    result.save(tmp_path / "run.nc")
    again = sahmc.Result.load(tmp_path / "run.nc")
    assert again.warmup.power == result.warmup.power and again.search_power() == result.search_power()
    said = f"would have been found with probability {result.search_power():.2f}"
    assert said in " ".join(str(result.summary()).split()) and said in result.summary()._repr_html_()


@pytest.mark.parametrize(("mass", "width"), [(0.0, 0.5), (1.0, 0.5), (0.1, 0.0), (0.1, -1.0)])
def test_what_is_no_needle_is_refused(result, mass, width):
    with pytest.raises(ValueError, match="mass must lie in" if width == 0.5 else "width must be a positive number"):
        result.search_power(mass, width)


def test_a_run_that_did_not_look_says_so():
    plain = sahmc.sample(log_density, np.zeros(3, np.float32), draws=20, tune=20, chains=2, tilt="none", random_seed=0)
    with pytest.raises(ValueError, match="needs a run that looked for modes"):
        plain.search_power()
    assert search_in_words(plain.record) == "" and not list(check_search(plain.record))


def test_a_weak_search_is_a_finding_and_a_strong_one_is_not(result):
    (found,) = check_search(with_power(result.record, 0.1))
    assert found.code == "search" and found.severity == "warning" and "probability 0.10 only" in found.sentence
    assert not list(check_search(with_power(result.record, 0.9)))


def test_interpolation_is_between_neighbours():
    power = SearchPower((0.25, 0.5, 1.0), (-2.0, 2.0), ((0.0, 0.2), (0.4, 0.6), (0.8, 1.0)), probes=9, dim=2)
    assert power.at(0.5, 0.5) == pytest.approx(0.5)
    assert power.at(0.5, 0.5**1.5) == pytest.approx(0.3)
    assert power.at(0.999, 4.0) == pytest.approx(1.0) and power.at(0.5, 0.1) == 0.0
