"""The finding on a log density whose integral is infinite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sahmc.results.findings.words import ERROR
from sahmc.results.records import Finding


def check_improper(names: Sequence[str]) -> Iterator[Finding]:
    """Check that the density has a finite integral; ``names`` are the numbers along which it falls off too slowly."""
    if names:
        more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        yield Finding(
            "improper",
            ERROR,
            f"The posterior is improper: far out along {names[0]}{more} its density falls off no faster than 1 / r, so "
            "its integral is infinite. The draws only show how far the chains have come.",
            float(len(names)),
            f"Give {names[0]} a prior with a finite integral, or bounds: one period, if it is an angle.",
        )
