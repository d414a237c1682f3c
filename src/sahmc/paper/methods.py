"""The samplers in the tables: HMC and SAHMC as printed, NUTS, and our default with the same number of gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from sahmc._support.types import PositionFn
from sahmc.kernels.hmc import HMC
from sahmc.kernels.nuts import NUTS
from sahmc.paper.experiment import Cell, standard_error
from sahmc.results.result import Result
from sahmc.sampling import sample
from sahmc.testing.targets import Target
from sahmc.tilt.importance import autocovariance, weighted_ess
from sahmc.tilt.partition import EnergyPartition

GRADIENTS = 320
"""The gradients per iteration of the default: 32 chains, four moves of two and a half steps on average."""

T0 = 5000
"""The t0 of the printed gain on the problems with known masses."""


def printed_kernel(step_size: float, steps: int) -> HMC:
    """Return HMC as printed: ``steps`` leapfrog steps per move, and the identity as mass matrix."""
    return HMC(step_size=step_size, num_integration_steps=steps, metric="unit", jitter=0)


def printed(
    target: Target,
    step_size: float,
    steps: int,
    edges: EnergyPartition | None,
    iterations: int,
    burn: int,
    *,
    thin: int = 1,
    **options: Any,
) -> Result:
    """Run the paper's algorithm exactly: one theta per chain, from zero, with adaptation throughout.

    ``edges`` divides the energies into regions; None means plain HMC. The first ``burn`` of all ``iterations`` are
    discarded; every ``thin``-th of the others is kept. ``options`` go to ``sahmc.sample``.
    """
    tilt: dict[str, Any] = {"tilt": "none"}
    if edges is not None:
        tilt = {"tilt": "step", "theta": "per-chain", "adapt": "always", "gain": T0, "partition": edges}
    return run_quietly(
        target.log_density,
        target.start,
        kernel=printed_kernel(step_size, steps),
        tune=burn,
        draws=(iterations - burn) // thin,
        thin=thin,
        **tilt,
        **options,
    )


def nuts(target: Target, iterations: int, burn: int, **options: Any) -> Result:
    """Run our NUTS, with the identity as mass matrix and a step size tuned to acceptance probability 0.8."""
    kernel = NUTS(metric="unit")
    draws = iterations - burn
    return run_quietly(target.log_density, target.start, tilt="none", kernel=kernel, tune=burn, draws=draws, **options)


def default_runs(
    target: Target,
    gradients: int,
    seeds: int,
    measure: Callable[[Result], dict[str, ArrayLike]],
    **options: Any,
) -> tuple[dict[str, np.ndarray], Result]:
    """Run our default with the seeds from 0, each time with a budget of ``gradients``; ``options`` go to ``sample``.

    Return the output of ``measure``, the seconds and the gradients of all runs, (run, ...), by name; and the last
    result.
    """
    found = []
    for seed in range(seeds):
        result = run_quietly(target.log_density, target.start, **budget(gradients), random_seed=seed, **options)
        costs = {"seconds": result.settings["sampling_time"], "gradients": result.num_gradients}
        found.append({**costs, **measure(result)})
    return {name: np.array([one[name] for one in found]) for name in found[0]}, result


def budget(gradients: int) -> dict[str, Any]:
    """Return the arguments of ``sahmc.sample`` for a run with a budget of ``gradients``.

    The warm-up gets a tenth of the iterations, and at least 1000, but at most a quarter: its iterations cost more.
    """
    iterations = int(gradients / GRADIENTS)
    tune = min(max(1000, iterations // 10), max(100, iterations // 4))
    return dict(chains=32, tune=tune, draws=max(50, iterations - tune), max_gradients=gradients)


def run_quietly(model: PositionFn, start: ArrayLike, **options: Any) -> Result:
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


def default_masses(target: Target, gradients: int, seeds: int, **options: Any) -> Cell:
    """Return the masses of the modes, (run, mode), in ``seeds`` runs of the default from ``target.start``.

    Also return the median of the seconds, and the means of the gradients and of the highest temperature.
    """

    def measure(result: Result) -> dict[str, ArrayLike]:
        return {"masses": result.expectation(target.indicators).mean, "top": result.warmup.top or np.nan}

    found, _ = default_runs(target, gradients, seeds, measure, progressbar=False, **options)
    means = {name: float(found[name].mean()) for name in ("gradients", "top")}
    return {"masses": found["masses"], "seconds": float(np.median(found["seconds"])), **means}


ERROR_COLUMNS = ("modes found", "rms error of the masses", "its Monte Carlo error")
"""The columns of a table for the output of ``errors_of_masses``."""


def errors_of_masses(masses: np.ndarray, target: Target) -> tuple[str, float, float]:
    """Return the number of modes found, the root mean square error of the ``masses`` (run, mode), and its own error.

    A mode is found if it received a tenth of its mass; the number is a mean over runs. The last error comes from the
    spread between runs, and is nan for one run.
    """
    by_run = ((masses - target.masses) ** 2).mean(axis=1)
    error = float(np.sqrt(by_run.mean()))
    spread = float(np.divide(standard_error(by_run), 2 * error))
    found = (masses > 0.1 * target.masses).sum(axis=1).mean()
    return f"{found:.1f} of {masses.shape[1]}", error, spread
