"""The limits of a run: how much time and how many gradients it may take."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from sahmc._support.validate import Given, is_number, require

RESERVE = 0.05
"""The share of the time reserved for the analysis of the draws, until its duration is known."""
LOOKS = 1.5
"""The safety factor on the expected duration of the last analysis, which ends with all findings."""
FEWEST_DRAWS = 10
"""The minimum number of draws of each chain, made whatever the limits; all of them, if fewer are requested."""


@dataclass
class Limits:
    """The seconds and gradients that a call may take, infinite if not limited."""

    max_time: float = math.inf
    """The time limit in seconds, from the beginning of the call."""
    max_gradients: float = math.inf
    """The maximum number of gradients, including the warm-up, but not the search for modes in the draws."""
    began: float = field(default_factory=time.monotonic)
    """The time at which the call began."""
    reserve: float | None = None
    """The seconds that the analysis of the draws takes; None while unknown."""

    @property
    def are_none(self) -> bool:
        """Whether there is no limit."""
        return math.isinf(self.max_time) and math.isinf(self.max_gradients)

    @property
    def deadline(self) -> float:
        """The time at which to stop making draws."""
        reserve = RESERVE * self.max_time if self.reserve is None else self.reserve
        return math.inf if math.isinf(self.max_time) else self.began + self.max_time - reserve

    @property
    def is_late(self) -> bool:
        """Whether it is time to stop."""
        return time.monotonic() > self.deadline

    def keep_time(self, rows: int, pace: float, looking: float) -> None:
        """Hold back time to analyse all draws that will exist when time is up.

        There are ``rows`` draws of each chain so far. Each took ``pace`` seconds, and analysing all of them took
        ``looking`` seconds.
        """
        look = LOOKS * looking / rows
        left = self.began + self.max_time - time.monotonic()
        more = max(0.0, (left - look * rows) / (pace + look))
        self.reserve = look * (rows + more)

    def affordable(self, draws: int, spent: int, each: float) -> int:
        """Return the affordable number out of ``draws`` draws, if each costs ``each`` gradients.

        ``spent`` gradients are spent already.
        """
        if math.isinf(self.max_gradients):
            return draws
        return int(min(draws, max(0.0, (self.max_gradients - spent) / max(each, 1e-9))))


def make_limits(max_time: Given, max_gradients: Given) -> Limits:
    """Check the arguments of ``sample``, and return limits that start now; None means no limit."""
    for value, name in ((max_time, "max_time"), (max_gradients, "max_gradients")):
        ok = value is None or (is_number(value) and value > 0)
        require(ok, f"{name} must be a positive number", value, "pass a number, or leave it out")
    return Limits(*(math.inf if value is None else float(value) for value in (max_time, max_gradients)))
