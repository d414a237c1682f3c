"""The compiled loop, in chunks driven from the host."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from sahmc._support.pytree import strategy
from sahmc._support.traced import Program
from sahmc.algorithm import SAHMCState, sahmc_step
from sahmc.kernels.base import Kernel
from sahmc.run.round_trips import RoundTrips, update_round_trips
from sahmc.run.step_size import StepSizeState, update_step_size
from sahmc.tilt.gain import Gain
from sahmc.tilt.target import TiltedTarget
from sahmc.tilt.theta import average_theta, evidence
from sahmc.tilt.tilts import Tilt

NEVER = 2**31 - 1
PATIENCE = 8
"""How much slower than time the gain's clock may go, while some region waits to be seen."""
CHUNK_SECONDS = 0.3
CHUNK_BYTES = 2**26
CHUNK_DRAWS = 2048
MARKS = 64
"""Moments of a stage at which theta is noted."""


@strategy
class Setup:
    """What stays the same through a stage."""

    program: Program
    tilt: Tilt
    kernel: Kernel
    desired: Float[Array, " regions"]
    gain: Gain
    target_accept: Any
    keep: Program | None = None
    """What is kept of a position; all of it if None."""


class Schedule(NamedTuple):
    """What a stage does, as data: one compiled loop serves them all."""

    learn_theta: Any = False
    on_evidence: Any = False
    """Whether the gain decays as regions are seen, rather than with time."""
    learn_step: Any = False
    average_from: Any = NEVER
    thin: Any = 1
    bottom: Any = 0
    top: Any = 0


class RunState(NamedTuple):
    """All that changes."""

    sahmc: SAHMCState
    steps: StepSizeState
    trips: RoundTrips
    t: Int[Array, ""]
    """Iterations since theta began to learn; a_t is taken at t + 1, or at the evidence there is."""
    t_key: Int[Array, ""]
    """Iterations since the run began, which number its random keys."""


class Draw(NamedTuple):
    """What is kept of an iteration, for every chain. Leading axes (draw, chain)."""

    position: Any
    """Or what ``keep`` makes of it."""
    energy: Any
    base_energy: Any
    region: Any
    log_weight: Any
    acceptance_rate: Any
    diverging: Any
    tree_depth: Any
    """None for kernels whose trajectories do not grow."""


def total_energy(draws: Draw) -> Any:
    """The prior's included."""
    return draws.energy if draws.base_energy is None else draws.energy + draws.base_energy


class Noted(NamedTuple):
    """theta and the round trips of each chain, at some moments (leading axis)."""

    theta: Any
    trips: Any


class Tally(NamedTuple):
    """Sums over a chunk."""

    gradients: Any
    diverging: Any
    failed: Any
    deepest: Any
    """Trajectories that grew to the largest depth."""
    trajectories: Any
    mechanical_acceptance: Any
    jumps: Any
    jumps_accepted: Any


@partial(jax.jit, static_argnames="capacity")
def run_chunk(
    rng_key: Key[Array, ""],
    state: RunState,
    setup: Setup,
    schedule: Schedule,
    num: Int[Array, ""],
    done: Int[Array, ""],
    every: Int[Array, ""],
    capacity: int,
) -> tuple[RunState, Draw, Noted, Tally]:
    """``num`` moves of a stage that has ``done`` some. A draw is the last of ``schedule.thin``, what is noted the last
    of ``every``; both in slots that count from the one in which ``done`` lies.
    """

    deepest = setup.kernel.max_tree_depth

    def iterate(state: RunState) -> tuple[RunState, Draw, Tally]:
        used = state.sahmc.theta
        target = TiltedTarget(setup.program, setup.tilt, used.theta, jnp.exp(state.steps.log_step))
        proof = jnp.maximum(evidence(used.seen, setup.desired), state.t / PATIENCE)
        clock = jnp.where(schedule.on_evidence, proof, state.t)
        gain = jnp.where(schedule.learn_theta, setup.gain(clock + 1), 0.0).astype(used.theta.dtype)
        sahmc, info = sahmc_step(
            jax.random.fold_in(rng_key, state.t_key), state.sahmc, setup.kernel, target, gain, setup.desired
        )
        sahmc = sahmc._replace(theta=average_theta(sahmc.theta, state.t >= schedule.average_from))
        level = info.level if setup.tilt.step_scale.shape[0] > 1 else jnp.zeros_like(info.level)
        steps = update_step_size(
            state.steps, info.mechanical_acceptance, level, setup.target_accept, schedule.learn_step
        )
        trips = update_round_trips(state.trips, info.level, schedule.bottom, schedule.top)

        chains = sahmc.chains
        draw = Draw(
            position=chains.position if setup.keep is None else jax.vmap(setup.keep)(chains.position),
            energy=chains.energy,
            base_energy=None if chains.base is None else chains.base.energy,
            region=info.level,
            log_weight=log_weights(setup, used.theta, sahmc.theta.visits > 0, chains.energy),
            acceptance_rate=info.acceptance_rate,
            diverging=info.diverging,
            tree_depth=info.tree_depth if deepest else None,
        )
        jumped = jnp.isnan(info.mechanical_acceptance)
        tally = Tally(
            gradients=info.n_steps.sum(),
            diverging=info.diverging.sum(),
            failed=info.failed.sum(),
            deepest=((info.tree_depth >= deepest) & (deepest > 0)).sum(),
            trajectories=jnp.sum(~jumped),
            mechanical_acceptance=jnp.where(jumped, 0.0, info.mechanical_acceptance).sum(),
            jumps=jumped.sum(),
            jumps_accepted=(jumped & info.is_accepted).sum(),
        )
        return RunState(sahmc, steps, trips, state.t + schedule.learn_theta, state.t_key + 1), draw, tally

    def body(i: Int[Array, ""], carry: Any) -> Any:
        state, kept, noted, tally = carry
        state, draw, more = iterate(state)

        def into(size: Any, slots: Any, values: Any) -> Any:
            slot = (done + i) // size - done // size
            return jax.tree.map(lambda all, new: all.at[slot].set(new), slots, values)

        kept = into(schedule.thin, kept, draw)
        noted = into(every, noted, Noted(state.sahmc.theta.theta, state.trips.trips))
        return state, kept, noted, jax.tree.map(jnp.add, tally, more)

    _, draw, tally = jax.eval_shape(iterate, state)
    kept = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), draw)
    marked = Noted(state.sahmc.theta.theta, state.trips.trips)
    noted = jax.tree.map(lambda x: jnp.zeros((MARKS + 1, *x.shape), x.dtype), marked)
    zero = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), tally)
    return jax.lax.fori_loop(0, num, body, (state, kept, noted, zero))


def log_weights(
    setup: Setup,
    theta: Float[Array, "*own regions"],
    visited: Bool[Array, "*own regions"],
    energy: Float[Array, " chains"],
) -> Float[Array, " chains"]:
    """log w of every chain, theta being shared or one for each."""
    own = 0 if theta.ndim == 2 else None
    return jax.vmap(setup.tilt.log_weight, (own, 0, None, own))(theta, energy, setup.desired, visited)


def draw_structure(setup: Setup, state: RunState) -> Any:
    """Of what is kept of an iteration, as ``iterate`` makes it."""
    whole = 0 if setup.keep is None else jax.tree.unflatten(setup.keep.returns, range(setup.keep.returns.num_leaves))
    base = None if state.sahmc.chains.base is None else 0
    depth = 0 if setup.kernel.max_tree_depth else None
    return jax.tree.structure(Draw(whole, 0, base, 0, 0, 0, 0, depth))


class Chunk(NamedTuple):
    """What comes out between two looks at the host."""

    state: RunState
    draws: Draw
    noted: Noted
    visits: np.ndarray
    moves: int
    tally: Tally


def chunks(
    rng_key: Key[Array, ""],
    state: RunState,
    setup: Setup,
    schedule: Schedule,
    draws: int,
    capacity: int,
    done: int = 0,
    every: int = NEVER,
) -> Iterator[Chunk]:
    """What is left of ``draws`` after ``done`` moves, in chunks of about ``CHUNK_SECONDS``, in bits that do not depend
    on how they were cut; theta is noted after each ``every`` moves.
    """
    total, size = draws * schedule.thin, 16
    while done < total:
        phase = done % schedule.thin
        size = min(size, total - done, capacity * schedule.thin - phase)
        before = np.asarray(state.sahmc.theta.visits)
        began = time.perf_counter()
        state, kept, noted, tally = jax.block_until_ready(
            run_chunk(rng_key, state, setup, schedule, *map(jnp.int32, (size, done, every)), capacity)
        )
        rate = size / max(time.perf_counter() - began, 1e-9)
        complete = (phase + size) // schedule.thin
        visits = np.asarray(state.sahmc.theta.visits).astype(np.int64) - before
        state = _forget_counts(state)
        marks = (done + size) // every - done // every
        done += size
        yield Chunk(
            state=state,
            draws=_first(kept, complete),
            noted=_first(noted, marks),
            visits=visits,
            moves=size,
            tally=Tally(*(np.asarray(total).item() for total in tally)),
        )
        size = max(16, int(rate * CHUNK_SECONDS))


def _first(kept: Any, num: int) -> Any:
    return jax.tree.map(lambda x: np.array(np.asarray(x)[:num]), kept)


def _forget_counts(state: RunState) -> RunState:
    """Only whether a region was ever visited stays in the 32-bit counters, which the host has read."""
    theta = state.sahmc.theta
    return state._replace(sahmc=state.sahmc._replace(theta=theta._replace(visits=jnp.minimum(theta.visits, 1))))


def chunk_capacity(chains: int, dim: int) -> int:
    """Draws a chunk has room for. The same for runs of any length, so that they share compiled code."""
    return max(1, min(CHUNK_DRAWS, CHUNK_BYTES // (8 * chains * (dim + 8))))
