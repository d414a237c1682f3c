"""Tables that fit a terminal, and numbers as they are printed."""

import numpy as np
import pytest

from sahmc._support.tables import Table, digits_for, number, shortened, to_places_of
from sahmc._support.words import WIDTH, counted, listed, wrapped


def test_a_zero_has_no_sign():
    assert number(-0.0) == "0.00" and to_places_of(0.5, -0.001) == ["0.00"]
    assert number(-1.5) == "-1.50" and number(float("nan")) == "-"


def test_a_number_shows_its_spread():
    assert number(1.31178, digits_for(1.31178, 0.0038)) == "1.3118" and number(12345.678, 8) == "12345.678"
    assert digits_for(0.24, 0.57) == 3 == digits_for(0.0, 1.0) and digits_for(1e6, 1e-9) == 9


def test_a_mean_has_the_digits_of_its_error():
    assert to_places_of(0.0044, 0.31472, 1.3) == ["0.3147", "1.3000"]
    assert to_places_of(250.0, 12345.678) == ["12346"] and to_places_of(0.0, 2.5) == ["2.50"]


@pytest.mark.parametrize("width", [8, 14, 26, 40])
def test_short_names_are_short_and_still_differ(width):
    places = ["Aitkin County", "Anoka", "Lac qui Parle County, Minnesota", "Lac qui Parle County, Wisconsin"]
    names = [f"household_level[{place}, {floor}]" for place in places for floor in ("basement", "first")] + ["mu"]
    cut = shortened(names, width)
    assert all(len(name) <= width for name in cut) and len(set(cut)) == len(names) and cut[-1] == "mu"
    assert shortened(names, 80) == names


def test_the_longest_words_are_cut_first():
    assert shortened(["household_level[Anoka, first]"], 24) == ["household…[Anoka, first]"]


@pytest.mark.parametrize("cell", ["1.5", "-1.23e-05"])
def test_a_wide_table_fits_a_terminal(cell):
    """Names are cut; where that does not leave enough of them, the columns that can be spared go."""
    columns = ["mean", "sd", "hdi_3%", "hdi_97%", "mcse", "ess", "r_hat"]
    names = [f"a_variable_with_quite_a_long_name[{i}]" for i in range(3)]
    table = Table("", columns, names, [[cell] * 7] * 3, spare=("mcse", "hdi_3%", "hdi_97%"))
    text = str(table)
    assert table.width > WIDTH and max(map(len, text.splitlines())) <= WIDTH
    assert ("mcse" in text) == (cell == "1.5") and "r_hat" in text and "mcse" in table.to_html()


def test_counts_and_lists_are_english():
    assert [counted(np.int64(n), "finding") for n in (0, 1, 1234)] == ["no findings", "1 finding", "1,234 findings"]
    assert [listed(list("abc")[:n]) for n in range(4)] == ["", "a", "a and b", "a, b and c"]
    assert max(map(len, wrapped("a sentence " * 30).splitlines())) <= WIDTH
