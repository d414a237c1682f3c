"""Findings on the log density: rounding errors, an infinite integral, symmetries that do not hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import jax
import numpy as np

from sahmc._support.types import Position
from sahmc.models.model import Labels
from sahmc.models.positions import labels
from sahmc.results.findings.listing import ERROR, WARNING
from sahmc.results.records import Finding

PLACED = 3
"""The number of variables that describe where the log density is wrong."""


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


def check_rounding(off: float, values: Position, known: Labels) -> Iterator[Finding]:
    """Check that rounding errors do not falsify the log density.

    ``off`` is the largest error found, in nats; 0 if none matters. ``values`` are the variables at that point, and
    ``known`` their dims and coords.
    """
    if off > 0:
        numbers = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(values)])
        names = labels(values, 0, known)
        largest = np.sort(np.argsort(-np.abs(numbers), kind="stable")[:PLACED])
        place = ", ".join(f"{names[i]} = {numbers[i]:z.3g}" for i in largest)
        yield Finding(
            "precision",
            ERROR,
            f"In 32 bits the log density is wrong by {off:,.0f} nats near {place}: large numbers cancel in it there, "
            "and the modes that this makes are none.",
            off,
            "Use 64 bits, jax.config.update('jax_enable_x64', True), or write it so that such numbers do not meet.",
        )


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
