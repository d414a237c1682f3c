"""Test cases for kernels: every tilt, with and without a prior as base, over one target in the plane."""

from __future__ import annotations

import zlib

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from sahmc._support.types import PositionFn
from sahmc.models.model import Model
from sahmc.tilt.partition import EnergyPartition, TemperatureLadder
from sahmc.tilt.target import TiltedTarget
from sahmc.tilt.tilts import LinearTilt, NoTilt, StepTilt, TemperedTilt, Tilt

LOW, HIGH = (-9.0, -9.0), (9.0, 9.0)
"""The bounds outside which the target has negligible mass, under any tilt."""


def log_likelihood(x: jax.Array) -> jax.Array:
    """Return the log likelihood at a position in the plane: two unequal wells, curved and correlated."""
    left = -0.5 * ((x[0] + 1.5) ** 2 / 0.5 + (x[1] - 0.5 * x[0]) ** 2)
    right = -0.5 * ((x[0] - 1.5) ** 2 / 0.3 + (x[1] + 0.3 * x[0] ** 2) ** 2 / 0.6)
    return jnp.logaddexp(left, right)


def log_prior(x: jax.Array) -> jax.Array:
    """Return the log density of N(0, 4 I), up to a constant."""
    return -0.5 * jnp.sum(x**2) / 4.0


def log_posterior(x: jax.Array) -> jax.Array:
    """Return the log likelihood plus the log prior."""
    return log_likelihood(x) + log_prior(x)


EDGES = EnergyPartition([0.5, 1.0, 2.0, 3.5])
"""The partition of the step and the linear tilts."""
LADDER = TemperatureLadder([1.0, 0.5, 0.25, 0.15], reference=0.4)
"""The temperatures of a target without a separate prior."""
TO_THE_PRIOR = TemperatureLadder([1.0, 0.4, 0.1, 0.0], reference=0.4, prior_share=0.1)
"""The temperatures of a target with a separate prior."""
CASES: dict[str, tuple[PositionFn | Model, Tilt]] = {
    "none": (log_posterior, NoTilt()),
    "step": (log_posterior, StepTilt(EDGES)),
    "linear": (log_posterior, LinearTilt(EDGES)),
    "tempered": (log_posterior, TemperedTilt(LADDER)),
    "step with prior": (Model(log_likelihood, log_prior), StepTilt(EDGES)),
    "linear with prior": (Model(log_likelihood, log_prior), LinearTilt(EDGES)),
    "tempered with prior": (Model(log_likelihood, log_prior), TemperedTilt(TO_THE_PRIOR)),
}
"""All cases by name: a log density or a model, and its tilt."""


def frozen_target(case: str, gradient: bool = True, dtype: DTypeLike = jnp.float32) -> TiltedTarget:
    """Return the target of a case with a theta drawn from a fixed seed, wide enough to matter.

    Pass ``gradient=False`` for kernels without gradients. ``dtype`` is that of positions and theta.
    """
    model, tilt = CASES[case]
    target = TiltedTarget.build(model, jnp.zeros(2, dtype), tilt, gradient)
    rng = np.random.default_rng(zlib.crc32(case.encode()))
    return target.with_theta(jnp.asarray(rng.uniform(-1.2, 1.2, tilt.num_regions), dtype))
