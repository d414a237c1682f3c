"""The number of steps of a trajectory: given, drawn for each move, or chosen by the warm-up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from sahmc._support.pytree import static, strategy
from sahmc._support.validate import require, require_count
from sahmc.tilt.tilts import Energy

SHORT, LONG = 4, 16
"""The bounds, in steps, between which the warm-up chooses the longest trajectory if its length is left open."""
ITERATION_STEPS = 20
"""The budget of steps that fixes the number of moves per iteration, for an open length.

It assumes the longest trajectory, so an iteration of ``sample`` costs about half as many steps."""


class TrajectoryLength(ABC):
    """The number of steps of a trajectory, the same for all chains of a move, or all would wait for the longest."""

    @property
    def moves(self) -> int:
        """The number of moves in one iteration of ``sample``."""
        return 1

    @property
    @abstractmethod
    def num_steps(self) -> int | Int[Array, ""]:
        """The number of steps of the next trajectory, once it is ``drawn``; before that, the maximum."""

    @property
    @abstractmethod
    def most(self) -> int:
        """The maximum number of steps of a trajectory, known when the program is compiled."""

    def drawn(self, uniform: Energy) -> TrajectoryLength:
        """Draw the length of one move from a ``uniform`` number between 0 and 1."""
        return self

    def lengthened(self, quarter: float) -> TrajectoryLength:
        """Return the length for a mode in which a quarter of the slowest period takes ``quarter`` steps."""
        return self


@strategy
class FixedLength(TrajectoryLength):
    """A fixed length of ``steps``, which is part of the compiled program."""

    steps: int = static()

    @property
    def num_steps(self) -> int:
        """The number ``steps``."""
        return self.steps

    @property
    def most(self) -> int:
        """The number ``steps``."""
        return self.steps


@strategy
class DrawnLength(TrajectoryLength):
    """The length drawn for one move."""

    steps: Int[Array, ""]
    bound: int = static()
    """The maximum that could have been drawn."""

    @property
    def num_steps(self) -> Int[Array, ""]:
        """The number that was drawn."""
        return self.steps

    @property
    def most(self) -> int:
        """The number ``bound``."""
        return self.bound


def _between(uniform: Energy, low: int, high: int) -> DrawnLength:
    """Return a length from low, ..., high, all equally likely for a ``uniform`` number between 0 and 1."""
    steps = low + jnp.floor(uniform * (high + 1 - low)).astype(jnp.int32)
    return DrawnLength(jnp.minimum(steps, high), high)


@strategy
class UniformLength(TrajectoryLength):
    """A length between ``low`` and ``high`` steps, both included, drawn for each move."""

    low: int = static()
    high: int = static()

    @property
    def num_steps(self) -> int:
        """The maximum number of steps, ``high``."""
        return self.high

    @property
    def most(self) -> int:
        """The maximum number of steps, ``high``."""
        return self.high

    def drawn(self, uniform: Energy) -> TrajectoryLength:
        """Draw a length from low, ..., high."""
        return _between(uniform, self.low, self.high)


@strategy
class OpenLength(TrajectoryLength):
    """A length between 1 and ``longest`` steps, drawn for each move; the warm-up chooses ``longest``.

    An iteration is many short moves or a few longer ones, for about the same number of gradients.
    """

    longest: int = static(default=SHORT)

    @property
    def moves(self) -> int:
        """The number of moves in one iteration of ``sample``: the longer they are, the fewer."""
        return max(1, ITERATION_STEPS // (1 + self.longest))

    @property
    def num_steps(self) -> int:
        """The maximum number of steps, ``longest``."""
        return self.longest

    @property
    def most(self) -> int:
        """The maximum number of steps, ``longest``."""
        return self.longest

    def drawn(self, uniform: Energy) -> TrajectoryLength:
        """Draw a length from 1, ..., longest."""
        return _between(uniform, 1, self.longest)

    def lengthened(self, quarter: float) -> TrajectoryLength:
        """Return the length with ``longest`` the power of two nearest to twice ``quarter``, within SHORT and LONG."""
        power = np.clip(np.round(np.log2(2 * quarter)), np.log2(SHORT), np.log2(LONG))
        return OpenLength(int(2**power))


def trajectory_length(length: Any) -> TrajectoryLength:
    """Return the length a user asked for: a number of steps, a pair (low, high), or None to leave it open.

    Raise ``ValueError`` for anything else.
    """
    if isinstance(length, TrajectoryLength):
        return length
    if length is None:
        return OpenLength()
    low, high = length if isinstance(length, tuple) and len(length) == 2 else (length, length)
    require_count(low, "num_integration_steps")
    require_count(high, "num_integration_steps")
    require(low <= high, "a random trajectory length is a pair (low, high)", length, "swap the two")
    return FixedLength(high) if low == high else UniformLength(low, high)
