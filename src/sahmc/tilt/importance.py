"""Weighted draws: expectations with their standard errors, effective sample size, resampling.

A draw x of the tilted density has the importance weight w = exp(Theta(U(x))). Weights are pooled over chains: a chain
that saw less of the posterior counts for less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

BLOCK_BYTES = 2**26
"""The size of a block of draws that is processed at once, in bytes of double precision."""


class Expectation(NamedTuple):
    """A posterior mean and its Monte Carlo standard error."""

    mean: np.ndarray
    mcse: np.ndarray
    """The standard error, in the shape of ``mean``."""


def log_normalise(log_weight: np.ndarray) -> np.ndarray:
    """Return log weights shifted so that the weights sum to 1 over all draws."""
    high = log_weight.max()
    return log_weight - high - np.log(np.exp(log_weight - high).sum(dtype=float))


def error_of_mean(values: np.ndarray) -> Any:
    """Return the standard error of the mean of ``values`` (chain, draw, ...) over chains and draws.

    It accounts for autocorrelation and for differences between chains. For (chain, draw) it is a number, else an array.
    """
    if values.shape[0] * values.shape[1] < 2:
        return values.var(axis=(0, 1)) * np.nan
    spread = values.var(axis=(0, 1))
    columns = np.moveaxis(values.reshape(*values.shape[:2], -1), -1, 0)
    times = np.reshape([autocorrelation_time(column) for column in columns], values.shape[2:])
    share = np.where(np.isfinite(times), times / (values.shape[0] * values.shape[1]), 1.0)
    return np.sqrt(np.where(spread > 0, spread * share, 0.0))


def autocorrelation_time(values: np.ndarray) -> float:
    """Return the number of draws of ``values`` (chain, draw) that are worth one independent draw.

    This is Geyer's initial monotone sequence on half-chains, as in ``ess(method="mean")`` of ``arviz_stats``. That
    function loops over lags, which took longer than sampling if chains mix slowly; this one does not.
    """
    half = values.shape[1] // 2
    if half < 2 or not np.isfinite(values).all():
        return float("nan")
    halves = np.concatenate([values[:, :half], values[:, -half:]])
    mean = halves.mean(axis=1)
    covariance = autocovariance(halves)
    within = covariance[0] * half / (half - 1)
    total = covariance[0] + mean.var(ddof=1)
    if total <= 0:
        return 1.0
    rho = 1 - (within - covariance) / total
    rho[0] = 1.0
    num = 1 + max(0, (half - 3) // 2)
    pairs = rho[0 : 2 * num : 2] + rho[1 : 2 * num : 2]
    last = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else num - 1
    tau = -1 + 2 * np.minimum.accumulate(pairs)[:last].sum() + max(rho[2 * last], 0.0)
    return float(max(tau, 1 / np.log10(halves.size)))


def autocovariance(values: np.ndarray) -> np.ndarray:
    """Return the autocovariance of ``values`` (chain, draw) at every lag, averaged over chains.

    Each chain is centred at its own mean.
    """
    size = values.shape[1]
    centred = values - values.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(centred, 2 ** math.ceil(math.log2(2 * size)))) ** 2
    return np.fft.irfft(spectrum.mean(axis=0))[:size] / size


def split_rhat(values: np.ndarray) -> np.ndarray:
    """Return split R-hat of each quantity of ``values`` (chain, draw, quantity).

    It compares the variance between half-chains with that within them. Fewer than 8 draws give 1; a quantity that never
    changes gives nan.
    """
    return np.ones(values.shape[2]) if values.shape[1] < 8 else _rhat(_halves(values))


def _halves(values: np.ndarray) -> np.ndarray:
    """Return the two halves of each chain of ``values`` (chain, draw, ...) as separate chains."""
    half = values.shape[1] // 2
    return np.concatenate([values[:, :half], values[:, values.shape[1] - half :]])


def _rhat(values: np.ndarray) -> np.ndarray:
    """Return R-hat of each quantity of ``values`` (chain, draw, quantity), without splitting chains."""
    num, within = values.shape[1], values.var(axis=1, ddof=1).mean(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.sqrt(values.mean(axis=1).var(axis=0, ddof=1) / within + (num - 1) / num)


def _normal_scores(values: np.ndarray) -> np.ndarray:
    """Return the rank-based normal scores of each quantity of ``values`` (chain, draw, quantity)."""
    scores, size = np.empty(values.shape), values[..., 0].size
    for k in range(values.shape[2]):
        one = np.sort(values[..., k], axis=None)
        rank = 0.5 * (one.searchsorted(values[..., k]) + one.searchsorted(values[..., k], side="right") + 1)
        scores[..., k] = ndtri((rank - 0.375) / (size + 0.25))
    return scores


def weighted_mean(values: np.ndarray, weight: np.ndarray) -> Expectation:
    """Return sum w f / sum w over the draws, and its standard error from the influence values w (f - mean).

    ``values`` f are (chain, draw, ...); ``weight`` w is (chain, draw) and sums to 1.

    This is the delta method. To first order, mean - truth is the plain mean of n w (f - mean), and the standard error
    of that accounts for weights and autocorrelation together. It fails if a few draws carry all the weight, because
    these few are then the mean. The error therefore has a lower bound: that of k log10(n) independent draws, where k
    is Kish's effective number of draws. The factor log10(n) also bounds the unweighted effective sample size.
    """
    column, values = _beside(weight, values), _known(values, weight)
    with np.errstate(invalid="ignore"):  # infinite values have no error, which is nan
        mean = (column * values).sum(axis=(0, 1))
        error = error_of_mean(weight.size * column * (values - mean))
        share = (weight**2).sum() / max(1.0, np.log10(weight.size))
        return Expectation(mean, np.maximum(error, np.sqrt(weighted_variance(values, weight) * share)))


def _beside(weight: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the weights (chain, draw) with trailing axes added, so that they broadcast against ``values``."""
    return weight.reshape(weight.shape + (1,) * (values.ndim - 2))


def _known(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the values, with 0 at draws of zero weight: there they may be so large that their squares overflow."""
    return values if (weight > 0).all() else np.where(_beside(weight, values) > 0, values, 0.0)


def weighted_variance(values: np.ndarray, weight: np.ndarray) -> np.ndarray | np.floating:
    """Return sum w (f - mean)^2, the posterior variance of ``values`` f (chain, draw, ...); ``weight`` w sums to 1."""
    column, values = _beside(weight, values), _known(values, weight)
    return ((np.sqrt(column) * (values - (column * values).sum(axis=(0, 1)))) ** 2).sum(axis=(0, 1))


def weighted_ess(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the effective sample size of ``values`` (chain, draw, ...): posterior variance / squared standard error.

    This is the number of independent draws that would estimate the mean equally well. A quantity that never changes
    gives nan.
    """
    error = weighted_mean(values, weight).mcse
    return np.where(error > 0, weighted_variance(values, weight) / np.where(error > 0, error, 1.0) ** 2, np.nan)


def weighted_rhat(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return split R-hat of the influence values w (f - mean) of each quantity of ``values`` (chain, draw, quantity).

    A quantity that never changes gives 1.
    """
    values = _known(values, weight)
    mean = (weight[..., None] * values).sum(axis=(0, 1))
    moves = weighted_variance(values, weight) > 1e-12 * mean**2
    return np.where(moves, split_rhat(weight.size * weight[..., None] * (values - mean)), 1.0)


def by_columns(measure: Callable[[np.ndarray], tuple[np.ndarray, ...]], values: np.ndarray) -> tuple[np.ndarray, ...]:
    """Apply ``measure`` to ``values`` (chain, draw, ...), a block of quantities at a time to save memory.

    ``measure`` takes (chain, draw, quantity) and returns arrays with one number for each quantity. They are reshaped
    to the shape of one draw.
    """
    columns = values.reshape(*values.shape[:2], -1)
    width = max(1, BLOCK_BYTES // (8 * columns.shape[0] * columns.shape[1]))
    parts = [measure(columns[..., i : i + width].astype(float)) for i in range(0, columns.shape[2], width)]
    return tuple(np.concatenate(part).reshape(values.shape[2:]) for part in zip(*parts, strict=True))


def kish_efficiency(weight: np.ndarray) -> float:
    """Return Kish's efficiency 1 / (n sum w^2). It ignores autocorrelation, so it gives no effective sample size."""
    return float(1.0 / (weight.size * (weight**2).sum()))


def systematic_resample(weight: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw ``size`` indices into flat weights, index i about size * w_i times; they are sorted to keep time order."""
    points = (rng.random() + np.arange(size)) / size
    return np.minimum(np.searchsorted(np.cumsum(weight / weight.sum()), points), weight.size - 1)


def resample_rows(weight: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the chain and the draw behind each equal-weight draw, as two arrays (row, draw).

    ``weight`` is (chain, draw). There are as many rows as chains, and each row comes from a single chain: a row with
    draws of two chains would hide their disagreement. A chain fills rows in proportion to its share of the weight.
    Within a row, draws are resampled by weight and kept in time order. ``seed`` seeds the resampling.
    """
    rng = np.random.default_rng(seed)
    chain = systematic_resample(weight.sum(axis=1), len(weight), rng)
    draw = np.stack([systematic_resample(weight[c], weight.shape[1], rng) for c in chain])
    return np.broadcast_to(chain[:, None], draw.shape), draw


def rank_rhat(rows: np.ndarray) -> np.ndarray:
    """Return R-hat, split and rank-normalised, of each quantity of equal-weight draws (row, draw, quantity).

    It is ArviZ's default R-hat, without the second and a half that importing ArviZ takes.
    """
    if rows.shape[1] < 8 or len(rows) < 2:
        return split_rhat(rows)
    halves = _halves(rows)
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    return np.maximum(_rhat(_normal_scores(halves)), _rhat(_normal_scores(folded)))
