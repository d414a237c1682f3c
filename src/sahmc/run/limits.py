"""The limits of a run: the time and the gradients that it may take."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

from sahmc._support.validate import is_number, require

RESERVE = 0.05
"""The share of the time that is kept for looking at the draws, before it is known how long that takes."""
LOOKS = 1.5
"""The time that is kept for the last look at the draws, in units of what it should take: it ends with all findings."""
FEWEST_DRAWS = 10
"""The draws of each chain that are made in any case, or all if fewer are asked for."""


@dataclass
class Limits:
    """The seconds and the gradients that a call may take, both infinite if they are not limited."""

    max_time: float = math.inf
    """The seconds, from the beginning of the call."""
    max_gradients: float = math.inf
    """The gradients, those of the warm-up included, but not those of a look for modes in the draws."""
    began: float = field(default_factory=time.monotonic)
    """When the call began."""
    reserve: float | None = None
    """The seconds that it takes to look at the draws; None while that is not known."""

    @property
    def are_none(self) -> bool:
        """Whether nothing is limited."""
        return math.isinf(self.max_time) and math.isinf(self.max_gradients)

    @property
    def deadline(self) -> float:
        """When to stop making draws."""
        reserve = RESERVE * self.max_time if self.reserve is None else self.reserve
        return math.inf if math.isinf(self.max_time) else self.began + self.max_time - reserve

    @property
    def is_late(self) -> bool:
        """Whether it is time to stop."""
        return time.monotonic() > self.deadline

    def keep_time(self, rows: int, pace: float, looking: float) -> None:
        """Keep time for a look at all the draws there will be when it is time to stop.

        There are ``rows`` draws of each chain, each of which took ``pace`` seconds, and to look at all took
        ``looking``.
        """
        look = LOOKS * looking / rows
        left = self.began + self.max_time - time.monotonic()
        more = max(0.0, (left - look * rows) / (pace + look))
        self.reserve = look * (rows + more)

    def affordable(self, draws: int, spent: int, each: float) -> int:
        """Return how many draws may be made of those that are asked for, if each costs ``each`` gradients.

        ``spent`` gradients were spent before.
        """
        if math.isinf(self.max_gradients):
            return draws
        return int(min(draws, max(0.0, (self.max_gradients - spent) / max(each, 1e-9))))


def make_limits(max_time: Any, max_gradients: Any) -> Limits:
    """Check the arguments of ``sample``, and return the limits from now on; None is no limit."""
    for value, name in ((max_time, "max_time"), (max_gradients, "max_gradients")):
        ok = value is None or (is_number(value) and value > 0)
        require(ok, f"{name} must be a positive number", value, "pass a number, or leave it out")
    return Limits(*(math.inf if value is None else float(value) for value in (max_time, max_gradients)))
