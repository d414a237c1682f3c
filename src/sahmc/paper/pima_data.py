"""The Pima Indians diabetes data: 768 women, eight measurements, presence of diabetes. Not part of the package."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sahmc._support.sealed_files import write_whole

OPENML = "https://www.openml.org/data/download/37/dataset_37_diabetes.arff"
CHECKSUM = "22370a6dc550c1e6bd0caef869a699c341f707d5a066ae4b08a79ee933ddc40b"
"""The SHA-256 of the numbers, row by row, independent of their format."""
POSITIVE, NEGATIVE = ("1", "pos", "tested_positive"), ("0", "neg", "tested_negative")


class PimaData(NamedTuple):
    """The rows of a file."""

    x: np.ndarray
    """The eight measurements, (row, 8)."""
    y: np.ndarray
    """The class of each row, 1 for diabetes."""
    as_published: bool
    """Whether the checksum is that of the published data."""


class NoDataError(Exception):
    """The error if the data are missing and could not be fetched, or a file does not contain them."""


def load_pima(path: Path | None = None) -> PimaData:
    """Load the data from a CSV or ARFF file; without one, from the cache, or from OpenML into the cache."""
    if path is not None:
        return parse_pima(path.read_text())
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "sahmc" / "pima.arff"
    if not cache.exists():
        text = _fetch()
        if not parse_pima(text).as_published:
            raise NoDataError(f"what {OPENML} gave is not the data with checksum {CHECKSUM[:12]}...; {_advice()}")
        cache.parent.mkdir(parents=True, exist_ok=True)
        write_whole(cache, text.encode())
    return parse_pima(cache.read_text())


def _fetch() -> str:
    try:
        with urllib.request.urlopen(OPENML, timeout=30) as answer:
            return answer.read().decode()
    except OSError as reason:
        raise NoDataError(f"the Pima data could not be fetched from OpenML ({reason}); {_advice()}") from reason


def _advice() -> str:
    return (
        "get data set 37 of openml.org, PimaIndiansDiabetes of the R package mlbench, or diabetes.arff of Weka, and "
        "give it with --data FILE (CSV or ARFF: eight numbers and the class in each row)"
    )


def parse_pima(text: str) -> PimaData:
    """Parse the text of a CSV or ARFF file: rows of eight numbers and the class, after any header.

    The class is 0 or 1, neg or pos, tested_negative or tested_positive.
    """
    rows: list[list[float]] = []
    for number, line in enumerate(text.splitlines(), 1):
        entries = [entry.strip().strip("'\"") for entry in line.split(",")]
        if not line.strip() or line[0] in "%@" or (not rows and entries[0].isalpha()):
            continue
        if len(entries) != 9 or entries[8] not in POSITIVE + NEGATIVE:
            raise _bad_line(number, line)
        try:
            rows.append([float(entry) for entry in entries[:8]] + [float(entries[8] in POSITIVE)])
        except ValueError:
            raise _bad_line(number, line) from None
    if len(rows) < 20:
        raise NoDataError(f"at least 20 rows are needed, got {len(rows)}; {_advice()}")
    table = np.array(rows)
    digest = hashlib.sha256("\n".join(" ".join(f"{x:g}" for x in row) for row in rows).encode()).hexdigest()
    return PimaData(table[:, :8], table[:, 8], digest == CHECKSUM)


def _bad_line(number: int, line: str) -> NoDataError:
    return NoDataError(f"line {number} must hold eight numbers and a class, got {line[:60]!r}; {_advice()}")
