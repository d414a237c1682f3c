"""What the search for modes would have found: a probability, a sentence, a finding."""

from __future__ import annotations

from collections.abc import Iterator

from sahmc._support.validate import is_number, require
from sahmc.results.findings.words import WARNING
from sahmc.results.records import Finding, RunRecord

MASS, WIDTH = 0.1, 1 / 3
"""The mass and the width of the needle of which the summary speaks."""
MODEST_MASS, MODEST_WIDTH, MODEST_VOLUME = 0.25, 0.5, 0.01
"""The mass of a modest needle, and its least width and volume, in units of those of the nearest mode."""
LEAST_POWER = 0.2
"""The probability below which it is a finding that a modest needle would have been found."""


def search_power(record: RunRecord, mass: float, width: float) -> float:
    """Return the probability that the search would have found a mode of this mass and relative width."""
    require(is_number(mass) and 0 < mass < 1, "mass must lie in (0, 1)", mass, "pass 0.1, say")
    require(is_number(width) and width > 0, "width must be a positive number", width, "pass 1/3, say")
    power = record.warmup.power
    if power is None:
        raise ValueError(
            "search_power needs a run that looked for modes, and this one did not: its ladder was given, its tilt is "
            "'none', or its kernel has no gradients. Leave partition= and tilt= to sahmc."
        )
    return power.at(mass, width)


def search_in_words(record: RunRecord) -> str:
    """Return a sentence on what would have been found; nothing where no modes were looked for."""
    if record.warmup.power is None:
        return ""
    found = record.warmup.power.at(MASS, WIDTH)
    return (
        "search for modes: one with a tenth of the mass and a third of the width of those known, at a random place "
        f"near them, would have been found with probability {found:.2f}"
    )


def check_search(record: RunRecord) -> Iterator[Finding]:
    """Check whether a modest needle would have been found."""
    power = record.warmup.power
    if power is None:
        return
    width = max(MODEST_WIDTH, MODEST_VOLUME ** (1 / power.dim))
    found = power.at(MODEST_MASS, width)
    if found < LEAST_POWER:
        yield Finding(
            "search",
            WARNING,
            f"A mode with a quarter of the mass and {width:.2g} times the width of those known would have been found "
            f"with probability {found:.2f} only.",
            found,
            "Raise tune and draws, or start chains wherever you suspect a mode.",
        )
