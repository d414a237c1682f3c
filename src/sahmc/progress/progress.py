"""The progress of a run, as reported to a callback."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

Report = Callable[["Progress"], None]
"""A function that receives the progress of a run."""


class Progress(NamedTuple):
    """The progress of a run, passed to ``callback`` a few times a second.

    ``stage``
        The current stage: "pilot", "climb", "adapt" or "draw".
    ``done``, ``total``, ``advance``
        The moves made in this stage, those planned, and those made since the last call.
    ``acceptance_rate``
        The mean acceptance probability of trajectories since the last call, which step-size tuning uses.
    ``num_diverging``
        The number of divergent trajectories in this stage.
    ``regions``, ``regions_seen``
        The number of regions of the tilt, and of those visited in this stage.
    ``round_trips``
        The round trips of all chains since theta began to learn or, once theta is frozen, since then.
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
