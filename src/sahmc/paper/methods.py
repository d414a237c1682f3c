"""The samplers in the tables: HMC and SAHMC as printed, NUTS, and our default with the same number of gradients."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from sahmc._support.types import PositionFn
from sahmc.kernels.hmc import HMC
from sahmc.kernels.nuts import NUTS
from sahmc.models.model import Model
from sahmc.results.result import Result
from sahmc.sampling import sample
from sahmc.testing.targets import Target
from sahmc.tilt.importance import autocovariance, weighted_ess
from sahmc.tilt.partition import EnergyPartition

GRADIENTS = 320
"""The gradients per iteration of the default: 32 chains, four moves of two and a half steps on average."""

Density = Model | PositionFn
"""A target of ``sample``: a model, or a log density."""


def hmc(
    target: Density,
    start: ArrayLike,
    step_size: float,
    steps: int,
    iterations: int,
    burn: int,
    *,
    thin: int = 1,
    **options: Any,
) -> Result:
    """Run plain HMC with the printed step size, ``steps`` leapfrog steps per move and the identity as mass matrix.

    The first ``burn`` of all ``iterations`` are discarded; every ``thin``-th of the others is kept. ``options`` go to
    ``sahmc.sample``.
    """
    return run_quietly(
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
    target: Density,
    start: ArrayLike,
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
    """Run the paper's algorithm exactly: one theta per chain, from zero, with adaptation throughout.

    ``edges`` divides the energies into regions; ``t0`` is that of the gain. The other arguments are those of ``hmc``.
    """
    return run_quietly(
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


def nuts(target: Density, start: ArrayLike, iterations: int, burn: int, **options: Any) -> Result:
    """Run our NUTS, with the identity as mass matrix and a step size tuned to acceptance probability 0.8."""
    return run_quietly(
        target, start, tilt="none", kernel=NUTS(metric="unit"), tune=burn, draws=iterations - burn, **options
    )


def default(target: Density, start: ArrayLike, gradients: int | float, **options: Any) -> Result:
    """Run ``sahmc.sample`` with defaults, apart from the budget of ``gradients`` and any ``options``."""
    return run_quietly(target, start, **budget(gradients), **options)


def budget(gradients: int | float) -> dict[str, Any]:
    """Return the arguments of ``sahmc.sample`` for a run with a budget of ``gradients``.

    The warm-up gets a tenth of the iterations, and at least 1000, but at most a quarter: its iterations cost more.
    """
    iterations = int(gradients / GRADIENTS)
    tune = min(max(1000, iterations // 10), max(100, iterations // 4))
    return dict(chains=32, tune=tune, draws=max(50, iterations - tune), max_gradients=gradients)


def _printed(step_size: float, steps: int) -> HMC:
    return HMC(step_size=step_size, num_integration_steps=steps, metric="unit", jitter=0)


def run_quietly(model: Density, start: ArrayLike, **options: Any) -> Result:
    """Run ``sahmc.sample`` with these ``options``, without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return sample(model, jnp.asarray(start), **options)


def raw_ess(draws: np.ndarray) -> np.ndarray:
    """Return effective sample sizes of the unweighted draws, as in the paper, (chain, dim)."""
    return own_ess(draws, np.zeros(draws.shape[:2]))


def own_ess(draws: np.ndarray, log_weight: np.ndarray) -> np.ndarray:
    """Return effective sample sizes of the weighted means of each single chain, (chain, dim)."""
    found = []
    for chain, own in zip(draws, log_weight, strict=True):
        weight = np.exp(own - own.max())[None]
        found.append(weighted_ess(chain[None].astype(float), weight / weight.sum()))
    return np.stack(found)


def spectral_ess(draws: np.ndarray) -> np.ndarray:
    """Return the numbers of ``raw_ess`` from the spectrum at frequency zero of an autoregression, as in R's coda.

    AIC chooses the order, at most 10 log10(n): 59 for 800 000 draws. The method misses longer memory, so it overrates
    chains that change modes every few hundred draws.
    """
    return np.array([[_spectral_ess(column.astype(float)) for column in chain.T] for chain in draws])


def _spectral_ess(x: np.ndarray) -> float:
    size, order = len(x), int(10 * np.log10(len(x)))
    covariance = autocovariance(x[None])
    noise, weights = covariance[0], np.zeros(0)
    best, at_zero = np.inf, covariance[0]
    for p in range(order + 1):  # Levinson recursion
        if p:
            last = (covariance[p] - weights @ covariance[1:p][::-1]) / noise
            weights, noise = np.append(weights - last * weights[::-1], last), noise * (1 - last**2)
        aic = size * np.log(noise) + 2 * (p + 1)
        if aic < best:
            best, at_zero = aic, noise * size / (size - p - 1) / (1 - weights.sum()) ** 2
    return float(size * x.var() / at_zero)


def own_masses(draws: np.ndarray, log_weight: np.ndarray, target: Target) -> np.ndarray:
    """Return the weighted mass of each mode in each single chain, (chain, mode)."""
    label = jax.jit(jax.vmap(target.mode))
    found = []
    for chain, own in zip(draws, log_weight, strict=True):
        weight = np.exp(own - own.max(), dtype=float)
        found.append(np.bincount(np.asarray(label(chain)), weight / weight.sum(), len(target.masses)))
    return np.stack(found)


def default_masses(target: Target, gradients: int | float, seeds: int, **options: Any) -> dict[str, Any]:
    """Return the masses of the modes, (run, mode), in ``seeds`` runs of the default from ``target.start``.

    Also return the median of the seconds, and the means of the gradients and of the highest temperature.
    """
    masses, seconds, spent, tops = [], [], [], []
    for seed in range(seeds):
        result = default(target.log_density, target.start, gradients, random_seed=seed, progressbar=False, **options)
        masses.append(result.expectation(target.indicators).mean)
        seconds.append(result.settings["sampling_time"])
        spent.append(result.num_gradients)
        tops.append(result.warmup.top or np.nan)
    costs = {"seconds": float(np.median(seconds)), "gradients": float(np.mean(spent))}
    return {"masses": np.array(masses), **costs, "top": float(np.mean(tops))}


ERROR_COLUMNS = ("modes found", "rms error of the masses", "its Monte Carlo error")
"""The columns of a table for the output of ``errors_of_masses``."""


def errors_of_masses(masses: np.ndarray, target: Target) -> tuple[str, float, float]:
    """Return the number of modes found, the root mean square error of the ``masses`` (run, mode), and its own error.

    A mode is found if it received a tenth of its mass; the number is a mean over runs. The last error comes from the
    spread between runs, and is nan for one run.
    """
    by_run = ((masses - target.masses) ** 2).mean(axis=1)
    error = float(np.sqrt(by_run.mean()))
    spread = float(by_run.std(ddof=1) / np.sqrt(len(by_run)) / (2 * error)) if len(by_run) > 1 else float("nan")
    found = (masses > 0.1 * target.masses).sum(axis=1).mean()
    return f"{found:.1f} of {masses.shape[1]}", error, spread
