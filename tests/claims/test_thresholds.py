"""The table of thresholds in the documentation has the values of the code."""

import importlib
import re
from fractions import Fraction
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "specification.md"
ROW = re.compile(r"\| `(?P<file>[\w/]+)\.py: (?P<name>\w+)` \| (?P<value>[^|]+) \|")


def differing(page: str) -> list[str]:
    rows = [match.groupdict() for match in map(ROW.match, page.splitlines()) if match]
    assert len(rows) > 30
    found = {
        row["name"]: getattr(importlib.import_module("sahmc." + row["file"].replace("/", ".")), row["name"])
        for row in rows
    }
    return [row["name"] for row in rows if found[row["name"]] != pytest.approx(float(Fraction(row["value"].strip())))]


def test_the_values_are_those_of_the_code():
    assert differing(PAGE.read_text()) == []


def test_another_value_is_noticed():
    assert differing(PAGE.read_text().replace("| 2/3 |", "| 0.6 |")) == ["LEVEL_SPACING"]
