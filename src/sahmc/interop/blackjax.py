"""SAHMC as a BlackJAX sampling algorithm, one iteration per step."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from sahmc._support.types import Position, PositionFn, Unravel
from sahmc._support.validate import as_array, as_numbers, is_number, require
from sahmc.algorithm import SAHMCState, init, sahmc_step
from sahmc.hamiltonian.metrics import ConstantMetric, DenseMetric, DiagonalMetric, UnitMetric
from sahmc.kernels.hmc import HMC
from sahmc.tilt.gain import Gain
from sahmc.tilt.target import TiltedTarget
from sahmc.tilt.theta import desired_frequencies
from sahmc.tilt.tilts import Tilt


class SamplingAlgorithm(NamedTuple):
    """A pair of functions as in BlackJAX, accepted by ``blackjax.util.run_inference_algorithm``."""

    init: Callable[..., BlackJAXState]
    """``init(position)`` returns the initial state of a chain."""
    step: Callable[..., tuple[BlackJAXState, BlackJAXInfo]]
    """``step(rng_key, state)`` makes one iteration; it returns the new state and diagnostics."""


class BlackJAXState(NamedTuple):
    """The state of one chain."""

    position: Position
    """The position, in the user's structure."""
    logdensity: Float[Array, ""]
    """The log density there, without the tilt."""
    log_weight: Float[Array, ""]
    """The log importance weight, under the theta with which this position was drawn; it recovers the posterior."""
    theta: Float[Array, " regions"]
    """The theta for the next iteration."""
    t: Int[Array, ""]
    """The number of iterations so far."""
    sahmc: SAHMCState
    """The same chain in the form this library uses: flat, with a leading axis of one chain."""


class BlackJAXInfo(NamedTuple):
    """Diagnostics of one iteration, with BlackJAX's names."""

    acceptance_rate: Float[Array, ""]
    """The acceptance probability of the proposal."""
    is_accepted: Bool[Array, ""]
    is_divergent: Bool[Array, ""]
    energy: Float[Array, ""]
    """The energy U = -log density after the iteration. BlackJAX's own kernels add the kinetic energy."""
    num_integration_steps: Int[Array, ""]
    region: Int[Array, ""]
    """The region of the partition in which the chain is counted."""


def blackjax_kernel(
    logdensity_fn: PositionFn,
    *,
    tilt: Tilt,
    step_size: ArrayLike,
    inverse_mass_matrix: object = None,
    num_integration_steps: int = 10,
    gain: Gain | float | int | None = 1000,
    theta: object = None,
    desired: object = None,
) -> SamplingAlgorithm:
    """Return the paper's algorithm for one chain, as the pair ``(init, step)`` of BlackJAX.

    Draws come from the tilted density: weight them by ``exp(state.log_weight)``.

    ``tilt``
        the tilt with its partition; ``StepTilt(EnergyPartition.uniform(0, 20, 2))`` is the paper's.
    ``step_size``, ``inverse_mass_matrix``
        as ``blackjax.window_adaptation`` returns them: a variance for each coordinate, or a matrix; the identity if
        None.
    ``num_integration_steps``
        leapfrog steps of one trajectory.
    ``gain``, ``theta``
        theta starts from ``theta`` (zero if None) and learns with ``gain``, a ``Gain`` or its t0. ``gain=None`` keeps
        theta fixed: use it with a theta learnt in another run.
    ``desired``
        the desired visiting frequency of each region; uniform if None.
    """
    must = "logdensity_fn must be a function of a position"
    require(callable(logdensity_fn), must, logdensity_fn, "pass the log density")
    require(isinstance(tilt, Tilt), "tilt must be a tilt with its partition", tilt, "pass sahmc.StepTilt(partition)")
    ok = gain is None or is_number(gain) or isinstance(gain, Gain)
    require(ok, "gain must be a Gain, a number t0 or None", gain, "pass 1000, say")
    clock = gain if gain is None or isinstance(gain, Gain) else Gain(gain)
    regions = tilt.num_regions
    frequencies = desired_frequencies(desired, regions)
    must = f"theta must have one number for each of the {regions} regions"
    todo = "pass Result.theta of a run with this partition"
    first = np.zeros(regions) if theta is None else as_numbers(theta, must, todo)
    require(first.shape == (regions,), must, first.shape, todo)
    kernel = HMC(
        step_size=step_size, num_integration_steps=num_integration_steps, metric=_metric(inverse_mass_matrix), jitter=0
    )

    def target_at(position: Position) -> tuple[TiltedTarget, Float[Array, " dim"], Unravel]:
        flat, unravel = ravel_pytree(position)
        kernel.check(flat.size)
        return TiltedTarget.build(lambda x: logdensity_fn(unravel(x)), flat, tilt), flat, unravel

    def begin(position: Position, rng_key: Array | None = None) -> BlackJAXState:
        target, flat, unravel = target_at(position)
        state = init(target.with_theta(jnp.asarray(first, flat.dtype)), flat[None])
        return _state(state, state.theta.theta, unravel, jnp.zeros((), jnp.int32))

    def step(rng_key: Array, state: BlackJAXState) -> tuple[BlackJAXState, BlackJAXInfo]:
        target, flat, unravel = target_at(state.position)
        used = state.sahmc.theta.theta
        size = jnp.zeros((), flat.dtype) if clock is None else clock(state.t + 1).astype(flat.dtype)
        new, info = sahmc_step(rng_key, state.sahmc, kernel, target, size, frequencies.astype(flat.dtype))
        one = jax.tree.map(lambda x: x[0], info)
        told = BlackJAXInfo(
            one.acceptance_rate, one.is_accepted, one.diverging, new.chains.energy[0], one.n_steps, one.level
        )
        return _state(new, used, unravel, state.t + 1), told

    def _state(state: SAHMCState, used: Float[Array, " regions"], unravel: Unravel, t: Int[Array, ""]) -> BlackJAXState:
        """Return the state with BlackJAX's names; ``used`` is the theta with which the position was drawn."""
        energy = state.chains.energy[0]
        seen = state.theta.visits > 0
        weight = tilt.log_weight(used, energy, frequencies.astype(used.dtype), seen)
        return BlackJAXState(unravel(state.chains.position[0]), -energy, weight, state.theta.theta, t, state)

    return SamplingAlgorithm(begin, step)


def _metric(inverse_mass_matrix: object) -> ConstantMetric:
    if inverse_mass_matrix is None:
        return UnitMetric()
    must = "inverse_mass_matrix must be a vector of variances, or a matrix"
    values = as_array(inverse_mass_matrix, must, "pass what blackjax.window_adaptation returned")
    return DiagonalMetric(values) if values.ndim == 1 else DenseMetric(values)
