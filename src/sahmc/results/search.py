"""The power of the search for modes, as a probability, a sentence and a finding."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sahmc._support.validate import is_number, require
from sahmc.results.findings.words import WARNING
from sahmc.results.records import Finding, RunRecord
from sahmc.results.warmup_record import SEARCH_PLACES, SearchPower

MASS = 0.25
"""The mass of the needle, a hypothetical narrow mode, in the summary and the finding."""
WIDTH, LEAST_VOLUME = 0.5, 0.01
"""The width of the needle and its minimum volume, both relative to the nearest mode."""
NARROW_WIDTH, NARROW_VOLUME = 1 / 3, 1e-4
"""The minimum width and volume of the needle if the widths of known modes differ more than that."""
LEAST_POWER = 0.4
"""The minimum probability of finding this needle; below it there is a finding."""
WHERE = dict(
    zip(SEARCH_PLACES, ("inside one of them", "up to ten widths from one", "10 to 100 widths from one"), strict=True)
)
"""The text for each place."""


def search_power(record: RunRecord, mass: float, width: float, place: str | None) -> float:
    """Return the probability that the search would find a mode of this mass and relative width at this place."""
    require(is_number(mass) and 0 < mass < 1, "mass must lie in (0, 1)", mass, "pass 0.1, say")
    require(is_number(width) and width > 0, "width must be a positive number", width, "pass 1/3, say")
    ok = place is None or (isinstance(place, str) and place in SEARCH_PLACES)
    require(ok, f"place must be one of {', '.join(SEARCH_PLACES)} or None", place, "leave it out for the weakest")
    power = record.warmup.power
    if power is None:
        raise ValueError(
            "search_power needs a run that looked for modes, and this one did not: its ladder was given, its tilt is "
            "'none', or its kernel has no gradients. Leave partition= and tilt= to sahmc."
        )
    return power.at(mass, width, place)


def needle_width(power: SearchPower) -> float:
    """Return the width of the needle in the summary.

    In many dimensions a slightly smaller width means a far smaller volume, so the volume has a minimum. If known modes
    differ more in width, unknown ones may too, so the needle is narrower.
    """
    width = max(WIDTH, LEAST_VOLUME ** (1 / power.dim))
    return min(width, max(power.narrowest, NARROW_WIDTH, NARROW_VOLUME ** (1 / power.dim)))


def search_in_words(record: RunRecord) -> str:
    """Return a sentence on the power of the search; empty if the run did not search for modes."""
    power = record.warmup.power
    if power is None:
        return ""
    found, width = _found(power, SEARCH_PLACES), needle_width(power)
    far = found.pop("far", math.nan)
    return (
        f"search for modes: one with a quarter of the mass, {width:.2g} times as wide as those known, would have been "
        f"found with probability {min(found.values(), default=math.nan):.2f} within ten widths of one, "
        f"{far:.2f} at 10 to 100 widths"
    )


def _found(power: SearchPower, places: tuple[str, ...]) -> dict[str, float]:
    """Return the probability of finding the needle at each of ``places`` for which it is known."""
    found = {place: power.at(MASS, needle_width(power), place) for place in places}
    return {place: share for place, share in found.items() if not math.isnan(share)}


def check_search(record: RunRecord) -> Iterator[Finding]:
    """Check whether the search would have found the needle at all places where modes could be."""
    power = record.warmup.power
    if power is None:
        return
    found, width = _found(power, power.relevant), needle_width(power)
    weakest = min(found, key=lambda place: found[place], default="near")
    if found.get(weakest, 1.0) < LEAST_POWER:
        yield Finding(
            "search",
            WARNING,
            f"A mode with a quarter of the mass, {width:.2g} times as wide as those known and {WHERE[weakest]}, would "
            f"have been found with probability {found[weakest]:.2f} only.",
            found[weakest],
            "Raise tune and draws, or start chains wherever you suspect a mode.",
        )
