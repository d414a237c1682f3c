"""The number of steps of a trajectory: given, drawn for each move, or chosen by the warm-up."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from sahmc._support.pytree import static, strategy, updated
from sahmc._support.validate import Given, require, require_count
from sahmc.tilt.tilts import Energy

SHORT, LONG = 4, 16
"""The bounds, in steps, between which the warm-up chooses the longest trajectory if its length is left open."""
ITERATION_STEPS = 20
"""The budget of steps that fixes the number of moves per iteration, for an open length.

It assumes the longest trajectory, so an iteration of ``sample`` costs about half as many steps."""


@strategy
class TrajectoryLength:
    """A number of steps from ``low`` to ``most``, both included, drawn for each move if they differ.

    It is the same for all chains of a move, or all would wait for the longest.
    """

    low: int = static(default=1)
    most: int = static(default=SHORT)
    is_open: bool = static(default=True)
    """Whether the warm-up chooses ``most``."""
    steps: Int[Array, ""] | None = None
    """The number drawn for one move; None before that."""

    @property
    def num_steps(self) -> int | Int[Array, ""]:
        """The number of steps of the next trajectory, once it is ``drawn``; before that, the maximum."""
        return self.most if self.steps is None else self.steps

    @property
    def moves(self) -> int:
        """The number of moves in one iteration of ``sample``.

        With an open length these are many short moves or a few longer ones, for about the same number of gradients.
        """
        return max(1, ITERATION_STEPS // (1 + self.most)) if self.is_open else 1

    def drawn(self, uniform: Energy) -> TrajectoryLength:
        """Draw a length from low, ..., most, all equally likely for a ``uniform`` number between 0 and 1."""
        if self.low == self.most:  # the number stays a part of the compiled program
            return self
        steps = self.low + jnp.floor(uniform * (self.most + 1 - self.low)).astype(jnp.int32)
        return updated(self, steps=jnp.minimum(steps, self.most))

    def lengthened(self, quarter: float) -> TrajectoryLength:
        """Return the length for a mode in which a quarter of the slowest period takes ``quarter`` steps.

        If it is open, ``most`` becomes the power of two nearest to twice ``quarter``, within SHORT and LONG.
        """
        if not self.is_open:
            return self
        power = np.clip(np.round(np.log2(2 * quarter)), np.log2(SHORT), np.log2(LONG))
        return updated(self, most=int(2**power))


def trajectory_length(length: Given) -> TrajectoryLength:
    """Return the length a user asked for: a number of steps, a pair (low, high), or None to leave it open.

    Raise ``ValueError`` for anything else.
    """
    if isinstance(length, TrajectoryLength):
        return length
    if length is None:
        return TrajectoryLength()
    low, high = length if isinstance(length, tuple) and len(length) == 2 else (length, length)
    require_count(low, "num_integration_steps")
    require_count(high, "num_integration_steps")
    require(low <= high, "a random trajectory length is a pair (low, high)", length, "swap the two")
    return TrajectoryLength(low, high, is_open=False)
