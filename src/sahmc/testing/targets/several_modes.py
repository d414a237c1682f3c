"""Targets with modes of unequal width and weight, and with heavy tails."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from sahmc._support.validate import require_known
from sahmc.testing.targets.target import Target


def two_widths(
    dim: int = 2,
    ratio: float = 0.5,
    start: Literal["narrow", "wide"] = "narrow",
    distance: float | int = 8.0,
    mass: float = 0.8,
) -> Target:
    """Return two Gaussians: one with ``mass`` and sd ``ratio`` at the origin, the other with sd 1, ``distance`` away.

    Chains begin in the ``start`` mode. The target is hard for all tempering methods: the relative volume of the narrow
    mode is ratio^dim, so hot chains do not find it.
    """
    require_known(start, ("narrow", "wide"), "start")
    centres = np.zeros((2, dim))
    centres[1, 0] = distance
    widths, masses = np.array([ratio, 1.0]), np.array([mass, 1 - mass])
    log_norm = np.log(masses) - dim * np.log(widths) - 0.5 * dim * np.log(2 * np.pi)

    def parts(x: jax.Array) -> jax.Array:
        return log_norm - 0.5 * jnp.sum((x - centres) ** 2, axis=-1) / widths**2

    mean = masses @ centres
    variance = masses @ (widths[:, None] ** 2 + centres**2) - mean**2
    return Target(
        f"two widths, d = {dim}, ratio {ratio:g}, from the {start}",
        lambda x: jax.nn.logsumexp(parts(x)),
        centres[0 if start == "narrow" else 1],
        mean,
        variance,
        lambda x: jnp.argmax(parts(x)),
        masses,
    )


def student_mixture(dim: int = 2, df: float | int = 4.0, distance: float | int = 20.0) -> Target:
    """Return two multivariate Student's t, mass 0.3 at the origin and 0.7 ``distance`` away along the first axis.

    Both have ``df`` degrees of freedom. Tails are so heavy that exp(-beta U) is improper for beta <= dim / (dim + df).
    The midpoint separates the modes.
    """
    centres = np.zeros((2, dim))
    centres[1, 0] = distance
    weights = np.array([0.3, 0.7])

    def log_density(x: jax.Array) -> jax.Array:
        square = jnp.sum((x - centres) ** 2, axis=-1)
        return jax.nn.logsumexp(np.log(weights) - 0.5 * (df + dim) * jnp.log1p(square / df))

    far = stats.t(df).sf(distance / 2)
    right = weights[0] * far + weights[1] * (1 - far)
    mean = weights @ centres
    variance = df / (df - 2) + weights @ centres**2 - mean**2
    return Target(
        f"Student-t mixture, d = {dim}, {df:g} degrees",
        log_density,
        centres[0],
        mean,
        variance,
        lambda x: (x[0] > distance / 2).astype(int),
        np.array([1 - right, right]),
    )
