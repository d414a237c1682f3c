"""Findings on symmetries that do not hold."""

from __future__ import annotations

from collections.abc import Iterator

from sahmc.results.findings.words import ERROR, WARNING
from sahmc.results.records import Finding


def check_symmetry(changed: int, looked: int, refuted: tuple[str, ...] = ()) -> Iterator[Finding]:
    """Check that the symmetries used by a run leave the log density of its draws unchanged.

    The log density changed at the copies of ``changed`` out of ``looked`` draws. ``refuted`` are symmetries that the
    user gave but the warm-up found not to hold.
    """
    if changed:
        yield Finding(
            "symmetry",
            ERROR,
            f"The symmetries that were used do not hold: {changed} of {looked} draws have copies with another log "
            "density. The draws are right, but modes may be missing or taken for copies of others.",
            changed / looked,
            "Sample again with symmetries=None.",
        )
    for name in refuted:
        yield Finding(
            "symmetry",
            WARNING,
            f"{name} was given as a symmetry, but it changes the log density where the search for modes came to. It is "
            "not used.",
            1.0,
            "Leave it out, or check its names and axes.",
        )
