"""Targets with one mode and other difficulties: correlation, curvature, funnels, walls, a real model."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from sahmc.models.model import Model
from sahmc.testing.targets.target import Target


def gaussian(dim: int = 10, correlation: float = 0.9) -> Target:
    """Return a Gaussian with zero mean, unit variances and correlation^|i - j| between coordinates i and j."""

    def log_density(x: jax.Array) -> jax.Array:
        step = (x[1:] - correlation * x[:-1]) / np.sqrt(1 - correlation**2)
        return -0.5 * (x[0] ** 2 + jnp.sum(step**2))

    return Target(f"Gaussian, d = {dim}", log_density, np.zeros(dim), np.zeros(dim), np.ones(dim))


def banana(sd: float | int = 10.0, bend: float = 0.03) -> Target:
    """Return the banana x1 ~ N(0, sd^2), x2 ~ N(bend (x1^2 - sd^2), 1)."""

    def log_density(x: jax.Array) -> jax.Array:
        return -0.5 * (x[0] / sd) ** 2 - 0.5 * (x[1] - bend * (x[0] ** 2 - sd**2)) ** 2

    variance = np.array([sd**2, 1 + 2 * bend**2 * sd**4])
    return Target("banana", log_density, np.zeros(2), np.zeros(2), variance)


def funnel(dim: int = 10, sd: float | int = 3.0) -> Target:
    """Return Neal's funnel: v ~ N(0, sd^2) and, given v, x_i ~ N(0, exp(v)).

    A diagonal metric cannot fit neck and mouth at once.
    """

    def log_density(x: jax.Array) -> jax.Array:
        v, rest = x[0], x[1:]
        return -0.5 * (v / sd) ** 2 - 0.5 * jnp.sum(rest**2) * jnp.exp(-v) - 0.5 * (dim - 1) * v

    variance = np.full(dim, np.exp(0.5 * sd**2))
    variance[0] = sd**2
    return Target(f"funnel, d = {dim}", log_density, np.zeros(dim), np.zeros(dim), variance)


def wall() -> Target:
    """Return a half normal, a uniform on (-1, 1) and a normal; the log density is -inf outside the support."""

    def log_density(x: jax.Array) -> jax.Array:
        inside = (x[0] > 0) & (jnp.abs(x[1]) < 1)
        return jnp.where(inside, -0.5 * (x[0] ** 2 + x[2] ** 2), -jnp.inf)

    mean = np.array([np.sqrt(2 / np.pi), 0.0, 0.0])
    variance = np.array([1 - 2 / np.pi, 1 / 3, 1.0])
    return Target("hard wall", log_density, np.array([0.5, 0.0, 0.0]), mean, variance)


def hierarchical_logistic() -> Target:
    """Return a logistic regression with a random intercept for each of 8 groups, uncentred.

    Positions are (mu, log tau, 2 slopes, z_1 .. z_8). The data are simulated with a fixed seed. Reference values come
    from plain HMC, 64 chains of 40 000 draws (``benchmarks/reference.py``), with standard errors of at most ``error``.
    """
    groups, size = 8, 25
    rng = np.random.default_rng(20)
    predictors = rng.normal(size=(groups * size, 2))
    group = np.repeat(np.arange(groups), size)
    logits = 0.3 + 0.8 * rng.normal(size=groups)[group] + predictors @ np.array([1.0, -0.5])
    outcome = (rng.random(groups * size) < 1 / (1 + np.exp(-logits))).astype(float)
    one_hot = np.eye(groups)[group]

    def log_likelihood(x: jax.Array) -> jax.Array:
        logits = x[0] + predictors @ x[2:4] + one_hot @ (jnp.exp(x[1]) * x[4:])
        return jnp.sum(outcome * logits - jnp.logaddexp(0.0, logits))

    def log_prior(x: jax.Array) -> jax.Array:
        return -0.5 * (x[0] ** 2 + x[1] ** 2 + jnp.sum(x[2:] ** 2))

    def sample_prior(rng_key: jax.Array) -> jax.Array:
        return jax.random.normal(rng_key, (4 + groups,))

    mean = [0.0677, -0.2863, 0.8730, -0.3300, -1.0375, -0.3111, -0.2132, 0.6494, 1.3206, 0.2742, 0.3949, -1.0252]
    variance = [0.1044, 0.1631, 0.0319, 0.0244, 0.4041, 0.3659, 0.3683, 0.3702, 0.4118, 0.3602, 0.3673, 0.4079]
    return Target(
        "hierarchical logistic regression",
        lambda x: log_likelihood(x) + log_prior(x),
        np.zeros(12),
        np.array(mean),
        np.array(variance),
        error=0.0006,
        model=Model(log_likelihood, log_prior, start=sample_prior),
    )
