"""Whether rounding is what is wrong with a run."""

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
"""The number of variables that tell where the log density is off."""


def check_rounding(off: float, values: Any, known: Labels) -> Iterator[Finding]:
    """Check that the log density is nowhere ``off`` by nats, for rounding; ``values`` are the variables at the worst.

    ``known`` has the names of their dims and coords.
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
