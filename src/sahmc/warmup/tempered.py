"""Plain moves at one temperature, the building block of the pilot and the climb."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from sahmc._support.platform import placed
from sahmc._support.traced import TracedFunction
from sahmc.engine.move import Draw, RunState, Schedule, Setup
from sahmc.engine.plan import Plan
from sahmc.engine.stage import StageRunner
from sahmc.engine.start import evaluate_starts
from sahmc.engine.step_size import init_step_size
from sahmc.kernels.base import Kernel
from sahmc.kernels.symmetric import among_copies
from sahmc.symmetry.fold import Fold
from sahmc.tilt.gain import Gain
from sahmc.tilt.partition import TemperatureLadder
from sahmc.tilt.target import ChainState
from sahmc.tilt.theta import desired_frequencies, init_theta
from sahmc.tilt.tilts import TemperedTilt

STAGE_BYTES = 2**28
"""The memory limit for the draws of a warm-up stage, in bytes."""
FEWEST_DRAWS = 8
"""The minimum number of draws that a stage keeps, whatever their size."""


@dataclass(frozen=True)
class WarmupContext:
    """The context that all stages of the warm-up share."""

    runner: StageRunner
    """The runner of stages."""
    energy_fn: TracedFunction
    """The traced energy of the model, a function of a flat position."""
    plan: Plan
    """The arguments of the run, and its budget."""
    copies: int = 1
    """The number of levels, all at one temperature, for plain moves. It is that of the coming ladder if the same
    compiled loop is to serve for both."""
    fold: Fold | None = None
    """The fold, where modes have copies."""


class TemperedMoves(NamedTuple):
    """The outcome of some moves at one temperature."""

    state: RunState
    """The chains at the end."""
    draws: Draw
    """The draws, arrays (draw, chain, ...)."""
    step_size: float
    """The tuned step size."""
    gradients: int
    """The gradients spent."""


def take_places(chains: ChainState, lost: np.ndarray) -> ChainState:
    """Return the chains with the ``lost`` ones moved to the places of the others in turn, if there are others."""
    well = np.flatnonzero(~lost)
    if not len(well):
        return chains
    index = np.arange(len(lost))
    index[lost] = well[np.arange(lost.sum()) % len(well)]
    return jax.tree.map(lambda x: x[index], chains)


def bring_inside(context: WarmupContext, state: RunState, draws: Draw, home: np.ndarray) -> RunState:
    """Return the chains, with those of zero likelihood moved to where it is positive, before they leave beta = 0.

    They go to some of ``draws`` (draw, chain, ...) of the prior with positive likelihood or, if there are none, to some
    of ``home`` (draw, dim).
    """
    lost = np.flatnonzero(~np.isfinite(np.asarray(state.sahmc.chains.energy)))
    if not lost.size:
        return state
    inside = draws.position[np.isfinite(draws.energy)]
    places = inside if len(inside) else home
    chosen = places[np.linspace(0, len(places) - 1, lost.size).astype(int)]
    position = np.array(state.sahmc.chains.position)
    position[lost] = chosen
    _, there = evaluate_starts(context.energy_fn, placed(position))
    return state._replace(sahmc=state.sahmc._replace(chains=there.chains))


def memory_thin(position: Float[Array, "chains dim"], moves: int) -> int:
    """Return the thinning that keeps the positions of a stage of ``moves`` moves within STAGE_BYTES."""
    return -(-moves * position.size * position.dtype.itemsize // STAGE_BYTES)


def run_at_temperature(
    context: WarmupContext,
    stage: str,
    state: RunState,
    kernel: Kernel,
    beta: float,
    step_size: float,
    moves: int,
    *,
    eager: bool = False,
    thin: int = 1,
) -> TemperedMoves:
    """Make ``moves`` moves at exp(-beta U), and tune the step size meanwhile unless the kernel has a fixed one.

    Progress is reported under the name ``stage``. Tuning starts at ``step_size``; ``eager`` tries larger ones first.
    Every ``thin``-th move is kept, or fewer if the positions would not fit into memory.
    """
    plan = context.plan
    thin = max(thin, min(moves // FEWEST_DRAWS, memory_thin(state.sahmc.chains.position, moves)))
    tunes = plan.kernel.tunes_step_size
    dtype: Any = state.sahmc.chains.position.dtype
    zero, first = (placed(np.full(context.copies, value), dtype) for value in (0.0, step_size if tunes else 1.0))
    tilt = TemperedTilt(TemperatureLadder.single(beta, copies=context.copies))
    desired = desired_frequencies(None, context.copies, dtype)
    kernel = among_copies(kernel, context.fold)
    setup = Setup(context.energy_fn, tilt, kernel, desired, Gain(1.0), plan.target_accept)
    schedule = Schedule(learn_step=tunes, thin=thin)
    state = state._replace(
        steps=init_step_size(first, eager=eager),
        sahmc=state.sahmc._replace(theta=init_theta(zero)),
    )
    done = context.runner.run(stage, state, setup, schedule, max(1, moves // thin), store=True)
    if done.interrupted:
        raise KeyboardInterrupt
    assert done.draws is not None
    found = float(np.exp(np.mean(np.asarray(done.state.steps.log_average, float))))
    return TemperedMoves(done.state, done.draws, found, done.counts.gradients)
