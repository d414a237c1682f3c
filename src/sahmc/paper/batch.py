"""Many data sets: one chain of the paper's algorithm on each, side by side; our default on each, by ``sample_many``.

Ours does not go side by side in one program because each run finds its own number of levels.
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
from sahmc.kernels.hmc import HMC
from sahmc.kernels.nuts import NUTS
from sahmc.models.model import Model
from sahmc.paper import methods
from sahmc.results.result import Result
from sahmc.run.step_size import StepSizeState, init_step_size, update_step_size
from sahmc.sampling.many import sample_many
from sahmc.tilt.gain import Gain
from sahmc.tilt.importance import weighted_ess
from sahmc.tilt.target import ChainState, TiltedTarget
from sahmc.tilt.tilts import NoTilt, Tilt

CHUNK, NUTS_CHUNK = 1000, 56
"""Iterations that are compiled as one piece, of HMC and SAHMC and of NUTS; draws are collected after each."""
NUTS_BURN, LEAVES = 6 * NUTS_CHUNK, 1023
"""Iterations of NUTS that tune its step size; leaves of its largest tree, of 2^10 states."""


class Drawn(NamedTuple):
    """The draws kept after the burn-in, of one chain on each data set (leading axis)."""

    position: np.ndarray
    """The positions, (data set, draw, dim)."""
    energy: np.ndarray
    """-log density, (data set, draw)."""
    log_weight: np.ndarray
    """Log importance weights, (data set, draw), not normalised; all alike for HMC and NUTS."""
    lowest: np.ndarray
    """The lowest energy ever seen on each data set, the burn-in included."""
    theta: np.ndarray
    """theta at the end, (data set, region)."""


@partial(jax.jit, static_argnames=("log_density", "num", "thin"))
def _chunk(
    keys: Key[Array, " sets"], states: SAHMCState, lowest: Float[Array, " sets"], data: Any, first: Int[Array, ""],
    log_density: Callable[[Any, Any], Any], tilt: Tilt, kernel: HMC, gain: Gain, num: int, thin: int,
) -> tuple[tuple[SAHMCState, Array], tuple[Array, Array, Array]]:  # fmt: skip
    """Make ``num`` iterations on every data set, from number ``first`` on, and keep every ``thin``-th draw.

    What returns are the states and the lowest energies; positions, energies and log weights of the draws.
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

    ``log_density(position, data)`` is that of one data set; ``data`` is a pytree whose arrays lead with the data sets.
    ``steps`` are leapfrog steps of a trajectory, ``t0`` is that of the gain. Every ``thin``-th iteration after ``burn``
    is kept, in whole chunks: the burn-in ends with one. ``report(done, total)`` is called after each chunk.
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
    """Return how many iterations of NUTS do not cost more than ``gradients``, were all its trees of full size.

    They are whole chunks; one chunk of draws at least, which may be more than a small version has to spend.
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
    """Make a chunk of iterations of NUTS on every data set, from number ``first`` on.

    What returns are the states and the lowest energies; positions and energies of the draws.
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
    """Measure, on every data set, the posterior mean of ``quantity(position, data)`` by weight, and more.

    What returns, by name: "mean"; "ess", the least, median and largest over coordinates of the draws as they were made;
    "lowest", the lowest energy, twice, since ``default_on_each`` tells two; and "trace", energies of the first chain.
    """

    @jax.jit
    def mean(position: Any, log_weight: Any, data: Any) -> Any:
        values = jax.vmap(quantity, (0, None))(position, data)
        return jnp.tensordot(jax.nn.softmax(log_weight), values, 1)

    means, sizes = [], []
    lowest = np.column_stack([drawn.lowest, drawn.lowest])  # of draws and of all, as for ours
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
    """Run our default on the data sets ``chosen``, by ``sample_many``, and return what ``measure`` does.

    ``model`` is what that function is given, ``gradients`` the budget of each run, ``options`` go to ``sample``. "ess"
    is of weighted means; "lowest" is of the draws and of all that the run saw; "seconds" is the mean time of a run.
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
    """Return the lowest energy of a draw, and the lowest of all: of the modes that the run rolled down to as well."""
    drawn = float(-result.log_density.max())
    seen = result.mode_assignment
    return drawn, drawn if seen is None else min(drawn, float(np.min(seen.energy)))


def join(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Join what ``default_on_each`` returned for several blocks of data sets; the trace is that of the first."""
    arrays = {key: np.concatenate([part[key] for part in parts]) for key in ("mean", "ess", "lowest")}
    return {**arrays, "trace": parts[0]["trace"], "seconds": float(np.mean([part["seconds"] for part in parts]))}


def three(ess: np.ndarray) -> list[float]:
    """Return the least, median and largest of the effective sample sizes; nan, of what never moved, is left out."""
    return [float(f(ess)) for f in (np.nanmin, np.nanmedian, np.nanmax)]


def _one(data: Any, k: int) -> Any:
    """Return the data set of number ``k``."""
    return jax.tree.map(lambda leaf: leaf[k], data)
