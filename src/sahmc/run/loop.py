"""The compiled loop of moves, run in chunks between which Python looks at what was done."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import PyTreeDef
from jaxtyping import Array, Bool, Float, Int, Key

from sahmc._support.compiled import compiled
from sahmc._support.pytree import strategy
from sahmc._support.traced import TracedFunction
from sahmc._support.types import Position
from sahmc.algorithm import SAHMCState, sahmc_step
from sahmc.kernels.base import Kernel, TransitionInfo
from sahmc.models.group import Group
from sahmc.results.records import Counts
from sahmc.run.round_trips import RoundTrips, update_round_trips
from sahmc.run.step_size import StepSizeState, update_step_size
from sahmc.tilt.gain import Gain
from sahmc.tilt.target import ChainState, TiltedTarget
from sahmc.tilt.theta import average_theta, visit_clock
from sahmc.tilt.tilts import TemperedTilt, Tilt

NEVER = 2**31 - 1
"""The number of a move that no run reaches."""
COPIES = 2**31 - 2
"""The chain number under which the copies are drawn in which positions are kept."""
CLOCK_LAG = 8
"""The factor by which the gain's clock may go slower than time, while some region waits to be seen."""
CHUNK_SECONDS = 0.3
"""The seconds that a chunk is to take."""
FIRST_CHUNK, LONG_FIRST_CHUNK = 16, 256
"""The moves of the first chunk of a run, before it is known how long moves take, and the most of a later stage."""
CHUNK_BYTES = 2**26
"""The most bytes of draws for which a chunk has room."""
CHUNK_DRAWS = 2048
"""The most draws for which a chunk has room."""
SNAPSHOTS = 64
"""The number of moments of a stage at which theta is recorded."""


@strategy
class Setup:
    """All that stays the same through a stage."""

    energy_fn: TracedFunction
    """The traced energy of the model, a function of a flat position."""
    tilt: Tilt
    kernel: Kernel
    desired: Float[Array, " regions"]
    """The desired visiting frequencies."""
    gain: Gain
    """The gain with which theta learns."""
    target_accept: Float[Array, ""] | float
    """The acceptance probability to which step sizes are tuned."""
    keep: TracedFunction | None = None
    """The function of a flat position that is kept in its place; None keeps the position."""
    copies: Group | None = None
    """The group by a random element of which a draw is carried before it is kept, where modes have copies."""


class Schedule(NamedTuple):
    """The settings of a stage, as data, so that one compiled loop serves all stages."""

    learn_theta: bool = False
    """Whether theta learns."""
    gain_by_visits: bool = False
    """Whether the gain decays as regions are seen, rather than with time."""
    learn_step: bool = False
    """Whether step sizes are tuned."""
    average_from: int = NEVER
    """The move from which theta is averaged, counted from where theta began to learn."""
    thin: int = 1
    """The number of moves of which the last is kept as a draw."""
    bottom: int = 0
    """The region where a round trip begins and ends."""
    top: int = 0
    """The region where a round trip turns."""


class RunState(NamedTuple):
    """All that changes from move to move."""

    sahmc: SAHMCState
    """The chains and theta."""
    steps: StepSizeState
    """The step sizes of the levels, and how they are tuned."""
    trips: RoundTrips
    """The round trips that each chain has made."""
    t: Int[Array, ""]
    """The number of moves since theta began to learn; the gain a_t is taken at t + 1, or by the clock of visits."""
    t_key: Int[Array, ""]
    """The number of moves since the run began, from which the random key of each is made."""


class Draw(NamedTuple):
    """The draws of all chains, whose axes are (draw, chain, ...): JAX arrays in the loop, NumPy arrays outside it."""

    position: Position
    """The position as a vector, or the pytree that ``keep`` makes of it."""
    energy: Float[Array, "*draw chains"]
    """The energy on which the tilt acts."""
    base_energy: Float[Array, "*draw chains"] | None
    """The prior's share of the energy, where it is apart."""
    region: Int[Array, "*draw chains"]
    """The region of the tilt in which the chain is counted."""
    log_weight: Float[Array, "*draw chains"]
    """The log importance weight, up to a constant."""
    acceptance_rate: Float[Array, "*draw chains"]
    """The probability with which the last move was accepted."""
    diverging: Bool[Array, "*draw chains"]
    """Whether the last move diverged."""
    tree_depth: Int[Array, "*draw chains"] | None
    """The doublings of the last trajectory; None for kernels whose trajectories do not grow."""

    @property
    def total_energy(self) -> Any:
        """U = -log density, the prior's share included."""
        return self.energy if self.base_energy is None else self.energy + self.base_energy


class Snapshot(NamedTuple):
    """theta and round trips at some moments, the leading axis."""

    theta: Float[Array, "*moments_own regions"]
    """theta, with an axis for chains if each has its own."""
    trips: Int[Array, "*moments chains"]
    """The round trips that each chain has made."""


class MoveSums(NamedTuple):
    """Sums over chains and moves."""

    counts: Counts
    """The events that are counted."""
    mechanical_acceptance: Float[Array, ""] | float
    """The sum over trajectories of the acceptance that step sizes are tuned on; it is rounded, and only reported."""


@partial(compiled, static_argnames="capacity")
def run_chunk(
    rng_key: Key[Array, ""],
    state: RunState,
    setup: Setup,
    schedule: Schedule,
    num: Int[Array, ""],
    done: Int[Array, ""],
    every: Int[Array, ""],
    capacity: int,
) -> tuple[RunState, Draw, Snapshot, MoveSums]:
    """Make ``num`` moves of a stage, and return the state, draws, snapshots and sums over the moves.

    The stage has made ``done`` moves before. A draw is the last of ``schedule.thin`` moves of the stage and a snapshot
    the last of ``every`` moves; the first slot of each is for the one that was under way at ``done``. There is room for
    ``capacity`` draws.
    """

    def body(i: Int[Array, ""], carry: Any) -> Any:
        state, draws, snapshots, sums = carry
        state, draw, more = make_move(rng_key, state, setup, schedule)

        def into(size: Any, slots: Any, values: Any) -> Any:
            slot = (done + i) // size - done // size
            return jax.tree.map(lambda all, new: all.at[slot].set(new), slots, values)

        draws = into(schedule.thin, draws, draw)
        snapshots = into(every, snapshots, _snapshot(state))
        return state, draws, snapshots, jax.tree.map(jnp.add, sums, more)

    _, draw, sums = jax.eval_shape(lambda s: make_move(rng_key, s, setup, schedule), state)
    draws = _room(draw, capacity)
    snapshots = _room(_snapshot(state), SNAPSHOTS + 1)
    zero = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), sums)
    return jax.lax.fori_loop(0, num, body, (state, draws, snapshots, zero))


def make_move(
    rng_key: Key[Array, ""], state: RunState, setup: Setup, schedule: Schedule
) -> tuple[RunState, Draw, MoveSums]:
    """Make one move of all chains, learn from it, and return the state, the draws and what is counted."""
    used = state.sahmc.theta
    target = TiltedTarget(setup.energy_fn, setup.tilt, used.theta, jnp.exp(state.steps.log_step))
    key = jax.random.fold_in(rng_key, state.t_key)
    gain = _gain(state, setup, schedule)
    sahmc, info = sahmc_step(key, state.sahmc, setup.kernel, target, gain, setup.desired)
    sahmc = sahmc._replace(theta=average_theta(sahmc.theta, state.t >= schedule.average_from))
    level = info.level if setup.tilt.step_scale.shape[0] > 1 else jnp.zeros_like(info.level)
    steps = update_step_size(state.steps, info.mechanical_acceptance, level, setup.target_accept, schedule.learn_step)
    own = 0 if used.theta.ndim == 2 else None
    ends = jax.vmap(setup.tilt.at_ends, (own, 0, 0, None, None))(
        used.theta, sahmc.chains.energy, info.level, schedule.bottom, schedule.top
    )
    trips = update_round_trips(state.trips, *ends)
    weight = log_weights(setup, used.theta, sahmc.theta.visits > 0, sahmc.chains.energy)
    draw = _draw(key, sahmc.chains, info, weight, setup)
    sums = _sums(info, setup.kernel.max_tree_depth, isinstance(setup.tilt, TemperedTilt))
    return RunState(sahmc, steps, trips, state.t + schedule.learn_theta, state.t_key + 1), draw, sums


def _gain(state: RunState, setup: Setup, schedule: Schedule) -> Float[Array, ""]:
    """Return the gain a_{t+1}, by the clock that the schedule asks for; 0 where theta does not learn."""
    used = state.sahmc.theta
    visits = jnp.maximum(visit_clock(used.seen, setup.desired), state.t / CLOCK_LAG)
    clock = jnp.where(schedule.gain_by_visits, visits, state.t)
    return jnp.where(schedule.learn_theta, setup.gain(clock + 1), 0.0).astype(used.theta.dtype)


def _draw(
    rng_key: Key[Array, ""],
    chains: ChainState,
    info: TransitionInfo,
    log_weight: Float[Array, " chains"],
    setup: Setup,
) -> Draw:
    """Return what is kept of a move; the key is for the copies in which positions are kept."""
    position = chains.position
    if setup.copies is not None:
        keys = jax.random.split(jax.random.fold_in(rng_key, COPIES), len(position))
        position = jax.vmap(lambda key, x: setup.copies.random(key, x)(x))(keys, position)  # type: ignore[union-attr]
    return Draw(
        position=position if setup.keep is None else jax.vmap(setup.keep)(position),
        energy=chains.energy,
        base_energy=None if chains.base is None else chains.base.energy,
        region=info.level,
        log_weight=log_weight,
        acceptance_rate=info.acceptance_rate,
        diverging=info.diverging,
        tree_depth=info.tree_depth if setup.kernel.max_tree_depth else None,
    )


def _sums(info: TransitionInfo, deepest: int, tempered: bool) -> MoveSums:
    """Return the sums over chains of a move.

    ``deepest`` is the largest depth of a tree, 0 if there are none; ``tempered`` tells that regions are temperatures.
    """
    jumped = jnp.isnan(info.mechanical_acceptance)
    cold = ~jumped & ((info.level == 0) | (not tempered))
    counts = Counts(
        gradients=info.n_steps.sum(),
        diverging=info.diverging.sum(),
        failed=info.failed.sum(),
        deepest=((info.tree_depth >= deepest) & (deepest > 0)).sum(),
        trajectories=jnp.sum(~jumped),
        jumps=jumped.sum(),
        jumps_accepted=(jumped & info.is_accepted).sum(),
        cold=cold.sum(),
        cold_diverging=(cold & info.diverging).sum(),
    )
    return MoveSums(counts, jnp.where(jumped, 0.0, info.mechanical_acceptance).sum())


def _snapshot(state: RunState) -> Snapshot:
    """Return theta and round trips as they are now."""
    return Snapshot(state.sahmc.theta.theta, state.trips.trips)


def _room(like: Any, size: int) -> Any:
    """Return zeros with room for ``size`` pytrees such as ``like``, along a new leading axis."""
    return jax.tree.map(lambda x: jnp.zeros((size, *x.shape), x.dtype), like)


def log_weights(
    setup: Setup,
    theta: Float[Array, "*own regions"],
    visited: Bool[Array, "*own regions"],
    energy: Float[Array, " chains"],
) -> Float[Array, " chains"]:
    """Return the log importance weight of every chain, whether theta is shared or each has its own.

    ``visited`` tells which regions were ever visited, and ``energy`` is that on which the tilt acts.
    """
    own = 0 if theta.ndim == 2 else None
    return jax.vmap(setup.tilt.log_weight, (own, 0, None, own))(theta, energy, setup.desired, visited)


def draw_structure(setup: Setup, state: RunState) -> PyTreeDef:
    """Return the pytree structure of the draws that ``make_move`` makes, without making one."""
    whole = 0 if setup.keep is None else jax.tree.unflatten(setup.keep.returns, range(setup.keep.returns.num_leaves))
    base = None if state.sahmc.chains.base is None else 0
    depth = 0 if setup.kernel.max_tree_depth else None
    leaves: Any = (whole, 0, base, 0, 0, 0, 0, depth)
    return jax.tree.structure(Draw(*leaves))


class Chunk(NamedTuple):
    """The outcome of some moves, in NumPy arrays but for the state."""

    state: RunState
    draws: Draw
    snapshots: Snapshot
    visits: np.ndarray
    """The visits to each region in these moves."""
    moves: int
    """The number of these moves."""
    pace: int
    """The number of moves that fill CHUNK_SECONDS, as far as these can tell."""
    sums: MoveSums
    """Sums over these moves."""


def chunks(
    rng_key: Key[Array, ""],
    state: RunState,
    setup: Setup,
    schedule: Schedule,
    draws: int,
    capacity: int,
    done: int = 0,
    every: int = NEVER,
    pace: int = FIRST_CHUNK,
) -> Iterator[Chunk]:
    """Yield what is left of a stage of ``draws`` draws after ``done`` moves, in chunks of about ``CHUNK_SECONDS``.

    A chunk has room for ``capacity`` draws, and the first one is ``pace`` moves long. There is a snapshot after each
    ``every`` moves. The bits do not depend on how chunks are cut.
    """
    total, size = draws * schedule.thin, pace
    while done < total:
        phase = done % schedule.thin
        size = min(size, total - done, capacity * schedule.thin - phase)
        before = np.asarray(state.sahmc.theta.visits)
        began = time.perf_counter()
        state, kept, snapshots, sums = jax.block_until_ready(
            run_chunk(rng_key, state, setup, schedule, *map(np.int32, (size, done, every)), capacity)
        )
        rate = size / max(time.perf_counter() - began, 1e-9)
        complete = (phase + size) // schedule.thin
        visits = np.asarray(state.sahmc.theta.visits).astype(np.int64) - before
        state = _forget_counts(state)
        num_snapshots = (done + size) // every - done // every
        done += size
        pace = max(FIRST_CHUNK, int(rate * CHUNK_SECONDS))
        yield Chunk(
            state=state,
            draws=_first(kept, complete),
            snapshots=_first(snapshots, num_snapshots),
            visits=visits,
            moves=size,
            pace=pace,
            sums=jax.tree.map(lambda total: np.asarray(total).item(), sums),
        )
        size = pace


def _first(slots: Any, num: int) -> Any:
    """Return the first ``num`` slots of each array, as NumPy arrays."""
    return jax.tree.map(lambda x: np.array(np.asarray(x)[:num]), slots)


def _forget_counts(state: RunState) -> RunState:
    """Reduce the 32-bit counts of visits, once they were added up elsewhere, to whether a region was ever visited."""
    visits: Any = np.asarray(state.sahmc.theta.visits)
    theta = state.sahmc.theta
    return state._replace(sahmc=state.sahmc._replace(theta=theta._replace(visits=np.minimum(visits, 1))))


def chunk_capacity(chains: int, dim: int) -> int:
    """Return how many draws a chunk has room for: the same for runs of any length, so they share compiled code."""
    return max(1, min(CHUNK_DRAWS, CHUNK_BYTES // (8 * chains * (dim + 8))))
