"""Runs on many data sets: one chain of the paper's algorithm on each, in parallel; our default by ``sample_many``.

Our runs cannot share one program because each finds its own number of levels.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from sahmc._support.validate import require
from sahmc.algorithm import SAHMCState, init, sahmc_step
from sahmc.engine.step_size import StepSizeState, init_step_size, update_step_size
from sahmc.kernels.hmc import HMC
from sahmc.kernels.nuts import NUTS
from sahmc.models.model import Model
from sahmc.paper import methods
from sahmc.results.result import Result
from sahmc.sampling.many import sample_many
from sahmc.tilt.gain import Gain
from sahmc.tilt.importance import weighted_ess
from sahmc.tilt.target import ChainState, TiltedTarget
from sahmc.tilt.tilts import NoTilt, Tilt

CHUNK, NUTS_CHUNK = 1000, 56
"""The number of iterations in a compiled chunk, for HMC and SAHMC and for NUTS; draws are collected after each."""
NUTS_BURN, LEAVES = 6 * NUTS_CHUNK, 1023
"""The number of NUTS iterations that tune the step size, and of leaves of its largest tree, with 2^10 states."""


class Drawn(NamedTuple):
    """The draws kept after the burn-in, of one chain on each data set (first axis)."""

    position: np.ndarray
    """The positions, (data set, draw, dim)."""
    energy: np.ndarray
    """The energies, -log density, (data set, draw)."""
    log_weight: np.ndarray
    """The unnormalised log importance weights, (data set, draw); all equal for HMC and NUTS."""
    lowest: np.ndarray
    """The lowest energy on each data set, including the burn-in."""
    theta: np.ndarray
    """The final theta, (data set, region)."""


@partial(jax.jit, static_argnames=("log_density", "num", "thin"))
def _chunk(
    keys: Key[Array, " sets"], states: SAHMCState, lowest: Float[Array, " sets"], data: Any, first: Int[Array, ""],
    log_density: Callable[[Any, Any], Any], tilt: Tilt, kernel: HMC, gain: Gain, num: int, thin: int,
) -> tuple[tuple[SAHMCState, Array], tuple[Array, Array, Array]]:  # fmt: skip
    """Make ``num`` iterations on every data set, starting at iteration ``first``, and keep every ``thin``-th draw.

    Return the states and the lowest energies, then the positions, energies and log weights of the draws.
    """
    regions = tilt.num_regions
    desired = jnp.full(regions, 1.0 / regions, lowest.dtype)

    def one(key: Key[Array, ""], state: SAHMCState, low: Float[Array, ""], data: Any) -> Any:
        example = state.chains.position[0]
        target = TiltedTarget.build(lambda x: log_density(x, data), example, tilt)

        def iterate(carry: Any, t: Any) -> Any:
            state, low = carry
            size = jnp.where(regions > 1, gain(first + t + 1), 0.0).astype(low.dtype)
            state, _ = sahmc_step(jax.random.fold_in(key, first + t), state, kernel, target, size, desired)
            return (state, jnp.minimum(low, state.chains.energy[0])), None

        def thinned(carry: Any, k: Any) -> Any:
            carry, _ = jax.lax.scan(iterate, carry, k * thin + jnp.arange(thin))
            state = carry[0]
            theta = state.theta
            weight = tilt.log_weight(theta.theta, state.chains.energy[0], desired, theta.visits > 0)
            return carry, (state.chains.position[0], state.chains.energy[0], weight)

        return jax.lax.scan(thinned, (state, low), jnp.arange(num // thin))

    return jax.vmap(one)(keys, states, lowest, data)


def run_batch(
    log_density: Callable[[Any, Any], Any],
    data: Any,
    starts: np.ndarray,
    *,
    tilt: Tilt | None,
    step_size: float,
    steps: int,
    t0: int | float,
    iterations: int,
    burn: int,
    thin: int,
    seed: int,
    report: Callable[[int, int], None],
) -> Drawn:
    """Run HMC (``tilt`` None) or SAHMC as printed, one chain on every data set, from its own start.

    ``log_density(position, data)`` is that of one data set. ``data`` is a pytree of arrays whose first axis is the data
    set. ``steps`` is the number of leapfrog steps of a trajectory; ``t0`` is that of the gain. Every ``thin``-th
    iteration after ``burn`` is kept; the burn-in is rounded up to whole chunks. ``report(done, total)`` is called after
    each chunk.
    """
    whole = iterations % CHUNK == 0 and CHUNK % thin == 0
    require(whole, f"iterations must be whole chunks of {CHUNK}, and those of thin", (iterations, thin), "round them")
    tilt = tilt or NoTilt()
    kernel = HMC(step_size=step_size, num_integration_steps=steps, metric="unit", jitter=0)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(seed), jnp.arange(len(starts)))

    def begin(start: Float[Array, " dim"], data: Any) -> SAHMCState:
        return init(TiltedTarget.build(lambda x: log_density(x, data), start, tilt), start[None])

    states = jax.jit(jax.vmap(begin))(jnp.asarray(starts), data)
    lowest = states.chains.energy[:, 0]
    kept: list[Any] = []
    for first in range(0, iterations, CHUNK):
        (states, lowest), drawn = _chunk(
            keys, states, lowest, data, jnp.int32(first), log_density, tilt, kernel, Gain(t0), CHUNK, thin
        )
        if first >= burn:
            kept.append(jax.tree.map(np.asarray, drawn))
        report(min(first + CHUNK, iterations), iterations)
    position, energy, weight = (np.concatenate(parts, axis=1) for parts in zip(*kept, strict=True))
    theta = np.asarray(states.theta.theta)
    return Drawn(position, energy, weight, np.asarray(lowest), theta)


def nuts_iterations(gradients: int) -> int:
    """Return the number of NUTS iterations that cost at most ``gradients``, even if all trees have full size.

    It is a whole number of chunks, with at least one chunk of draws. That may exceed the budget of a small version.
    """
    return max(gradients // LEAVES // NUTS_CHUNK, 1 + NUTS_BURN // NUTS_CHUNK) * NUTS_CHUNK


def run_nuts(
    log_density: Callable[[Any, Any], Any],
    data: Any,
    starts: np.ndarray,
    *,
    step_size: float,
    iterations: int,
    seed: int,
    report: Callable[[int, int], None],
) -> Drawn:
    """Run NUTS, one chain on every data set; its step size is tuned from ``step_size`` to an acceptance of 0.8.

    The other arguments are those of ``run_batch``.
    """
    keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(seed), jnp.arange(len(starts)))

    def begin(start: Float[Array, " dim"], data: Any) -> tuple[ChainState, StepSizeState]:
        target = TiltedTarget.build(lambda x: log_density(x, data), start, NoTilt())
        return target.evaluate(start), init_step_size(jnp.full(1, step_size, start.dtype), eager=False)

    states = jax.jit(jax.vmap(begin))(jnp.asarray(starts), data)
    lowest = states[0].energy
    kept: list[Any] = []
    for first in range(0, iterations, NUTS_CHUNK):
        tuning = first < NUTS_BURN
        (states, lowest), drawn = _nuts_chunk(keys, states, lowest, data, jnp.int32(first), log_density, tuning)
        if not tuning:
            kept.append(jax.tree.map(np.asarray, drawn))
        report(first + NUTS_CHUNK, iterations)
    position, energy = (np.concatenate(parts, axis=1) for parts in zip(*kept, strict=True))
    return Drawn(position, energy, np.zeros_like(energy), np.asarray(lowest), np.zeros((len(starts), 1)))


@partial(jax.jit, static_argnames=("log_density", "tuning"))
def _nuts_chunk(
    keys: Key[Array, " sets"], states: tuple[ChainState, StepSizeState], lowest: Float[Array, " sets"], data: Any,
    first: Int[Array, ""], log_density: Callable[[Any, Any], Any], tuning: bool,
) -> tuple[tuple[tuple[ChainState, StepSizeState], Array], tuple[Array, Array]]:  # fmt: skip
    """Make a chunk of NUTS iterations on every data set, starting at iteration ``first``.

    Return the states and the lowest energies, then the positions and energies of the draws.
    """
    kernel = NUTS(step_size=1.0, metric="unit")

    def one(key: Key[Array, ""], state: tuple[ChainState, StepSizeState], low: Float[Array, ""], data: Any) -> Any:
        target = TiltedTarget.build(lambda x: log_density(x, data), state[0].position, NoTilt())

        def iterate(carry: Any, t: Any) -> Any:
            (chain, step), low = carry
            size = jnp.exp(step.log_step if tuning else step.log_average)
            scaled = dataclasses.replace(target, step_scale=size)
            chain, info = kernel.step(jax.random.fold_in(key, first + t), chain, scaled)
            if tuning:
                step = update_step_size(step, info.mechanical_acceptance[None], info.level[None], 0.8)
            return ((chain, step), jnp.minimum(low, chain.energy)), (chain.position, chain.energy)

        return jax.lax.scan(iterate, (state, low), jnp.arange(NUTS_CHUNK))

    return jax.vmap(one)(keys, states, lowest, data)


def measure(drawn: Drawn, data: Any, quantity: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """Measure the draws on every data set, and return the results by name.

    The entry "mean" is the weighted posterior mean of ``quantity(position, data)``. The entry "ess" holds the minimum,
    median and maximum over coordinates for the unweighted draws. The entry "lowest" holds the lowest energy twice,
    because ``default_on_each`` returns two. The entry "trace" holds energies of the first chain.
    """

    @jax.jit
    def mean(position: Any, log_weight: Any, data: Any) -> Any:
        values = jax.vmap(quantity, (0, None))(position, data)
        return jnp.tensordot(jax.nn.softmax(log_weight), values, 1)

    means, sizes = [], []
    lowest = np.column_stack([drawn.lowest, drawn.lowest])  # of draws and overall, as for our default
    even = np.full((1, drawn.energy.shape[1]), 1 / drawn.energy.shape[1])
    for k in range(len(drawn.energy)):
        means.append(np.asarray(mean(drawn.position[k], drawn.log_weight[k], _one(data, k))))
        sizes.append(three(weighted_ess(drawn.position[k][None].astype(float), even)))
    return {"mean": np.array(means), "ess": np.array(sizes), "lowest": lowest, "trace": drawn.energy[0]}


def default_on_each(
    model: Callable[[Any, Any], Any] | Model,
    data: Any,
    starts: np.ndarray,
    quantity: Callable[..., Any],
    gradients: int,
    chosen: Sequence[int],
    **options: Any,
) -> dict[str, Any]:
    """Run our default on the data sets ``chosen`` with ``sample_many``, and return the same results as ``measure``.

    ``model`` goes to that function and ``options`` to ``sample``; ``gradients`` is the budget of each run. "ess" is for
    weighted means. "lowest" holds the lowest energy of the draws and that of the whole run. "seconds" is the mean time
    of a run.
    """
    sets = [_one(data, k) for k in chosen]
    each = [{"initvals": jnp.asarray(starts[k]), "random_seed": int(k)} for k in chosen]
    arguments = {**methods.budget(gradients), "progressbar": False, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        results = sample_many(model, [(one,) for one in sets], each=each, **arguments)
    means = [
        np.asarray(result.expectation(partial(quantity, data=one)).mean)
        for one, result in zip(sets, results, strict=True)
    ]
    arrays = {"mean": np.array(means), "ess": np.array([three(result.ess()) for result in results])}
    seconds = float(np.mean([result.settings["sampling_time"] for result in results]))
    lowest = np.array([_lowest(result) for result in results])
    return {**arrays, "lowest": lowest, "trace": np.asarray(-results[0].log_density[0]), "seconds": seconds}


def _lowest(result: Result) -> tuple[float, float]:
    """Return the lowest energy of a draw, and the lowest overall, including the minima of modes."""
    drawn = float(-result.log_density.max())
    seen = result.mode_assignment
    return drawn, drawn if seen is None else min(drawn, float(np.min(seen.energy)))


def join(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Join the results of ``default_on_each`` for several blocks of data sets; the trace is that of the first."""
    arrays = {key: np.concatenate([part[key] for part in parts]) for key in ("mean", "ess", "lowest")}
    return {**arrays, "trace": parts[0]["trace"], "seconds": float(np.mean([part["seconds"] for part in parts]))}


def three(ess: np.ndarray) -> list[float]:
    """Return the minimum, median and maximum of effective sample sizes, without nan (quantities that never changed)."""
    return [float(f(ess)) for f in (np.nanmin, np.nanmedian, np.nanmax)]


def _one(data: Any, k: int) -> Any:
    """Return the data set with index ``k``."""
    return jax.tree.map(lambda leaf: leaf[k], data)
