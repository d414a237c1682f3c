"""The power of the search for modes, as a probability, a sentence and a finding."""

from __future__ import annotations

from collections.abc import Iterator

from sahmc._support.validate import is_number, require
from sahmc.results.findings.listing import WARNING
from sahmc.results.records import Finding, RunRecord
from sahmc.results.warmup_record import SEARCH_PLACES

LEAST_POWER = 0.5
"""The minimum probability of finding the needle; below it there is a finding."""
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


def search_in_words(record: RunRecord) -> str:
    """Return a sentence on the power of the search; empty if the run did not search for modes."""
    power = record.warmup.power
    if power is None:
        return ""
    if power.flat:
        return "search for modes: the density is flat inside the known ones, so what was missed cannot be estimated"
    found, width = power.by_place(), power.needle
    near = [found[place] for place in ("inside", "near") if place in found]
    said = [f"{min(near):.2f} within ten widths of one"] if near else []
    if "far" in power.relevant and "far" in found:
        said.append(f"{found['far']:.2f} at 10 to 100 widths")
    if not said:
        return ""
    return (
        f"search for modes: one with a quarter of the mass, {width:.2g} times as wide as those known, would have been "
        f"found with probability {', '.join(said)}"
    )


def check_search(record: RunRecord) -> Iterator[Finding]:
    """Check whether the search would have found the needle at all places where modes could be."""
    power = record.warmup.power
    if power is None:
        return
    if power.flat:
        yield Finding(
            "search",
            WARNING,
            "The density is flat inside the known modes, along one coordinate at least. Gradients show nothing of "
            "other modes there: what the search missed cannot be estimated.",
            0.0,
            "Start chains wherever you suspect a mode.",
        )
        return
    if power.rugged:
        yield Finding(
            "search",
            WARNING,
            f"Of {power.descents} descents from hot points, {power.arrivals or 'none'} ended in the same known mode. "
            "There are very many minima, and a deeper one may have been missed.",
            power.arrivals / power.descents,
            "Raise tune, or start chains wherever you suspect a mode.",
        )
    place, found = power.weakest
    if found < LEAST_POWER:
        yield Finding(
            "search",
            WARNING,
            f"A mode with a quarter of the mass, {power.needle:.2g} times as wide as those known and {WHERE[place]}, "
            f"would have been found with probability {found:.2f} only.",
            found,
            "Raise tune and draws, or start chains wherever you suspect a mode.",
        )
