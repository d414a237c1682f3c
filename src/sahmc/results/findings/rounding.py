"""Findings on rounding errors of the log density."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from sahmc.models.model import Labels
from sahmc.models.positions import labels
from sahmc.results.findings.words import ERROR
from sahmc.results.records import Finding

PLACED = 3
"""The number of variables that describe where the log density is wrong."""


def check_rounding(off: float, values: Any, known: Labels) -> Iterator[Finding]:
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
