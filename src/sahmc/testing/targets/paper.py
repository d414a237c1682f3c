"""The three targets of the paper that have known answers: the mixture, eight modes, the sensor network."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from sahmc._support.validate import MOST, is_number, require, require_count
from sahmc.testing.targets.target import Target, nearest

CORRELATIONS = (0.9, -0.9, 0.0)
"""The correlations of the three Gaussians of the mixture."""


def mixture_centres(a: float | int, b: float | int) -> np.ndarray:
    """Return the means of the mixture: (a, a), (b, b) and the origin."""
    return np.array([[a, a], [b, b], [0.0, 0.0]])


def mixture(a: float | int = -8.0, b: float | int = 6.0) -> Target:
    """Return the paper's three Gaussians in the plane (section 4.1): at (a, a), at (b, b) and at the origin.

    Chains start at the origin. Correlations are 0.9, -0.9 and 0. (a, b) is (-6, 4) in set 1, (-8, 6) in set 2.
    """
    for value, name in ((a, "a"), (b, "b")):
        require(is_number(value) and abs(value) < MOST, f"{name} must be a number", value, "pass -8 and 6, say")
    centres, correlation = mixture_centres(a, b), np.array(CORRELATIONS)
    scale = 1.0 / (1.0 - correlation**2)
    log_norm = 0.5 * np.log(scale) - np.log(2 * np.pi) - np.log(3)

    def log_density(x: jax.Array) -> jax.Array:
        dx, dy = x[0] - centres[:, 0], x[1] - centres[:, 1]
        form = (dx * dx + dy * dy - 2 * correlation * dx * dy) * scale
        return jax.nn.logsumexp(log_norm - 0.5 * form)

    mean = np.full(2, (a + b) / 3)
    variance = np.full(2, 1 + (a**2 + b**2) / 3 - mean[0] ** 2)
    name = f"mixture({a:g}, {b:g})"
    return Target(name, log_density, np.zeros(2), mean, variance, nearest(centres), np.full(3, 1 / 3))


def eight_centres(dim: int, edge: float | int) -> np.ndarray:
    """Return the means of the eight modes: corners of a cube in three coordinates, alternating in the others."""
    corners = np.array([[1, 1, 1], [0, 0, 0], [1, 0, 1], [0, 1, 1], [0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0]])
    further = np.arange(3, dim) % 2
    tail = np.where(corners[:, 2:3] == 1, 1 - further, further) if dim > 3 else np.empty((8, 0))
    return edge * np.hstack([corners, tail])


def eight_modes(dim: int = 11, edge: float | int = 10.0) -> Target:
    """Return the paper's eight unit Gaussians (section 4.2), on the corners of a cube.

    Coordinates beyond the third alternate between 0 and ``edge``.
    """
    require_count(dim, "dim", 3)
    require(is_number(edge) and 0 < edge < MOST, "edge must be a positive number", edge, "pass 10, say")
    centres = eight_centres(dim, edge)

    def log_density(x: jax.Array) -> jax.Array:
        return jax.nn.logsumexp(-0.5 * jnp.sum((x - centres) ** 2, axis=-1)) - np.log(8) - 0.5 * dim * np.log(2 * np.pi)

    mean, variance = np.full(dim, edge / 2), np.full(dim, 1 + edge**2 / 4)
    name = f"eight modes, d = {dim}, edge {edge:g}"
    return Target(name, log_density, centres[0], mean, variance, nearest(centres), np.full(8, 1 / 8))


def sensor_network() -> Target:
    """Return the posterior of the locations of four sensors (section 4.3), d = 8.

    The data are noisy distances between these sensors and to two known ones, as in Ahn, Chen and Welling (2013) and
    Tak, Meng and van Dyk (2018). There are four modes, (--), (-+), (+-) and (++): on which side of the line through the
    known sensors do sensors 1 and 3 lie? Reference values come from long runs of parallel tempering.
    """
    known = np.array([[0.5, 0.3], [0.3, 0.7]])
    spread, noise = 0.3, 0.02
    pairs = [
        (0, 4, 0.6103),
        (0, 5, 0.3631),
        (2, 4, 0.2995),
        (2, 5, 0.5656),
        (0, 3, 0.9266),
        (1, 2, 0.2970),
        (1, 3, 0.8524),
    ]
    unseen = [(1, 4), (1, 5), (3, 4), (3, 5), (0, 1), (0, 2), (2, 3)]
    left, right = np.array([p[:2] for p in pairs]).T
    observed = np.array([p[2] for p in pairs])
    lost_left, lost_right = np.array(unseen).T

    def squared(points: jax.Array, i: np.ndarray, j: np.ndarray) -> jax.Array:
        return jnp.sum((points[i] - points[j]) ** 2, axis=-1)

    def log_density(x: jax.Array) -> jax.Array:
        points = jnp.concatenate([x.reshape(4, 2), jnp.asarray(known, x.dtype)])
        seen, lost = squared(points, left, right), squared(points, lost_left, lost_right)
        far = (
            -0.5 * seen / spread**2
            - 0.5 * ((observed - jnp.sqrt(seen)) / noise) ** 2
            - np.log(noise * np.sqrt(2 * np.pi))
        )
        return jnp.sum(far) + jnp.sum(jnp.log(-jnp.expm1(-0.5 * lost / spread**2))) - jnp.sum(x**2) / 200

    def side(x: jax.Array) -> jax.Array:
        above = [0.4 * (x[2 * s] - 0.5) + 0.2 * (x[2 * s + 1] - 0.3) > 0 for s in (0, 2)]
        return 2 * above[0].astype(int) + above[1].astype(int)

    true = np.array([0.5748, 0.9069, 0.0991, 0.3651, 0.2578, 0.1350, 0.8546, 0.0392])
    mean = np.array([0.2785, 0.7394, 0.5359, 0.2279, 0.5149, 0.2697, 0.4084, 0.4733])
    sd = np.array([0.3199, 0.1624, 0.4134, 0.2763, 0.2646, 0.1347, 0.7232, 0.5589])
    masses = np.array([0.237, 0.265, 0.263, 0.2345])
    return Target("sensor network", log_density, true, mean, sd**2, side, masses, error=0.005)
