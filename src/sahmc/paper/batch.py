"""Many data sets at once: one chain of the paper's algorithm on each, side by side."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sahmc.algorithm import init, sahmc_step
from sahmc.gain import Gain
from sahmc.kernels import HMC
from sahmc.target import TiltedTarget
from sahmc.tilt import NoTilt, Tilt

CHUNK = 1000
"""Iterations between two looks at the host."""


class Drawn(NamedTuple):
    """Of each replicate (leading axis) every so many-th draw after the burn-in; and the lowest energy ever seen."""

    position: np.ndarray
    energy: np.ndarray
    log_weight: np.ndarray
    lowest: np.ndarray
    theta: np.ndarray


@partial(jax.jit, static_argnames=("log_density", "num", "thin"))
def _chunk(
    keys: Any, states: Any, lowest: Any, data: Any, first: Any, log_density: Any, tilt: Tilt, kernel: HMC, gain: Gain,
    num: int, thin: int,
) -> Any:  # fmt: skip
    """``num`` iterations of every replicate, from number ``first`` on."""
    regions = tilt.num_regions
    desired = jnp.full(regions, 1.0 / regions, lowest.dtype)

    def one(key: Any, state: Any, low: Any, data: Any) -> Any:
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
            weight = tilt.bias(theta.theta, state.chains.energy[0])
            weight -= tilt.log_normaliser(theta.theta, desired, theta.visits > 0)
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
    """HMC (``tilt`` None) or SAHMC as printed, on every data set (leading axis of ``data``) from its own start."""
    tilt = tilt or NoTilt()
    kernel = HMC(step_size=step_size, num_integration_steps=steps, metric="unit", jitter=0)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(seed), jnp.arange(len(starts)))

    def begin(start: Any, data: Any) -> Any:
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
