"""theta: learnt by stochastic approximation, re-centred, averaged, frozen; and the region masses it stands for."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from sahmc._support.pooling import pool
from sahmc._support.validate import require

COMPACT_SET = 1e4
"""Theta of the paper is the cube [-bound, bound]^m; this is its default bound."""


class ThetaState(NamedTuple):
    """What is known of theta. Shapes are (regions,), shared by all chains, or (chains, regions), one for each."""

    theta: Float[Array, "*own regions"]
    visits: Int[Array, "*own regions"]
    seen: Float[Array, "*own regions"]
    """Sum of the memberships that theta has learnt from."""
    average: Float[Array, "*own regions"]
    num_averaged: Int[Array, ""]


def init_theta(theta: Float[Array, "*own regions"]) -> ThetaState:
    zero = jnp.zeros_like(theta)
    return ThetaState(theta, jnp.zeros(theta.shape, jnp.int32), zero, zero, jnp.zeros((), jnp.int32))


def visit_clock(seen: Float[Array, "*own regions"], desired: Float[Array, " regions"]) -> Float[Array, ""]:
    """Return the time theta has had by the clock of the region seen least: t if all were seen as often as desired."""
    return jnp.min(seen / desired)


def recentre(theta: Float[Array, "*own regions"], bound: float = COMPACT_SET) -> Float[Array, "*own regions"]:
    """theta + c*, with c* = 0 inside the compact set [-bound, bound]^m and otherwise the shift that centres theta."""
    high, low = theta.max(-1, keepdims=True), theta.min(-1, keepdims=True)
    outside = jnp.maximum(high, -low) > bound
    return theta - jnp.where(outside, 0.5 * (high + low), 0.0)


def update_theta(
    state: ThetaState,
    membership: Float[Array, "chains regions"],
    region: Int[Array, " chains"],
    gain: Float[Array, ""],
    desired: Float[Array, " regions"],
) -> ThetaState:
    """theta_{t+1} = theta_t + a_{t+1} (e_{t+1} - pi), e_{t+1} where the chains are after the decision; then re-centred.

    A theta shared by all chains learns from the mean of e over them.
    """
    count = (region[:, None] == jnp.arange(desired.shape[0])).astype(jnp.int32)
    if state.theta.ndim == 1:
        membership, count = pool(membership), count.sum(0, dtype=jnp.int32)
    theta = recentre(state.theta + gain * (membership - desired))
    return state._replace(theta=theta, visits=state.visits + count, seen=state.seen + membership * (gain > 0))


def average_theta(state: ThetaState, take: Array | bool) -> ThetaState:
    """Running mean of theta, its additive constant removed, over the iterations for which ``take`` holds."""
    visited = state.visits > 0
    level = jnp.sum(state.theta * visited, -1, keepdims=True) / jnp.maximum(1, jnp.sum(visited, -1, keepdims=True))
    count = state.num_averaged + jnp.asarray(take, jnp.int32)
    step = jnp.where(take, 1.0 / jnp.maximum(count, 1), 0.0).astype(state.theta.dtype)
    return state._replace(average=state.average + step * (state.theta - level - state.average), num_averaged=count)


def freeze_theta(theta: np.ndarray, visits: np.ndarray) -> np.ndarray:
    """theta to hold fixed while draws are made.

    A region that was never visited takes the value of the nearest one that was: adaptation pushes theta down there
    without end, and frozen so low it would hold a chain that stumbled in.
    """
    theta, visited = np.atleast_2d(theta), np.atleast_2d(visits) > 0
    filled = theta.copy()
    for row, seen in enumerate(visited):
        known = np.flatnonzero(seen)
        if known.size:
            nearest = known[np.abs(np.arange(seen.size)[:, None] - known).argmin(1)]
            filled[row] = theta[row, nearest]
    return filled.reshape(np.shape(visits))


def expected_frequency(desired: Float[Array, " regions"], visited: Array) -> Float[Array, "*own regions"]:
    """pi_i + nu where E_i is not empty, nu = (sum of pi over empty regions) / (m - m_0); 0 where it is."""
    empty = jnp.where(visited, 0.0, desired).sum(-1, keepdims=True)
    nu = empty / jnp.maximum(1, visited.sum(-1, keepdims=True))
    return jnp.where(visited, desired + nu, 0.0)


def desired_frequencies(desired: object, num_regions: int) -> Float[Array, " regions"]:
    """pi: uniform, or what the user asked for, normalised."""
    if desired is None:
        return jnp.full(num_regions, 1.0 / num_regions)
    values = np.asarray(desired, dtype=float)
    require(
        values.shape == (num_regions,),
        f"desired must have one entry for each of the {num_regions} regions",
        list(values.shape),
        f"pass a vector of length {num_regions}",
    )
    require(
        np.all(np.isfinite(values)) and np.all(values > 0),
        "desired frequencies must be positive and finite",
        values.tolist(),
        "give an unwanted region a small frequency rather than none",
    )
    return jnp.asarray(values / values.sum())
