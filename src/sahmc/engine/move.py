"""One move of all chains: what is constant during a stage, what changes, and what is kept."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import PyTreeDef
from jaxtyping import Array, Bool, Float, Int, Key

from sahmc._support.chain_axis import Each, vmap
from sahmc._support.noise import Noise
from sahmc._support.platform import when
from sahmc._support.pytree import strategy
from sahmc._support.traced import TracedFunction
from sahmc._support.types import Position
from sahmc.algorithm import SAHMCState, sahmc_step, with_theta
from sahmc.engine.glimpses import Glimpses, update_glimpses
from sahmc.engine.round_trips import RoundTrips, update_round_trips
from sahmc.engine.step_size import StepSizeState, update_step_size
from sahmc.kernels.base import Kernel, TransitionInfo
from sahmc.results.records import Counts
from sahmc.tilt.gain import Gain
from sahmc.tilt.target import TiltedTarget
from sahmc.tilt.theta import average_theta, visit_clock
from sahmc.tilt.tilts import Energy, Level, TemperedTilt, Theta, Tilt

NEVER = 2**31 - 1
"""A move number that no run reaches."""
CLOCK_LAG = 8
"""The maximum factor by which the gain's clock may lag behind time, while some region is still unvisited."""


@strategy
class Setup:
    """Everything that is constant during a stage."""

    energy_fn: TracedFunction
    """The traced energy of the model, a function of a flat position."""
    tilt: Tilt
    kernel: Kernel
    desired: Float[Array, " regions"]
    """The desired visiting frequencies."""
    gain: Gain
    """The gain with which theta learns."""
    target_accept: Float[Array, ""] | float
    """The target acceptance probability of step-size tuning."""
    keep: TracedFunction | None = None
    """A function of the flat position whose value is kept instead; None keeps the position."""


class Schedule(NamedTuple):
    """The settings of a stage, passed as data so that one compiled loop serves all stages."""

    learn_theta: bool = False
    """Whether theta learns."""
    gain_by_visits: bool = False
    """Whether the gain decays with visits to regions instead of with time."""
    learn_step: bool = False
    """Whether step sizes are tuned."""
    average_from: int = NEVER
    """The first move that enters the average of theta, counted from where theta began to learn."""
    thin: int = 1
    """The number of moves per draw; the last of them is kept."""
    bottom: int = 0
    """The region where a round trip begins and ends."""
    top: int = 0
    """The region where a round trip turns."""


class RunState(NamedTuple):
    """Everything that changes from move to move."""

    sahmc: SAHMCState
    """The chains and theta."""
    steps: StepSizeState
    """The step sizes of the levels, and the state of their tuning."""
    trips: RoundTrips
    """The round trips that each chain has made."""
    glimpses: Glimpses
    """The deepest place that each chain proposed and had to refuse."""
    t: Int[Array, ""]
    """The number of moves since theta began to learn; the gain a_t is taken at t + 1, or by the clock of visits."""
    t_key: Int[Array, ""]
    """The number of moves since the run began, from which each move's random key is derived."""


class Draw(NamedTuple):
    """The draws of all chains, with axes (draw, chain, ...): JAX arrays in the loop, NumPy arrays outside it."""

    position: Position
    """The position as a vector, or the pytree that ``keep`` returns for it."""
    energy: Float[Array, "*draw chains"]
    """The energy on which the tilt acts."""
    base_energy: Float[Array, "*draw chains"] | None
    """The prior's share of the energy, if the model keeps it separate."""
    region: Int[Array, "*draw chains"]
    """The region of the tilt in which the chain counts."""
    log_weight: Float[Array, "*draw chains"]
    """The log importance weight, up to a constant."""
    acceptance_rate: Float[Array, "*draw chains"]
    """The acceptance probability of the last move."""
    diverging: Bool[Array, "*draw chains"]
    """Whether the last move diverged."""
    tree_depth: Int[Array, "*draw chains"] | None
    """The number of doublings of the last trajectory; None for kernels without trees."""

    @property
    def total_energy(self) -> Any:
        """U = -log density, including the prior's share."""
        return self.energy if self.base_energy is None else self.energy + self.base_energy


class Snapshot(NamedTuple):
    """theta and round trips at some moments (leading axis)."""

    theta: Float[Array, "*moments_own regions"]
    """theta, with an axis for chains if each has its own."""
    trips: Int[Array, "*moments chains"]
    """The round trips that each chain has made."""


class MoveSums(NamedTuple):
    """Sums over moves: per chain inside the loop, over all chains outside it."""

    counts: Counts
    """The counts of events."""
    mechanical_acceptance: Float[Array, "*chains"] | float
    """The acceptance probability used to tune step sizes, summed over trajectories; rounded, and only reported."""


def make_move(
    key: Key[Array, ""],
    noise: Noise,
    state: RunState,
    setup: Setup,
    schedule: Schedule,
    is_draw: Bool[Array, ""] | bool = True,
    each: Each = vmap,
) -> tuple[RunState, Draw, MoveSums]:
    """Make one move of all chains, learn from it, and return the state, the draws and the counts of each chain.

    ``key`` is the key of the move, and ``noise`` is what ``noise_of`` makes of it. The returned draws are meaningful
    only if ``is_draw``. ``each`` maps a function of one chain over all chains.
    """
    used = state.sahmc.theta
    target = TiltedTarget(setup.energy_fn, setup.tilt, used.theta, jnp.exp(state.steps.log_step))
    gain = _gain(state, setup, schedule)
    sahmc, info = sahmc_step(key, state.sahmc, setup.kernel, target, gain, setup.desired, noise, each)
    sahmc = sahmc._replace(theta=average_theta(sahmc.theta, state.t >= schedule.average_from))
    level = info.level if setup.tilt.step_scale.shape[0] > 1 else jnp.zeros_like(info.level)
    tuned = partial(update_step_size, state.steps, info.mechanical_acceptance, level, setup.target_accept)
    steps = when(schedule.learn_step, tuned, state.steps)

    def at_ends(energy: Energy, level: Level, theta: Theta) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
        return setup.tilt.at_ends(theta, energy, level, schedule.bottom, schedule.top)

    ends = with_theta(each, at_ends, used.theta)(sahmc.chains.energy, info.level)
    trips = update_round_trips(state.trips, *ends)

    draw = when(is_draw, partial(_draw, setup, used.theta, sahmc, info, each), no_draw(setup, state))
    jumped = jnp.isnan(info.mechanical_acceptance)
    cold = ~jumped & ((info.level == 0) | (not isinstance(setup.tilt, TemperedTilt)))  # trajectories at beta = 1
    sums = _sums(info, setup.kernel.max_tree_depth, jumped, cold)
    glimpses = update_glimpses(state.glimpses, state.sahmc.chains, info, cold)
    return RunState(sahmc, steps, trips, glimpses, state.t + schedule.learn_theta, state.t_key + 1), draw, sums


def _gain(state: RunState, setup: Setup, schedule: Schedule) -> Float[Array, ""]:
    """Return the gain a_{t+1}, by the clock that the schedule selects; 0 if theta does not learn."""
    used = state.sahmc.theta
    visits = jnp.maximum(visit_clock(used.seen, setup.desired), state.t / CLOCK_LAG)
    clock = jnp.where(schedule.gain_by_visits, visits, state.t)
    return jnp.where(schedule.learn_theta, setup.gain(clock + 1), 0.0).astype(used.theta.dtype)


def _draw(
    setup: Setup, theta: Float[Array, "*own regions"], sahmc: SAHMCState, info: TransitionInfo, each: Each
) -> Draw:
    """Return what is kept of a move that was made with this ``theta``."""
    chains = sahmc.chains
    log_weight = log_weights(setup, theta, sahmc.theta.visits > 0, chains.energy, each)
    return Draw(
        position=chains.position if setup.keep is None else each(setup.keep)(chains.position),
        energy=chains.energy,
        base_energy=None if chains.base is None else chains.base.energy,
        region=info.level,
        log_weight=log_weight,
        acceptance_rate=info.acceptance_rate,
        diverging=info.diverging,
        tree_depth=info.tree_depth if setup.kernel.max_tree_depth else None,
    )


def no_draw(setup: Setup, state: RunState) -> Draw:
    """Return zeros in the shape of the draws of one move."""
    chains, dtype = state.sahmc.chains, state.sahmc.theta.theta.dtype
    each = chains.energy.shape
    place, number = jnp.zeros(each, jnp.int32), jnp.zeros(each, chains.energy.dtype)
    position: Position = jnp.zeros_like(chains.position)
    if setup.keep is not None:
        shapes = jax.eval_shape(setup.keep, chains.position[0])
        position = jax.tree.map(lambda x: jnp.zeros((*each, *x.shape), x.dtype), shapes)
    return Draw(
        position=position,
        energy=number,
        base_energy=None if chains.base is None else jnp.zeros_like(chains.base.energy),
        region=place,
        log_weight=jnp.zeros(each, dtype),
        acceptance_rate=number,
        diverging=jnp.zeros(each, bool),
        tree_depth=place if setup.kernel.max_tree_depth else None,
    )


def no_sums(state: RunState) -> MoveSums:
    """Return the sums over zero moves, for each chain."""
    energy = state.sahmc.chains.energy
    zero = jnp.zeros(energy.shape, jnp.int32)
    return MoveSums(Counts(*(zero for _ in Counts._fields)), jnp.zeros_like(energy))


def _sums(info: TransitionInfo, deepest: int, jumped: Bool[Array, " chains"], cold: Bool[Array, " chains"]) -> MoveSums:
    """Return the counts of a move, for each chain; ``deepest`` is the maximum tree depth, 0 without trees."""
    counts = Counts(
        gradients=info.n_steps,
        diverging=info.diverging,
        failed=info.failed,
        deepest=(info.tree_depth >= deepest) & (deepest > 0),
        trajectories=~jumped,
        jumps=jumped,
        jumps_accepted=jumped & info.is_accepted,
        cold=cold,
        cold_diverging=cold & info.diverging,
    )
    counts = Counts(*(jnp.asarray(each, jnp.int32) for each in counts))
    return MoveSums(counts, jnp.where(jumped, 0.0, info.mechanical_acceptance))


def snapshot_of(state: RunState) -> Snapshot:
    """Return the current theta and round trips."""
    return Snapshot(state.sahmc.theta.theta, state.trips.trips)


def log_weights(
    setup: Setup,
    theta: Float[Array, "*own regions"],
    visited: Bool[Array, "*own regions"],
    energy: Float[Array, " chains"],
    each: Each = vmap,
) -> Float[Array, " chains"]:
    """Return the log importance weight of each chain, whether theta is shared or each chain has its own.

    ``visited`` says which regions were ever visited, and ``energy`` is the energy on which the tilt acts.
    """
    if theta.ndim == 2:
        return each(lambda *own: setup.tilt.log_weight(own[0], own[1], setup.desired, own[2]))(theta, energy, visited)
    return each(lambda energy: setup.tilt.log_weight(theta, energy, setup.desired, visited))(energy)


def draw_structure(keep: TracedFunction | None, prior: bool, depth: bool) -> PyTreeDef:
    """Return the pytree structure of draws, given ``keep``, and whether they have a ``prior`` and a tree ``depth``."""
    kept = 0 if keep is None else jax.tree.unflatten(keep.returns, range(keep.returns.num_leaves))
    leaves: Any = (kept, 0, 0 if prior else None, 0, 0, 0, 0, 0 if depth else None)
    return jax.tree.structure(Draw(*leaves))
