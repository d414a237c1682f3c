"""Tests of exact invariance: chains that start from exact draws are moved and compared with other exact draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from scipy import stats

from sahmc._support.validate import as_numbers, require, require_count, require_seed
from sahmc.kernels.base import Kernel
from sahmc.tilt.target import ChainState, TiltedTarget, require_target

MOST_CELLS, MOST_CHAINS = 10_000, 100_000_000
"""The maximum numbers of grid cells along an axis and of chains; more would not fit in memory."""

Corner = ArrayLike | Sequence[float | int]
"""A point in the plane: two numbers."""
Sampler = Callable[[int, np.random.Generator], np.ndarray]
"""A function (size, rng) that returns exact draws, (size, dim)."""


def grid_sampler(target: TiltedTarget, low: Corner, high: Corner, cells: int = 600) -> Sampler:
    """Return a function (size, rng) -> (size, 2) that draws from a tilted density in the plane by means of a grid.

    The grid has ``cells`` cells along each axis, from the corner ``low`` to the corner ``high``. The only approximation
    is that the density is constant in a cell.
    """
    require_target(target)
    must, todo = "low and high must be corners of a rectangle in the plane", "pass (-9, -9) and (9, 9), say"
    ends = [as_numbers(corner, must, todo) for corner in (low, high)]
    ok = ends[0].shape == ends[1].shape == (2,) and np.isfinite(ends).all() and (ends[0] < ends[1]).all()
    require(ok, must, tuple(end.tolist() for end in ends), todo)
    require_count(cells, "cells")
    require(cells <= MOST_CELLS, f"cells must be at most {MOST_CELLS}", cells, "lower it")
    axes = [np.linspace(a, b, cells + 1) for a, b in zip(*ends, strict=True)]
    middles = [0.5 * (axis[1:] + axis[:-1]) for axis in axes]
    points = np.stack(np.meshgrid(*middles, indexing="ij"), axis=-1).reshape(-1, 2)
    log_tilted = jax.jit(jax.vmap(lambda x: -target.tilted_energy(target.evaluate(x))))
    log_density = np.asarray(log_tilted(jnp.asarray(points, target.theta.dtype)), float)
    mass = np.exp(np.where(np.isfinite(log_density), log_density, -np.inf) - np.nanmax(log_density))
    cumulative = np.cumsum(mass) / mass.sum()
    width = np.array([axis[1] - axis[0] for axis in axes])

    def draw(size: int, rng: np.random.Generator) -> np.ndarray:
        cell = np.minimum(np.searchsorted(cumulative, rng.random(size)), len(points) - 1)
        return points[cell] + (rng.random((size, 2)) - 0.5) * width

    return draw


def check_invariance(
    kernel: Kernel,
    target: TiltedTarget,
    draw: Sampler,
    *,
    chains: int = 40_000,
    steps: int = 5,
    seed: int = 0,
) -> tuple[float, float]:
    """Return the p-value for equal distributions of moved and fresh draws, and the share of chains that moved.

    ``draw`` is a function (size, rng) that returns exact draws of the tilted density, such as one from
    ``grid_sampler``. The test moves ``chains`` such draws by ``steps`` transitions. Two-sample Kolmogorov-Smirnov tests
    compare the energies and every coordinate. The p-value is the smallest one times the number of tests (Bonferroni);
    6e-5 is four sigma.
    """
    require_kernel(kernel)
    require_target(target)
    require(callable(draw), "draw must be a function (size, rng)", draw, "pass what grid_sampler returns")
    for count, name in ((chains, "chains"), (steps, "steps")):
        require_count(count, name)
    require(chains <= MOST_CHAINS, f"chains must be at most {MOST_CHAINS:,}", chains, "lower it")
    require_seed(seed, "seed")
    rng = np.random.default_rng(seed)
    dtype = target.theta.dtype
    start, fresh = (jnp.asarray(draw(chains, rng), dtype) for _ in range(2))

    def move(key: jax.Array, position: jax.Array) -> jax.Array:
        def step(state: ChainState, t: jax.Array) -> tuple[ChainState, None]:
            shared = jax.random.uniform(jax.random.fold_in(jax.random.key(seed), t), (kernel.shared,), dtype)
            moved = kernel.refresh(shared)
            return moved.step(jax.random.fold_in(key, t), state, target)[0], None

        return jax.lax.scan(step, target.evaluate(position), jnp.arange(steps))[0].position

    keys = jax.random.split(jax.random.key(seed + 1), chains)
    moved = jax.jit(jax.vmap(move))(keys, start)
    energy = jax.jit(jax.vmap(lambda x: target.evaluate(x).energy))
    pairs = [(energy(moved), energy(fresh)), *((moved[:, i], fresh[:, i]) for i in range(moved.shape[1]))]
    smallest = min(float(stats.ks_2samp(np.asarray(a), np.asarray(b)).pvalue) for a, b in pairs)
    p_value = min(1.0, len(pairs) * smallest)
    return p_value, float((moved != start).any(axis=1).mean())


def require_kernel(kernel: object) -> None:
    """Raise ``ValueError`` unless ``kernel`` is a kernel."""
    todo = "pass an object of a class that inherits from Kernel, such as sahmc.HMC(0.1, 10)"
    require(isinstance(kernel, Kernel), "kernel must be a kernel", kernel, todo)
