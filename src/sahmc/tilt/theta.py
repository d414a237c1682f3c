"""The vector theta: learnt by stochastic approximation, re-centred, averaged and frozen; and the region masses."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from sahmc._support.chain_axis import count, pool
from sahmc._support.platform import placed
from sahmc._support.validate import as_numbers, require

COMPACT_SET = 1e4
"""The default bound of the paper's compact set Theta, the cube [-bound, bound]^m."""


class ThetaState(NamedTuple):
    """The state of theta: (regions,) if chains share it, (chains, regions) if each has its own."""

    theta: Float[Array, "*own regions"]
    visits: Int[Array, "*own regions"]
    """The number of states counted in each region."""
    seen: Float[Array, "*own regions"]
    """The sum of the memberships from which theta has learnt."""
    average: Float[Array, "*own regions"]
    """The mean of theta over ``num_averaged`` iterations."""
    num_averaged: Int[Array, ""]


@jax.jit
def init_theta(theta: Float[Array, "*own regions"]) -> ThetaState:
    """Return the state that begins at ``theta``, with no region visited and nothing averaged."""
    zero = jnp.zeros_like(theta)
    return ThetaState(theta, jnp.zeros(theta.shape, jnp.int32), zero, zero, jnp.zeros((), jnp.int32))


def visit_clock(seen: Float[Array, "*own regions"], desired: Float[Array, " regions"]) -> Float[Array, ""]:
    """Return the learning time of theta, set by its least visited region; t if all were visited as often as desired.

    ``seen`` is the sum of the memberships over t iterations; ``desired`` is pi.
    """
    return jnp.min(seen / desired)


def recentre(theta: Float[Array, "*own regions"], bound: float = COMPACT_SET) -> Float[Array, "*own regions"]:
    """Return theta + c*, where c* = 0 inside the compact set [-bound, bound]^m.

    Outside it c* is the shift that centres theta.
    """
    high, low = theta.max(-1, keepdims=True), theta.min(-1, keepdims=True)
    outside = jnp.maximum(high, -low) > bound
    return theta - jnp.where(outside, 0.5 * (high + low), 0.0)


def learn_theta(
    state: ThetaState,
    membership: Float[Array, "chains regions"],
    gain: Float[Array, ""],
    desired: Float[Array, " regions"],
) -> ThetaState:
    """Return theta_{t+1} = theta_t + a_{t+1} (e_{t+1} - pi), re-centred.

    e_{t+1} is ``membership``, the position of the chains after the decision. A theta shared by all chains learns from
    the mean of e over them. ``gain`` is a_{t+1}; ``desired`` is pi.
    """
    if state.theta.ndim == 1:
        membership = pool(membership)
    theta = recentre(state.theta + gain * (membership - desired))
    return state._replace(theta=theta, seen=state.seen + membership)


def count_visits(state: ThetaState, region: Int[Array, " chains"]) -> ThetaState:
    """Return the state with each chain counted in its ``region``."""
    visits = (region[:, None] == jnp.arange(state.visits.shape[-1])).astype(jnp.int32)
    return state._replace(visits=state.visits + (count(visits) if state.visits.ndim == 1 else visits))


def average_theta(state: ThetaState, take: Bool[Array, ""] | bool) -> ThetaState:
    """Update the running mean of theta if ``take`` holds for this iteration; its additive constant is removed."""
    visited = state.visits > 0
    level = jnp.sum(state.theta * visited, -1, keepdims=True) / jnp.maximum(1, jnp.sum(visited, -1, keepdims=True))
    count = state.num_averaged + jnp.asarray(take, jnp.int32)
    step = jnp.where(take, 1.0 / jnp.maximum(count, 1), 0.0).astype(state.theta.dtype)
    return state._replace(average=state.average + step * (state.theta - level - state.average), num_averaged=count)


def freeze_theta(theta: np.ndarray, visits: np.ndarray) -> np.ndarray:
    """Return the theta to hold fixed while sampling.

    A region that was never visited takes the value of the nearest visited one. Adaptation lowers theta there without
    bound, and such a low value would trap a chain that strays into the region.
    """
    theta, visited = np.atleast_2d(theta), np.atleast_2d(visits) > 0
    filled = theta.copy()
    for row, seen in enumerate(visited):
        known = np.flatnonzero(seen)
        if known.size:
            nearest = known[np.abs(np.arange(seen.size)[:, None] - known).argmin(1)]
            filled[row] = theta[row, nearest]
    return filled.reshape(np.shape(visits))


def expected_frequency(
    desired: Float[Array, " regions"], visited: Bool[Array, "*own regions"]
) -> Float[Array, "*own regions"]:
    """Return pi_i + nu if E_i is not empty, else 0.

    nu = (sum of pi over empty regions) / (m - m_0), where m_0 is the number of empty regions. A region that was never
    visited counts as empty.
    """
    empty = jnp.where(visited, 0.0, desired).sum(-1, keepdims=True)
    nu = empty / jnp.maximum(1, visited.sum(-1, keepdims=True))
    return jnp.where(visited, desired + nu, 0.0)


def desired_frequencies(desired: object, num_regions: int, dtype: Any = None) -> Float[Array, " regions"]:
    """Return pi: uniform for None, else ``desired`` normalised; raise ``ValueError`` if it is invalid.

    ``dtype`` is its type; None means JAX's default.
    """
    if desired is None:
        return placed(np.full(num_regions, 1.0 / num_regions), dtype)
    must, todo = f"desired must have one entry for each of the {num_regions} regions", "pass a vector of this length"
    values = as_numbers(desired, must, todo)
    require(values.shape == (num_regions,), must, list(values.shape), todo)
    require(
        np.all(np.isfinite(values)) and np.all(values > 0),
        "desired frequencies must be positive and finite",
        values.tolist(),
        "give an unwanted region a small frequency rather than none",
    )
    return placed(values / values.sum(), dtype)
