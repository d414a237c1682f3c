"""Plain moves at one temperature: what the pilot and the search are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp

from sahmc._support.traced import Program
from sahmc.kernels.base import Kernel
from sahmc.run.loop import Draw, RunState, Schedule, Setup
from sahmc.run.plan import Plan
from sahmc.run.stage import Runner
from sahmc.run.step_size import init_step_size
from sahmc.tilt.gain import Gain
from sahmc.tilt.partition import TemperatureLadder
from sahmc.tilt.tilts import TemperedTilt

MEMORY = 2**28
"""Bytes of draws that a stage of the warm-up may keep."""
FEWEST = 8
"""Draws that it keeps in any case."""


def memory_thin(position: Any, moves: int) -> int:
    """Every how many moves positions (chain, dim) may be kept."""
    return -(-moves * position.size * position.dtype.itemsize // MEMORY)


class Stretch(NamedTuple):
    """Some moves at one temperature: where they led, the draws, the step size found, the gradients spent."""

    state: RunState
    draws: Draw
    step_size: float
    gradients: int


@dataclass(frozen=True)
class Bench:
    """What all stages of the warm-up have in common."""

    runner: Runner
    program: Program
    plan: Plan

    def plain(
        self,
        stage: str,
        state: RunState,
        kernel: Kernel,
        beta: float,
        step_size: float,
        moves: int,
        *,
        eager: bool = False,
        thin: int = 1,
    ) -> Stretch:
        """``moves`` at exp(-beta U), the step size tuned on the way unless the kernel has its own.

        Of ``thin`` of them one is kept, or of more where positions are so large that all would not fit into memory.
        """
        thin = max(thin, min(moves // FEWEST, memory_thin(state.sahmc.chains.position, moves)))
        tunes = self.plan.kernel.tunes_step_size
        dtype: Any = state.sahmc.chains.position.dtype
        first = jnp.full(1, step_size if tunes else 1.0, dtype)
        tilt = TemperedTilt(TemperatureLadder.single(beta))
        setup = Setup(self.program, tilt, kernel, jnp.ones(1, dtype), Gain(1.0), self.plan.target_accept)
        schedule = Schedule(learn_step=tunes, thin=thin)
        state = state._replace(steps=init_step_size(first, eager=eager))
        outcome = self.runner.stage(stage, state, setup, schedule, max(1, moves // thin), keep=True)
        if outcome.interrupted:
            raise KeyboardInterrupt
        found = float(jnp.exp(outcome.state.steps.log_average[0]))
        return Stretch(outcome.state, outcome.draws, found, outcome.tally.gradients)
