"""Every tilt, with and without a prior as base, over one target in the plane: what kernels are checked on."""

from __future__ import annotations

import zlib
from typing import Any

import jax.numpy as jnp
import numpy as np

from sahmc.models.model import Model
from sahmc.tilt.partition import EnergyPartition, TemperatureLadder
from sahmc.tilt.target import TiltedTarget
from sahmc.tilt.tilts import LinearTilt, NoTilt, StepTilt, TemperedTilt, Tilt

LOW, HIGH = (-9.0, -9.0), (9.0, 9.0)
"""Bounds outside which the target has no mass to speak of, whatever the tilt."""


def log_likelihood(x: Any) -> Any:
    """Two unequal wells, curved and correlated."""
    left = -0.5 * ((x[0] + 1.5) ** 2 / 0.5 + (x[1] - 0.5 * x[0]) ** 2)
    right = -0.5 * ((x[0] - 1.5) ** 2 / 0.3 + (x[1] + 0.3 * x[0] ** 2) ** 2 / 0.6)
    return jnp.logaddexp(left, right)


def log_prior(x: Any) -> Any:
    return -0.5 * jnp.sum(x**2) / 4.0


def log_posterior(x: Any) -> Any:
    return log_likelihood(x) + log_prior(x)


EDGES = EnergyPartition([0.5, 1.0, 2.0, 3.5])
LADDER = TemperatureLadder([1.0, 0.5, 0.25, 0.15], reference=0.4)
TO_THE_PRIOR = TemperatureLadder([1.0, 0.4, 0.1, 0.0], reference=0.4, prior_share=0.1)
CASES: dict[str, tuple[Any, Tilt]] = {
    "none": (log_posterior, NoTilt()),
    "step": (log_posterior, StepTilt(EDGES)),
    "linear": (log_posterior, LinearTilt(EDGES)),
    "tempered": (log_posterior, TemperedTilt(LADDER)),
    "step with prior": (Model(log_likelihood, log_prior), StepTilt(EDGES)),
    "linear with prior": (Model(log_likelihood, log_prior), LinearTilt(EDGES)),
    "tempered with prior": (Model(log_likelihood, log_prior), TemperedTilt(TO_THE_PRIOR)),
}


def frozen_target(case: str, gradient: bool = True, dtype: Any = jnp.float32) -> TiltedTarget:
    """The case with a random theta, wide enough to matter."""
    model, tilt = CASES[case]
    target = TiltedTarget.build(model, jnp.zeros(2, dtype), tilt, gradient)
    rng = np.random.default_rng(zlib.crc32(case.encode()))
    return target.with_theta(jnp.asarray(rng.uniform(-1.2, 1.2, tilt.num_regions), dtype))
