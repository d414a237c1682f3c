"""The progress of a run, as it is told."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

Report = Callable[["Progress"], None]
"""A function that is told how far a run is."""


class Progress(NamedTuple):
    """The progress of a run, as told to ``callback`` a few times a second.

    ``stage``
        The stage that the run is in: "pilot", "climb", "adapt" or "draw".
    ``done``, ``total``, ``advance``
        The moves of this stage that are made, those that are planned, and those made since the last call.
    ``acceptance_rate``
        The mean acceptance probability of the trajectories since the last call, on which the step size is tuned.
    ``num_diverging``
        The number of trajectories of this stage that diverged.
    ``regions``, ``regions_seen``
        The number of regions of the tilt, and of those visited in this stage.
    ``round_trips``
        The round trips of all chains since theta began to learn or, once it is frozen, since then.
    """

    stage: str
    advance: float
    acceptance_rate: float
    num_diverging: int
    regions: int
    regions_seen: int
    round_trips: int
    done: float = 0.0
    total: float = 0.0

    def __str__(self) -> str:
        parts = [] if math.isnan(self.acceptance_rate) else [f"accept {self.acceptance_rate:.2f}"]
        if self.regions > 1:
            parts += [f"levels {self.regions_seen}/{self.regions}", f"round trips {self.round_trips}"]
        if self.num_diverging:
            parts.append(f"divergences {self.num_diverging}")
        return "  ".join(parts)
