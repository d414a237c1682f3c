"""Modes: where draws roll down to, which of those places a barrier divides, and a Gaussian picture of each."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sahmc._support.pytree import strategy
from sahmc._support.traced import Program

BARRIER = 2.0
"""Nats above the higher of two minima that the straight line between them must climb, or they are one mode."""
ALONG = np.linspace(0, 1, 9)[1:-1]
MOST = 32
"""Modes that have a picture."""
DENSE = 100
"""Largest dimension for which a picture has a full covariance."""


class Descent(NamedTuple):
    """Points on their way down, each with its own step size."""

    position: Float[Array, "points dim"]
    energy: Float[Array, " points"]
    grad: Float[Array, "points dim"]
    velocity: Float[Array, "points dim"]
    size: Float[Array, " points"]


@jax.jit
def energies(program: Program, points: Float[Array, "points dim"]) -> tuple[Any, Any]:
    """-log density and its gradient, the prior's included."""
    energy, grad, base = jax.vmap(program)(points)
    if base is None:
        return energy, grad
    return energy + base.energy, None if grad is None else grad + base.grad


@jax.jit
def start_descent(program: Program, points: Float[Array, "points dim"]) -> Descent:
    size = jnp.full(len(points), 0.1, points.dtype)
    energy, grad = energies(program, points)
    return Descent(points, energy, grad, jnp.zeros_like(points), size)


@jax.jit
def roll_down(program: Program, descent: Descent, scale: Any, steps: Any) -> Descent:
    """Gradient descent with momentum, in units of ``scale``.

    A step that would raise the energy is taken back, its momentum dropped and its size halved.
    """

    def body(_: Any, now: Descent) -> Descent:
        velocity = 0.9 * now.velocity - now.size[:, None] * now.grad * scale**2
        position = now.position + velocity
        energy, grad = energies(program, position)
        down = Descent(position, energy, grad, velocity, 1.1 * now.size)
        back = now._replace(velocity=jnp.zeros_like(velocity), size=0.5 * now.size)
        better = down.energy <= now.energy
        return Descent(
            *(jnp.where(better if a.ndim == 1 else better[:, None], a, b) for a, b in zip(down, back, strict=True))
        )

    return jax.lax.fori_loop(0, steps, body, descent)


@jax.jit
def _highest_between(program: Program, points: Any, end: Any) -> Any:
    """The highest energy on the straight line from each point to ``end``."""
    line = points[:, None] + jnp.asarray(ALONG, points.dtype)[:, None] * (end - points)[:, None]
    energy, _ = energies(program, line.reshape(-1, points.shape[1]))
    return jnp.max(energy.reshape(line.shape[:2]), axis=1)


def divided(program: Program, points: np.ndarray, energy: np.ndarray) -> tuple[np.ndarray, int]:
    """A mode number for each point, the mode of the lowest one first; and the energies computed.

    The lowest point that has no mode yet is the bottom of one, and all points are joined to it that a straight line
    without a barrier joins. Bottoms joined to a common point are one mode.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    num, ends = len(points), list[int]()
    joined = np.zeros((num, 0), bool)
    while not joined.any(axis=1).all() and len(ends) < 2 * MOST:
        left = np.flatnonzero(~joined.any(axis=1))
        ends.append(left[np.argmin(energy[left])])
        path = np.asarray(_highest_between(program, jnp.asarray(points), jnp.asarray(points[ends[-1]])))
        to_end = path < np.maximum(energy, energy[ends[-1]]) + BARRIER
        to_end[ends[-1]] = True
        joined = np.column_stack([joined, to_end])
    row, column = np.nonzero(joined)
    graph = coo_matrix((np.ones(len(row)), (row, np.asarray(ends)[column])), shape=(num, num))
    label = connected_components(graph, directed=False)[1]
    _, order = np.unique(label[ends], return_index=True)
    rank = {label[ends][i]: n for n, i in enumerate(sorted(order))}
    return np.array([rank.get(k, -1) for k in label]), num * len(ALONG) * len(ends)


def find_minima(
    program: Program, points: np.ndarray, scale: np.ndarray, steps: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """The lowest point of each mode that ``points`` roll down to, the mode of each point, and the gradients spent.

    Without gradients points stay where they are.
    """
    if jax.eval_shape(program, points[0])[1] is None:
        position, energy, steps = points, np.asarray(energies(program, jnp.asarray(points))[0]), 0
    else:
        end = roll_down(program, start_descent(program, jnp.asarray(points)), jnp.asarray(scale, points.dtype), steps)
        position, energy = np.asarray(end.position), np.asarray(end.energy)
    label, spent = divided(program, position, energy)
    lowest = [np.flatnonzero(label == k)[np.argmin(energy[label == k])] for k in range(label.max() + 1)]
    return position[lowest], label, len(points) * (steps + 1) + spent


@strategy
class Modes:
    """A Gaussian for each of ``num`` modes, the rest of the arrays padding: x = mean + colour z, z = whiten (x - mean).

    ``colour`` and ``whiten`` are matrices or, in many dimensions, diagonals.
    """

    num: Any
    minimum: Float[Array, "modes dim"]
    weight: Float[Array, " modes"]
    mean: Float[Array, "modes dim"]
    variance: Float[Array, "modes dim"]
    colour: Float[Array, "modes dim *full"]
    whiten: Float[Array, "modes dim *full"]
    log_det: Float[Array, " modes"]

    def nearest(self, position: Float[Array, " dim"]) -> Any:
        """The mode to which a position belongs: the likeliest under the Gaussians with their diagonal variances."""
        score = jnp.sum((position - self.mean) ** 2 / self.variance + jnp.log(self.variance), axis=1)
        return jnp.argmin(jnp.where(jnp.arange(len(score)) < self.num, score, jnp.inf))

    def carry(self, position: Float[Array, " dim"], one: Any, two: Any) -> Float[Array, " dim"]:
        """The position in mode ``two`` that corresponds to one in mode ``one``."""
        off = position - self.mean[one]
        if self.colour.ndim == 2:
            return self.mean[two] + self.colour[two] * self.whiten[one] * off
        return self.mean[two] + self.colour[two] @ (self.whiten[one] @ off)


def no_modes(dim: int, dtype: Any) -> Modes:
    """Nothing known."""
    return fit_modes(np.zeros((1, dim)), np.zeros((0, dim)), np.ones(dim), dtype)


def _scores(draws: np.ndarray, squared: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Sum over coordinates of (x - m)^2 / v + log v, for each draw and mode, by two products of matrices."""
    precision = 1 / variance
    constant = (mean**2 * precision + np.log(variance)).sum(axis=1)
    return squared @ precision.T - 2 * draws @ (mean * precision).T + constant


def nearest_modes(modes: Modes, draws: np.ndarray) -> np.ndarray:
    """``Modes.nearest`` of many draws (..., dim), on the host: compiled for a GPU this is tuned for minutes."""
    mean, variance = (np.asarray(part, float)[: int(modes.num)] for part in (modes.mean, modes.variance))
    middle = mean.mean(axis=0)
    centred = draws.reshape(-1, draws.shape[-1]) - middle
    return np.argmin(_scores(centred, centred**2, mean - middle, variance), axis=1).reshape(draws.shape[:-1])


def fit_modes(draws: np.ndarray, minima: np.ndarray, scale: np.ndarray, dtype: Any) -> Modes:
    """The picture of at most MOST modes, from draws (draw, dim) of the posterior or of any part of each mode.

    Draws go to the nearest mode; means and covariances are those of its draws, shrunk towards the diagonal, and towards
    ``scale`` where there are hardly any.
    """
    dim = draws.shape[1]
    mean, variance = minima.astype(float), np.tile(scale.astype(float) ** 2, (len(minima), 1))
    label = np.zeros(len(draws), int)
    middle = draws.mean(axis=0, dtype=float)
    centred = draws.astype(float) - middle
    squared = centred**2
    for _ in range(5 if len(minima) else 0):
        label = np.argmin(_scores(centred, squared, mean - middle, variance), axis=1)
        for k in range(len(mean)):
            mine = draws[label == k].astype(float)
            if len(mine) > 5:
                mean[k] = mine.mean(axis=0)
                variance[k] = (len(mine) * mine.var(axis=0) + 5 * scale**2) / (len(mine) + 5)
    count = np.bincount(label, minlength=len(mean))[: len(mean)]
    kept = np.argsort(-count, kind="stable")[:MOST]
    full = dim <= DENSE
    colour = np.ones((MOST, dim, dim) if full else (MOST, dim)) * (np.eye(dim) if full else 1.0)
    whiten, log_det = colour.copy(), np.zeros(MOST)
    for slot, k in enumerate(kept):
        mine = draws[label == k].astype(float) - mean[k]
        sd = np.sqrt(variance[k])
        if full:
            share = len(mine) / (len(mine) + dim + 5.0)
            correlation = (mine / sd).T @ (mine / sd) / max(1, len(mine))
            lower = sd[:, None] * np.linalg.cholesky(share * correlation + (1 - share) * np.eye(dim))
            colour[slot], whiten[slot] = lower, np.linalg.inv(lower)
            log_det[slot] = np.log(np.diag(lower)).sum()
        else:
            colour[slot], whiten[slot], log_det[slot] = sd, 1 / sd, np.log(sd).sum()

    def padded(rows: np.ndarray) -> np.ndarray:
        return np.concatenate([rows, np.ones((MOST - len(rows), *rows.shape[1:]))])

    parts = (minima[kept], count[kept] / max(1, count[kept].sum()), mean[kept], variance[kept])
    arrays = [jnp.asarray(a, dtype) for a in (*map(padded, parts), colour, whiten, log_det)]
    return Modes(jnp.int32(len(kept)), *arrays)
