"""The start of a run: its seed, its traced model, and the initial positions of its chains."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from sahmc._support.compiled import compiled
from sahmc._support.platform import placed
from sahmc._support.traced import TracedFunction
from sahmc._support.types import Unravel
from sahmc._support.validate import Given, require
from sahmc.algorithm import SAHMCState, init
from sahmc.engine.glimpses import no_glimpses
from sahmc.engine.move import RunState
from sahmc.engine.plan import Plan
from sahmc.engine.round_trips import init_round_trips
from sahmc.engine.step_size import init_step_size
from sahmc.models.energy import trace_energy
from sahmc.models.evaluation import energies_and_gradients
from sahmc.models.model import Model
from sahmc.models.predictor import Predictor
from sahmc.models.starts import check_starts, finite_starts, prior_positions, starting_positions
from sahmc.modes.quench import come_down
from sahmc.tilt.target import TiltedTarget
from sahmc.tilt.tilts import NoTilt

START_ATTEMPTS, MOST_START_ATTEMPTS = 20, 200
"""The number of attempts to draw starts with a finite log density. After the first number, chains without one take the
starts of others; if no chain has one, attempts go on up to the second."""
FULL_ATTEMPTS = 4
"""The number of these attempts after which starts are drawn nearer to 0."""

BOUND_DISTANCES, BOUND_WAYS, BOUND_NATS = 10.0 ** np.arange(1, 9), 8, 100.0
"""The distances from the start at which the log density is computed, the number of random lines, and a rise in nats.
The log density rises without end if it rises by more than that from each distance to the next. The unit of a parameter
may be large, so distances go far."""
BOUND_BEYOND = 10.0 ** np.arange(0, 10, 3)
"""The multiples of the largest distance at which a last check is made for a falling log density."""
BOUND_AXES, BOUND_ASIDE = 16, 0.1
"""The maximum number of coordinate axes that are checked, and the offset from the start at which lines are followed
again."""

IMPLEMENTATION = "threefry2x32"
"""The key implementation of every run, whatever kind of key was passed."""

_init = compiled(init)


class Prepared(NamedTuple):
    """A model combined with a plan: everything a run starts from."""

    plan: Plan
    """The plan, with its kernel bound to positions like these."""
    energy_fn: TracedFunction
    """The traced energy of the model, a function of a flat position."""
    positions: Float[Array, "chains dim"]
    """The flat positions from which chains start."""
    unravel: Unravel
    """The map from a flat position back to the user's structure."""
    predictor: Predictor | None = None
    """The object that computes the likelihood of each observation and simulates data; None if the model has none."""
    draw_prior: Callable[[], np.ndarray | None] | None = None
    """A function that draws positions (chain, dim) from the prior; None if the user gave the starts."""

    @property
    def example(self) -> jax.Array:
        """The position of the first chain."""
        return placed(np.asarray(self.positions)[0])


def prepare(model: Model, plan: Plan, initvals: Given, rng_key: Key[Array, ""]) -> Prepared:
    """Prepare a run: trace the energy of a model, and find initial positions for its chains.

    ``initvals`` are those of ``sample``. Starts drawn by the model are redrawn where its density is zero or undefined.
    If that does not help, they are copied from other chains.
    """
    ready = prepare_at(model, plan, *starting_positions(model, initvals, plan.chains, rng_key))
    positions = ready.positions
    for attempt in range(1, MOST_START_ATTEMPTS if initvals is None else 1):
        lost = ~finite_starts(evaluate_starts(ready.energy_fn, positions)[1].chains)
        if not lost.any():
            break
        if attempt >= START_ATTEMPTS and not lost.all():
            positions = positions[np.resize(np.flatnonzero(~lost), len(lost))].at[~lost].set(positions[~lost])
            break
        again, _ = starting_positions(model, None, plan.chains, jax.random.fold_in(rng_key, attempt))
        again = again * _shrinkage(model, attempt)
        positions = positions.at[np.flatnonzero(lost)].set(again[np.flatnonzero(lost)])
    ready = ready._replace(positions=positions)
    if initvals is not None:
        return ready
    key_prior = jax.random.fold_in(rng_key, MOST_START_ATTEMPTS)
    like = ready.unravel(ready.example)
    return ready._replace(draw_prior=partial(prior_positions, model, plan.chains, key_prior, like))


def _shrinkage(model: Model, attempt: int) -> float:
    """Return the factor that shrinks starts towards 0 at this ``attempt``, where 0 is a sensible value.

    It applies to the unconstrained values of models that name their variables. Large numbers in the data can make the
    density vanish at all but small values.
    """
    return 1.0 if model.unconstrain is None else 0.5 ** max(0, attempt - FULL_ATTEMPTS)


def prepare_at(model: Model, plan: Plan, positions: Float[Array, "chains dim"], unravel: Unravel) -> Prepared:
    """Prepare a run with chains that start at these ``positions``; ``unravel`` turns one into the user's structure."""
    plan.kernel.check(positions.shape[1])
    example = placed(np.asarray(positions)[0])
    plan = dataclasses.replace(plan, kernel=plan.kernel.bound(unravel, example))
    energy_fn = trace_energy(model, unravel, example, plan.kernel.uses_gradient)
    return Prepared(plan, energy_fn, positions, unravel, model.predictor)


def parse_seed(random_seed: Given) -> tuple[int | list[int], Key[Array, ""]]:
    """Return the recorded form of a seed, an int or the words of a key, and the key."""
    words = len(jax.random.key_data(jax.random.key(0)))
    if isinstance(random_seed, jax.Array) and random_seed.dtype == jnp.uint32 and random_seed.shape == (words,):
        random_seed = jax.random.wrap_key_data(random_seed)  # made by jax.random.PRNGKey
    is_key = isinstance(random_seed, jax.Array) and jnp.issubdtype(random_seed.dtype, jax.dtypes.prng_key)
    is_recorded = (
        isinstance(random_seed, list)
        and len(random_seed) == words
        and all(type(word) is int and 0 <= word < 2**32 for word in random_seed)
    )
    seed: int | list[int]
    if is_key and random_seed.shape == ():
        seed, rng_key = jax.random.key_data(random_seed).tolist(), random_seed
    elif is_recorded:
        seed, rng_key = random_seed, jax.random.wrap_key_data(jnp.asarray(random_seed, jnp.uint32))
    else:
        if random_seed is None or isinstance(random_seed, np.random.Generator):
            random_seed = int(np.random.default_rng(random_seed).integers(2**31))
        whole = isinstance(random_seed, (int, np.integer)) and not isinstance(random_seed, bool)
        must = "random_seed must be an int of 0 to 2**63 - 1, a NumPy Generator, a JAX key or None"
        require(whole and 0 <= random_seed < 2**63, must, random_seed, "pass 0, say")
        seed, rng_key = int(random_seed), jax.random.key(int(random_seed))
    if str(jax.random.key_impl(rng_key)) != IMPLEMENTATION:
        rng_key = jax.random.wrap_key_data(jax.random.bits(rng_key, (2,), jnp.uint32), impl=IMPLEMENTATION)
    return seed, rng_key


class Started(NamedTuple):
    """The chains at their starts."""

    state: RunState
    """The chains."""
    minima: np.ndarray
    """Minima (point, dim) below absurdly high starts, for the search."""
    gradients: int
    """The gradients spent."""


def start_chains(ready: Prepared) -> Started:
    """Return the chains at their starts; raise if the log density is not finite there.

    If the step size is to be tuned, chains with an absurdly high starting energy first descend.
    """
    positions, kernel = ready.positions, ready.plan.kernel
    one, spent, minima = placed(np.ones(1), positions.dtype), 0, np.empty((0, positions.shape[1]), positions.dtype)
    target, start = evaluate_starts(ready.energy_fn, positions)
    check_starts(start.chains.energy, start.chains.grad, start.chains.base)
    looked = check_bounded(ready.energy_fn, np.asarray(positions[0]))
    if kernel.uses_gradient:
        spent += looked
    if kernel.tunes_step_size and kernel.uses_gradient:
        search = ready.plan.looks_for_modes and ready.plan.earlier is None
        positions, minima, cost = come_down(ready.energy_fn, positions, ready.draw_prior, search)
        spent += cost
        start = _init(target, positions)
    zero = placed(0, np.int32)
    steps, trips = init_step_size(one, eager=False), init_round_trips(len(positions))
    return Started(RunState(start, steps, trips, no_glimpses(positions), zero, zero), minima, spent)


def check_bounded(energy_fn: TracedFunction, start: np.ndarray) -> int:
    """Raise ``ValueError`` if the log density rises without end both ways along a line; return the number of points.

    The lines pass through ``start`` (dim,). Some have random directions; others follow coordinates in which the
    gradient points outwards everywhere. A density that can be normalised may rise one way along a line, towards a mode.
    It hardly rises both ways, at every distance, by more nats than any mode is deep. That could happen along a ridge
    that gets ever narrower, so lines are followed once more beside the start.
    """
    if energy_fn.calls_out:  # external code may fail that far out, or take long
        return 0
    rng, dim = np.random.default_rng(0), len(start)
    ways = rng.normal(size=(BOUND_WAYS, dim))
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    far = max(1.0, float(np.linalg.norm(start.astype(float)))) * BOUND_DISTANCES
    height, slope, away = _followed(energy_fn, start, ways, far)
    with np.errstate(invalid="ignore"):
        upwards = (slope * away > 0).all(axis=(0, 1, 2))  # in each coordinate
    if np.isnan(slope).all():  # there is no gradient
        upwards = np.ones(dim, bool)
    axes = np.eye(dim)[np.flatnonzero(upwards)[:BOUND_AXES]]
    suspected, num = np.concatenate([ways[_rises(height)], axes]), height.size
    for aside in (0.0, BOUND_ASIDE):
        if not len(suspected):
            return num
        begin = (start + aside * rng.normal(size=dim) * np.maximum(1.0, np.abs(start))).astype(start.dtype)
        height = _followed(energy_fn, begin, suspected, far)[0]
        num += height.size
        suspected, height = suspected[_rises(height)], height[..., _rises(height)]
    if len(suspected):  # it may still fall beyond modes that are very far apart
        beyond = _followed(energy_fn, start, suspected, far[-1] * BOUND_BEYOND)[0]
        num += beyond.size
        with np.errstate(invalid="ignore"):
            steps = np.diff(beyond, axis=0)
        falls = (np.isfinite(steps) & (steps < 0)).any(axis=(0, 1))
        suspected, height = suspected[~falls], height[..., ~falls]
    low, high = (height[k].mean() for k in (0, -1)) if len(suspected) else (0.0, 0.0)
    require(
        not len(suspected),
        "the log density must fall, or at least not rise without end, far from where chains start",
        f"{low:.4g} at a distance of {far[0]:.3g} both ways along a line, and {high:.4g} at {far[-1]:.3g}",
        "look for a missing minus sign, also of one term: the log density is wanted, not the energy or the loss",
    )
    return num


def _followed(
    energy_fn: TracedFunction, begin: np.ndarray, ways: np.ndarray, far: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log densities (distance, 2, way) both ways along lines, gradients (..., dim), and the offsets."""
    away = far[:, None, None, None] * np.stack([ways, -ways])
    points = (begin + away).reshape(-1, len(begin)).astype(begin.dtype)
    energy, grad = energies_and_gradients(energy_fn, points)
    return -energy.reshape(away.shape[:-1]), -grad.reshape(away.shape), away


def _rises(height: np.ndarray) -> np.ndarray:
    """Tell for each line whether log densities (distance, 2, way) rise without end both ways."""
    with np.errstate(invalid="ignore"):
        rises = np.diff(height, axis=0) > BOUND_NATS
    return np.asarray(rises.all(axis=(0, 1)))  # false if any of them is not finite


def evaluate_starts(
    energy_fn: TracedFunction, positions: Float[Array, "chains dim"]
) -> tuple[TiltedTarget, SAHMCState]:
    """Return the target without a tilt, and the chains at these positions."""
    zero, one = (placed([value], positions.dtype) for value in (0.0, 1.0))
    target = TiltedTarget(energy_fn, NoTilt(), zero, one)
    return target, _init(target, positions)
