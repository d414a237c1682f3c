"""The compiled loop, in chunks driven from the host: progress and interrupts happen between chunks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from sahmc.algorithm import SAHMCState, sahmc_step
from sahmc.gain import Gain
from sahmc.kernels.base import Kernel
from sahmc.program import Program
from sahmc.pytree import strategy
from sahmc.round_trips import RoundTrips, update_round_trips
from sahmc.step_size import StepSizeState, update_step_size
from sahmc.target import TiltedTarget
from sahmc.theta import average_theta, evidence
from sahmc.tilt import Tilt

NEVER = 2**31 - 1
PATIENCE = 8
"""How much slower than time the gain's clock may go, while some region waits to be seen."""
CHUNK_SECONDS = 0.3
CHUNK_BYTES = 2**26
CHUNK_DRAWS = 2048


@strategy
class Setup:
    """What stays the same through a stage."""

    program: Program
    tilt: Tilt
    kernel: Kernel
    desired: Float[Array, " regions"]
    gain: Gain
    target_accept: Any


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
    energy: Any
    base_energy: Any
    region: Any
    log_weight: Any
    acceptance_rate: Any
    diverging: Any
    tree_depth: Any
    """None for kernels whose trajectories do not grow."""


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
    phase: Int[Array, ""],
    capacity: int,
) -> tuple[RunState, Draw, Tally]:
    """``num`` moves. A draw is the last of ``schedule.thin``; ``phase`` of the first were made by an earlier chunk."""

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
            position=chains.position,
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
        state, kept, tally = carry
        state, draw, more = iterate(state)
        slot = (phase + i) // schedule.thin
        kept = jax.tree.map(lambda all, new: all.at[slot].set(new), kept, draw)
        return state, kept, jax.tree.map(jnp.add, tally, more)

    _, draw, tally = jax.eval_shape(iterate, state)
    kept = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), draw)
    zero = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), tally)
    return jax.lax.fori_loop(0, num, body, (state, kept, zero))


def log_weights(
    setup: Setup,
    theta: Float[Array, "*own regions"],
    visited: Bool[Array, "*own regions"],
    energy: Float[Array, " chains"],
) -> Float[Array, " chains"]:
    """log w = Theta(U), less what makes weights under different theta (of other times, of other chains) comparable."""

    def one(theta: Any, visited: Any, energy: Any) -> Any:
        return setup.tilt.bias(theta, energy) - setup.tilt.log_normaliser(theta, setup.desired, visited)

    own = 0 if theta.ndim == 2 else None
    return jax.vmap(one, (own, own, 0))(theta, visited, energy)


class Chunk(NamedTuple):
    """What comes out between two looks at the host."""

    state: RunState
    draws: Draw
    visits: np.ndarray
    iterations: int
    tally: Tally


def chunks(
    rng_key: Key[Array, ""], state: RunState, setup: Setup, schedule: Schedule, draws: int, capacity: int
) -> Iterator[Chunk]:
    """``draws`` of them in chunks of about ``CHUNK_SECONDS``, in bits that do not depend on how they were cut."""
    total, done, size = draws * schedule.thin, 0, 16
    while done < total:
        phase = done % schedule.thin
        size = min(size, total - done, capacity * schedule.thin - phase)
        before = np.asarray(state.sahmc.theta.visits)
        began = time.perf_counter()
        state, kept, tally = jax.block_until_ready(
            run_chunk(rng_key, state, setup, schedule, jnp.int32(size), jnp.int32(phase), capacity)
        )
        rate = size / max(time.perf_counter() - began, 1e-9)
        complete = (phase + size) // schedule.thin
        visits = np.asarray(state.sahmc.theta.visits).astype(np.int64) - before
        state = _forget_counts(state)
        done += size
        yield Chunk(
            state=state,
            draws=_first(kept, complete),
            visits=visits,
            iterations=size,
            tally=Tally(*(np.asarray(total).item() for total in tally)),
        )
        size = max(16, int(rate * CHUNK_SECONDS))


def _first(kept: Draw, num: int) -> Draw:
    return jax.tree.map(lambda x: np.array(np.asarray(x)[:num]), kept)


def _forget_counts(state: RunState) -> RunState:
    """Only whether a region was ever visited stays in the 32-bit counters, which the host has read."""
    theta = state.sahmc.theta
    return state._replace(sahmc=state.sahmc._replace(theta=theta._replace(visits=jnp.minimum(theta.visits, 1))))


class Outcome(NamedTuple):
    """A whole stage."""

    state: RunState
    draws: Any
    visits: np.ndarray
    tally: Tally
    interrupted: bool


@dataclass(frozen=True)
class Runner:
    """Runs stages: what they have in common, and whom to tell how far they are."""

    rng_key: Key[Array, ""]
    capacity: int
    report: Callable[..., None]
    worth: float = 1.0
    """Of a move on the progress bar, which counts the moves that were planned: longer ones are fewer."""

    def stage(self, name: str, state: RunState, setup: Setup, schedule: Schedule, draws: int, *, keep: bool) -> Outcome:
        """Make ``draws``, and ``keep`` them or not. Ctrl-C while they are kept ends the stage with those there are."""
        kept: list[Draw] = []
        visits = np.zeros(state.sahmc.theta.visits.shape, np.int64)
        tally = Tally(*(0 for _ in Tally._fields))
        interrupted = False
        try:
            for chunk in chunks(self.rng_key, state, setup, schedule, draws, self.capacity):
                state = chunk.state
                visits += chunk.visits
                tally = Tally(*(a + b for a, b in zip(tally, chunk.tally, strict=True)))
                if keep:
                    kept.append(chunk.draws)
                regions = f"{int((visits.reshape(-1, visits.shape[-1]).sum(0) > 0).sum())}/{visits.shape[-1]}"
                trips = int(jnp.sum(state.trips.trips))
                accept = chunk.tally.mechanical_acceptance / max(1, chunk.tally.trajectories)
                done = self.worth * chunk.iterations
                self.report(name, done, accept=accept, diverging=tally.diverging, regions=regions, trips=trips)
        except KeyboardInterrupt:
            if not any(len(part.energy) for part in kept):
                raise
            interrupted = True
        drawn = jax.tree.map(lambda *parts: np.concatenate(parts), *kept) if kept else None
        return Outcome(state, drawn, visits, tally, interrupted)


def chunk_capacity(chains: int, dim: int) -> int:
    """Draws a chunk has room for. The same for runs of any length, so that they share compiled code."""
    return max(1, min(CHUNK_DRAWS, CHUNK_BYTES // (8 * chains * (dim + 8))))
