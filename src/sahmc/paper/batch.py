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
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from sahmc._support.validate import require
from sahmc.algorithm import SAHMCState, init, sahmc_step
from sahmc.engine.step_size import StepSizeState, init_step_size, update_step_size
from sahmc.kernels.hmc import HMC
from sahmc.kernels.nuts import NUTS
from sahmc.models.model import Model
from sahmc.paper import methods
from sahmc.paper.experiment import Cell
from sahmc.results.result import Result
from sahmc.sampling.many import sample_many
from sahmc.tilt.gain import Gain
from sahmc.tilt.importance import weighted_ess
from sahmc.tilt.target import TiltedTarget
from sahmc.tilt.theta import count_visits
from sahmc.tilt.tilts import Tilt

CHUNK, NUTS_CHUNK = 1000, 56
"""The number of iterations in a compiled chunk, for HMC and SAHMC and for NUTS; draws are collected after each."""
NUTS_BURN, LEAVES = 6 * NUTS_CHUNK, 1023
"""The number of NUTS iterations that tune the step size, and of leaves of its largest tree, with 2^10 states."""

OfData = Callable[..., Array]
"""A function of a position and one data set: a log density, or a quantity of interest."""


class Chain(NamedTuple):
    """The chain on a data set; with a leading axis, those on all of them."""

    sahmc: SAHMCState
    """The state of one chain, and its theta."""
    steps: StepSizeState
    """The step size of NUTS, which is tuned; HMC does not use it."""
    lowest: Float[Array, "*sets"]
    """The lowest energy so far."""


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


def run_batch(
    log_density: OfData,
    data: PyTree,
    starts: np.ndarray,
    kernel: HMC | NUTS,
    *,
    tilt: Tilt,
    gain: Gain,
    iterations: int,
    burn: int,
    thin: int,
    report: Callable[[int, int], None],
) -> Drawn:
    """Run a kernel under a tilt, one chain on every data set, from its own start.

    ``log_density(position, data)`` is that of one data set. ``data`` is a pytree of arrays whose first axis is the data
    set. HMC moves as printed; NUTS tunes its step size to an acceptance of 0.8 in the first ``burn`` iterations. Every
    ``thin``-th iteration after ``burn`` is kept; the burn-in is rounded up to whole chunks. ``report(done, total)`` is
    called after each chunk.
    """
    chunk = NUTS_CHUNK if isinstance(kernel, NUTS) else CHUNK
    whole = iterations % chunk == 0 and chunk % thin == 0
    require(whole, f"iterations must be whole chunks of {chunk}, and those of thin", (iterations, thin), "round them")
    keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(0), jnp.arange(len(starts)))

    def begin(start: Float[Array, " dim"], data: PyTree) -> Chain:
        target = TiltedTarget.build(lambda x: log_density(x, data), start, tilt)
        state = init(target, start[None])
        if isinstance(kernel, NUTS):  # evaluated alone, as it moves: among chains, gradients differ in the last digit
            state = state._replace(chains=jax.tree.map(lambda x: x[None], target.evaluate(start)))
        steps = init_step_size(jnp.full(1, kernel.step_size, start.dtype), eager=False)
        return Chain(state, steps, state.chains.energy[0])

    chains = jax.jit(jax.vmap(begin))(jnp.asarray(starts), data)
    kept: list[tuple[np.ndarray, ...]] = []
    for first in range(0, iterations, chunk):
        chains, drawn = _chunk(
            keys, chains, data, jnp.int32(first), jnp.int32(burn), log_density, tilt, kernel, gain, chunk, thin
        )
        if first >= burn:
            kept.append(jax.tree.map(np.asarray, drawn))
        report(first + chunk, iterations)
    position, energy, weight = (np.concatenate(parts, axis=1) for parts in zip(*kept, strict=True))
    return Drawn(position, energy, weight, np.asarray(chains.lowest))


@partial(jax.jit, static_argnames=("log_density", "num", "thin"))
def _chunk(
    keys: Key[Array, " sets"], chains: Chain, data: PyTree, first: Int[Array, ""], burn: Int[Array, ""],
    log_density: OfData, tilt: Tilt, kernel: HMC | NUTS, gain: Gain, num: int, thin: int,
) -> tuple[Chain, tuple[Array, Array, Array]]:  # fmt: skip
    """Make ``num`` iterations on every data set, starting at iteration ``first``, and keep every ``thin``-th draw.

    Return the chains, then the positions, energies and log weights of the draws.
    """

    def one(key: Key[Array, ""], chain: Chain, data: PyTree) -> tuple[Chain, tuple[Array, Array, Array]]:
        target = TiltedTarget.build(lambda x: log_density(x, data), chain.sahmc.chains.position[0], tilt)
        desired = jnp.full(tilt.num_regions, 1.0 / tilt.num_regions, chain.lowest.dtype)

        def iterate(chain: Chain, t: Int[Array, ""]) -> tuple[Chain, None]:
            rng_key, t = jax.random.fold_in(key, first + t), first + t
            if isinstance(kernel, NUTS):
                sahmc, steps = _tuned_move(rng_key, chain, kernel, target, t < burn)
            else:
                size = jnp.where(tilt.num_regions > 1, gain(t + 1), 0.0).astype(chain.lowest.dtype)
                sahmc, steps = sahmc_step(rng_key, chain.sahmc, kernel, target, size, desired)[0], chain.steps
            return Chain(sahmc, steps, jnp.minimum(chain.lowest, sahmc.chains.energy[0])), None

        def thinned(chain: Chain, k: Int[Array, ""]) -> tuple[Chain, tuple[Array, Array, Array]]:
            chain, _ = jax.lax.scan(iterate, chain, k * thin + jnp.arange(thin))
            (position, energy, *_), theta = chain.sahmc
            weight = tilt.log_weight(theta.theta, energy[0], desired, theta.visits > 0)
            return chain, (position[0], energy[0], weight)

        return jax.lax.scan(thinned, chain, jnp.arange(num // thin))

    return jax.vmap(one)(keys, chains, data)


def _tuned_move(
    rng_key: Key[Array, ""], chain: Chain, kernel: NUTS, target: TiltedTarget, tuning: Bool[Array, ""]
) -> tuple[SAHMCState, StepSizeState]:
    """Move by ``kernel`` with the step size of the chain, and tune that while ``tuning``; then its average is used.

    This is no ``sahmc_step``: that knows no step size of a data set's own, and draws other numbers from the key.
    """
    size = jnp.exp(jnp.where(tuning, chain.steps.log_step, chain.steps.log_average))
    state = jax.tree.map(lambda x: x[0], chain.sahmc.chains)
    kernel = dataclasses.replace(kernel, step_size=1.0)
    state, info = kernel.step(rng_key, state, dataclasses.replace(target, step_scale=size))
    tuned = update_step_size(chain.steps, info.mechanical_acceptance[None], info.level[None], 0.8)
    steps = jax.tree.map(partial(jnp.where, tuning), tuned, chain.steps)
    theta = count_visits(chain.sahmc.theta, info.level[None])
    return SAHMCState(jax.tree.map(lambda x: x[None], state), theta), steps


def nuts_iterations(gradients: int) -> int:
    """Return the number of NUTS iterations that cost at most ``gradients``, even if all trees have full size.

    It is a whole number of chunks, with at least one chunk of draws. That may exceed the budget of a small version.
    """
    return max(gradients // LEAVES // NUTS_CHUNK, 1 + NUTS_BURN // NUTS_CHUNK) * NUTS_CHUNK


def measure(drawn: Drawn, data: PyTree, quantity: OfData) -> Cell:
    """Measure the draws on every data set, and return the results by name.

    The entry "mean" is the weighted posterior mean of ``quantity(position, data)``. The entry "ess" holds the minimum,
    median and maximum over coordinates for the unweighted draws. The entry "lowest" holds the lowest energy twice,
    because ``default_on_each`` returns two. The entry "trace" holds energies of the first chain.
    """

    @jax.jit
    def mean(position: Array, log_weight: Array, data: PyTree) -> Array:
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
    model: OfData | Model,
    data: PyTree,
    starts: np.ndarray,
    quantity: OfData,
    gradients: int,
    chosen: Sequence[int],
    **options: Any,
) -> Cell:
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


def join(parts: Sequence[Cell]) -> Cell:
    """Join the results of ``default_on_each`` for several blocks of data sets; the trace is that of the first."""
    arrays = {key: np.concatenate([part[key] for part in parts]) for key in ("mean", "ess", "lowest")}
    return {**arrays, "trace": parts[0]["trace"], "seconds": float(np.mean([part["seconds"] for part in parts]))}


def three(ess: np.ndarray) -> list[float]:
    """Return the minimum, median and maximum of effective sample sizes, without nan (quantities that never changed)."""
    return [float(f(ess)) for f in (np.nanmin, np.nanmedian, np.nanmax)]


def _one(data: PyTree, k: int) -> PyTree:
    """Return the data set with index ``k``."""
    return jax.tree.map(lambda leaf: leaf[k], data)
