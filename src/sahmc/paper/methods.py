"""The samplers of every table: HMC and SAHMC as printed, NUTS, and our default at as many gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from sahmc.importance import weighted_ess
from sahmc.kernels import HMC, NUTS
from sahmc.partition import EnergyPartition
from sahmc.result import Result
from sahmc.sampling import sample

GRADIENTS = 320
"""Of one iteration of the default: 32 chains, four moves of two and a half steps in the mean."""


def hmc(
    target: Any, start: Any, step_size: float, steps: int, iterations: int, burn: int, *, thin: int = 1, **options: Any
) -> Result:
    """Plain HMC with the printed step size, length and identity mass matrix."""
    return _quiet(
        target,
        start,
        tilt="none",
        kernel=_printed(step_size, steps),
        tune=burn,
        draws=(iterations - burn) // thin,
        thin=thin,
        **options,
    )


def sahmc(
    target: Any,
    start: Any,
    step_size: float,
    steps: int,
    edges: EnergyPartition,
    t0: int | float,
    iterations: int,
    burn: int,
    *,
    thin: int = 1,
    **options: Any,
) -> Result:
    """The paper's algorithm to the letter: one theta a chain, from zero, adapting throughout."""
    return _quiet(
        target,
        start,
        tilt="step",
        theta="per-chain",
        adapt="always",
        gain=t0,
        partition=edges,
        kernel=_printed(step_size, steps),
        tune=burn,
        draws=(iterations - burn) // thin,
        thin=thin,
        **options,
    )


def nuts(target: Any, start: Any, iterations: int, burn: int, **options: Any) -> Result:
    """Ours, identity mass matrix, step size tuned to an acceptance of 0.8."""
    return _quiet(target, start, tilt="none", kernel=NUTS(metric="unit"), tune=burn, draws=iterations - burn, **options)


def default(target: Any, start: Any, gradients: int | float, **options: Any) -> Result:
    """``sahmc.sample`` with nothing set but the budget: a tenth of it, at least 1000 iterations, for the warm-up."""
    iterations = int(gradients / GRADIENTS)
    tune = min(max(1000, iterations // 10), max(100, iterations // 2))
    return _quiet(target, start, chains=32, tune=tune, draws=max(50, iterations - tune), **options)


def _printed(step_size: float, steps: int) -> HMC:
    return HMC(step_size=step_size, num_integration_steps=steps, metric="unit", jitter=0)


def _quiet(model: Callable[[Any], Any], start: Any, **options: Any) -> Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return sample(model, jnp.asarray(start), **options)


def raw_ess(result: Result) -> np.ndarray:
    """Effective sample sizes of the draws as they were made, without weights, as the paper has them: (chain, dim)."""
    even = np.full((1, result.energy.shape[1]), 1 / result.energy.shape[1])
    return np.stack([weighted_ess(chain[None].astype(float), even) for chain in result.draws])


def own_ess(result: Result) -> np.ndarray:
    """Effective sample sizes of the weighted means of each chain by itself: (chain, dim)."""
    found = []
    for chain, log_weight in zip(result.draws, result.log_weight, strict=True):
        weight = np.exp(log_weight - log_weight.max())[None]
        found.append(weighted_ess(chain[None].astype(float), weight / weight.sum()))
    return np.stack(found)


def own_masses(result: Result, indicators: Callable[[Any], Any]) -> np.ndarray:
    """Weighted masses by each chain alone: (chain, mode)."""
    inside = np.asarray(result.values(indicators), float)
    weight = np.exp(result.log_weight - result.log_weight.max(axis=1, keepdims=True))
    return (weight[..., None] * inside).sum(axis=1) / weight.sum(axis=1)[:, None]
