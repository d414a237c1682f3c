"""What a run says of its search for modes."""

import dataclasses

import jax.numpy as jnp
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


def with_power(record, *shares, **known):
    """Return a record whose search would have found these shares of needles inside modes, near them and far away."""
    found = tuple(((share, share), (share, share)) for share in shares)
    power = SearchPower((0.1, 1.0), (-7.0, 7.0), found, probes=100, dim=3, **known)
    return dataclasses.replace(record, warmup=dataclasses.replace(record.warmup, power=power))


def test_the_probability_is_told_and_survives_a_file(result, tmp_path):
    assert 0.0 <= result.search_power(0.1, 0.2, "near") <= result.search_power(0.1, 0.5, "near") <= 1.0
    result.save(tmp_path / "run.nc")
    again = sahmc.Result.load(tmp_path / "run.nc")
    np.testing.assert_equal(dataclasses.asdict(again.warmup.power), dataclasses.asdict(result.warmup.power))
    assert again.search_power() == result.search_power()
    said = f"found with probability {result.search_power(0.25, 0.5):.2f} within ten widths of one"
    shown = " ".join(str(result.summary()).split())
    assert said in shown and said in result.summary()._repr_html_() and "10 to 100" not in shown


@pytest.mark.parametrize(("mass", "width"), [(0.0, 0.5), (1.0, 0.5), (0.1, 0.0), (0.1, -1.0)])
def test_what_is_no_needle_is_refused(result, mass, width):
    with pytest.raises(ValueError, match="mass must lie in" if width == 0.5 else "width must be a positive number"):
        result.search_power(mass, width)
    with pytest.raises(ValueError, match="place must be one of inside, near, far or None"):
        result.search_power(place="beside")


def test_a_run_that_did_not_look_says_so():
    plain = sahmc.sample(log_density, np.zeros(3, np.float32), draws=20, tune=20, chains=2, tilt="none", random_seed=0)
    with pytest.raises(ValueError, match="needs a run that looked for modes"):
        plain.search_power()
    assert search_in_words(plain.record) == "" and not list(check_search(plain.record))


def test_a_weak_search_is_a_finding_and_a_strong_one_is_not(result):
    (found,) = check_search(with_power(result.record, 0.9, 0.1, 0.9))
    assert found.code == "search" and found.severity == "warning" and "probability 0.10 only" in found.sentence
    assert "up to ten widths from one" in found.sentence
    assert not list(check_search(with_power(result.record, 0.9, 0.9, 0.9)))


@pytest.mark.parametrize("slope", [0.0, 1.0])
def test_of_a_plateau_nothing_is_stated(slope):
    """Gradients of a uniform density are zero, so probes show nothing: a second box could be anywhere."""

    def box(x):
        return jnp.where(jnp.all(jnp.abs(x) < 1), -0.5 * slope * x[0] ** 2, -jnp.inf)

    with pytest.warns(UserWarning, match="flat inside the known modes"):
        result = sahmc.sample(box, jnp.zeros(2), draws=100, tune=100, random_seed=0, progressbar=False)
    assert np.isnan(result.search_power(0.25, 0.5)) and "cannot be estimated" in search_in_words(result.record)


def test_places_far_away_count_where_known_modes_are_far_apart(result):
    assert not list(check_search(with_power(result.record, 0.9, 0.9, 0.1, furthest=5.0)))
    (found,) = check_search(with_power(result.record, 0.9, 0.9, 0.1, furthest=50.0))
    assert "10 to 100 widths from one" in found.sentence
    words = [search_in_words(with_power(result.record, 0.9, 0.8, 0.1, furthest=apart)) for apart in (5.0, 50.0)]
    assert words[0].endswith("0.80 within ten widths of one")
    assert words[1].endswith("0.80 within ten widths of one, 0.10 at 10 to 100 widths")


@pytest.mark.parametrize(
    ("dim", "narrowest", "width"),
    [(2, 1.0, 0.5), (2, 0.1, 1 / 3), (8, 1.0, 0.5623), (8, 0.4, 1 / 3), (8, 0.8, 0.4499), (20, 0.1, 0.631)],
)
def test_the_needle_is_as_narrow_as_modes_are(dim, narrowest, width):
    power = SearchPower((0.1, 1.0), (-7.0, 7.0), (((0.0, 0.0), (0.0, 0.0)),) * 3, 9, dim, narrowest=narrowest)
    assert power.needle == pytest.approx(width, rel=1e-3)


def test_interpolation_is_between_neighbours():
    table = (0.0, 0.2), (0.4, 0.6), (0.8, 1.0)
    power = SearchPower((0.25, 0.5, 1.0), (-2.0, 2.0), (((1.0, 1.0),) * 3, table, table), probes=9, dim=2)
    assert power.at(0.5, 0.5) == power.at(0.5, 0.5, "near") == pytest.approx(0.5)
    assert power.at(0.5, 0.5**1.5) == pytest.approx(0.3) and power.at(0.5, 0.5, "inside") == 1.0
    assert power.at(0.999, 1.0) == pytest.approx(1.0) and power.at(0.5, 0.1) == 0.0
    assert np.isnan(power.at(0.5, 1.5))  # not measured


def test_modes_that_descents_hardly_reach_are_a_finding(result):
    """A search that reached no mode three times may have missed others; a few descents show nothing."""
    (found,) = check_search(with_power(result.record, 0.9, 0.9, 0.9, descents=600, arrivals=1))
    assert (
        found.code == "search" and "Of 600 descents from hot points, 1 ended in the same known mode" in found.sentence
    )
    for descents, arrivals in ((600, 3), (20, 1)):
        assert not list(check_search(with_power(result.record, 0.9, 0.9, 0.9, descents=descents, arrivals=arrivals)))


def test_descents_of_two_searches_add_up(result):
    """The second one, after a second pilot, reached hardly any mode, and the first one did."""
    first, second = (
        with_power(result.record, 0.9, 0.9, 0.9, descents=descents, arrivals=arrivals).warmup.power
        for descents, arrivals in ((200, 4), (600, 1))
    )
    both = second.after(first)
    assert second.rugged and not both.rugged and (both.descents, both.arrivals) == (800, 5)
