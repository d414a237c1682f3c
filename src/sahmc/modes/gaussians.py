"""Gaussians fitted to the draws of each mode, with as much of the covariance as the draws can determine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

PRIOR_DRAWS = 5.0
"""The number of draws that the prior guess counts for when means and variances are fitted: the minimum of the mode, and
the usual spread."""
MOST_ALIKE = 0.99
"""The largest plausible correlation between one draw and the next."""
DENSE_DIM = 400
"""The largest dimension in which modes share a full correlation matrix."""
MOST_AXES = 128
"""The largest number of axes along which a mode may differ in width from the others."""
SPIKE = 1.2
"""The factor by which an eigenvalue must be beyond the range of noise to be accepted."""
GRAM_DRAWS = 300
"""The number of draws of a mode used to find its axes where there is no full correlation matrix."""
LEAST_CORRELATION = 1e-9
"""The amount added to the diagonal of correlation matrices, which are singular if draws lie on a line."""
SORTINGS, SETTLED_SHARE = 5, 1e-3
"""The largest number of alternations between sorting draws and fitting Gaussians, and the share of draws that may still
change modes at the end."""
CANDIDATES, CLEAR_SCORE = 4, 50.0
"""The number of modes, the likeliest by diagonal covariances, between which full covariances then choose. A mode is
ruled out if its score exceeds the best by the second number, plus a term that grows with the dimension."""


@dataclass(frozen=True)
class Gaussians:
    """Gaussians, one for each mode.

    A draw of mode k is x = mean + sd * (C (z + U (s - 1) U' z)), where z is standard normal. C is lower triangular and
    shared by all modes. U holds orthonormal axes along which mode k is s times as wide.
    """

    count: np.ndarray
    """The number of draws to which each was fitted, (mode,)."""
    mean: np.ndarray
    """The means, (mode, dim)."""
    sd: np.ndarray
    """The standard deviation of each coordinate, (mode, dim)."""
    common: np.ndarray
    """C, (dim, dim); in many dimensions its diagonal of ones, (dim,)."""
    inverse: np.ndarray
    """The inverse of C."""
    axes: np.ndarray
    """U, (mode, dim, axis)."""
    stretch: np.ndarray
    """s, (mode, axis)."""
    log_det: np.ndarray
    """The log determinant of the map from z to x, (mode,)."""

    def squared_distance(self, draws: np.ndarray, k: int) -> np.ndarray:
        """Return z' z of draws (draw, dim) under mode ``k``."""
        z = (draws - self.mean[k]) / self.sd[k]
        z = z @ self.inverse.T if self.inverse.ndim == 2 else z
        along = z @ self.axes[k]
        return (z**2).sum(axis=1) + along**2 @ (self.stretch[k] ** -2 - 1)


class Likeliest(NamedTuple):
    """The most likely modes of draws; each array has one entry for each draw."""

    label: np.ndarray
    """The likeliest mode."""
    second: np.ndarray
    """The second likeliest mode."""
    gap: np.ndarray
    """The nats by which the second is less likely; +inf if there is only one mode."""
    square: np.ndarray
    """The squared distance, z' z, from the nearest mode."""


def likeliest(found: Gaussians, draws: np.ndarray) -> Likeliest:
    """Return the most likely modes of each of ``draws`` (draw, dim)."""
    num = min(CANDIDATES, len(found.count))
    rough = diagonal_scores(draws, found.mean, found.sd**2)
    near = np.argsort(rough, axis=1)[:, :num]
    score = np.take_along_axis(rough, near, axis=1)
    clear = score > score[:, :1] + CLEAR_SCORE + 10 * np.sqrt(2 * draws.shape[1])
    square, behind = np.full(near.shape, np.inf), score - score[:, :1]
    row, column = np.nonzero(~clear)
    order = np.argsort(near[row, column], kind="stable")
    edges = np.searchsorted(near[row, column][order], np.arange(len(found.count) + 1))
    for k in np.flatnonzero(np.diff(edges)):
        at = row[order[edges[k] : edges[k + 1]]], column[order[edges[k] : edges[k + 1]]]
        square[at] = found.squared_distance(draws[at[0]], int(k))
        score[at] = square[at] + 2 * found.log_det[k]
    score = np.where(clear, score[:, :1] + behind, score)
    rank = np.argsort(score, axis=1, kind="stable")
    ordered, label = (np.take_along_axis(part, rank, axis=1) for part in (score, near))
    gap = 0.5 * (ordered[:, 1] - ordered[:, 0]) if num > 1 else np.full(len(draws), np.inf)
    return Likeliest(label[:, 0], label[:, min(1, num - 1)], gap, square.min(axis=1))


def diagonal_scores(draws: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return the sum over coordinates of (x - m)^2 / v + log v for each draw and mode, from two matrix products."""
    middle = mean.mean(axis=0)
    draws, mean = draws - middle, mean - middle  # far from 0, sums of squares would cancel
    precision = 1 / variance
    constant = (mean**2 * precision + np.log(variance)).sum(axis=1)
    return draws**2 @ precision.T - 2 * draws @ (mean * precision).T + constant


def sort_and_fit(
    draws: np.ndarray,
    minima: np.ndarray,
    scale: np.ndarray,
    choose: Callable[[np.ndarray], np.ndarray] | None = None,
    laplace: np.ndarray | None = None,
) -> tuple[np.ndarray, Gaussians]:
    """Return the mode of each of ``draws`` (draw, dim), and Gaussians fitted to the draws of each mode.

    Draws start in the mode with the nearest of ``minima`` (mode, dim), in units of ``scale``, the spread of each
    coordinate. If ``laplace`` covariances (mode, dim, dim) are given, they start in the likeliest mode under these.
    Then fitting Gaussians and sorting draws by them alternate. ``choose`` takes the mode of each draw and returns which
    draws to fit to; all if None.
    """
    draws = draws.astype(float)
    label = np.zeros(len(draws), int)
    if len(minima) > 1 and laplace is not None:
        label = likeliest(gaussians_of(np.zeros(len(minima)), minima.astype(float), laplace), draws).label
    elif len(minima) > 1:
        label = np.argmin(diagonal_scores(draws, minima.astype(float), np.tile(scale**2, (len(minima), 1))), axis=1)
    for left in reversed(range(SORTINGS)):
        kept = np.full(len(draws), len(minima) > 0) if choose is None else choose(label) & (len(minima) > 0)
        if laplace is None or not len(minima):
            found = fit_gaussians(draws[kept], label[kept], minima, scale)
        else:
            found = fit_around(draws[kept], label[kept], minima, laplace)
        if not left or len(minima) < 2:
            break
        before, label = label, likeliest(found, draws).label
        if (label != before).mean() <= SETTLED_SHARE:
            break
    return label, found


def fit_gaussians(draws: np.ndarray, label: np.ndarray, minima: np.ndarray, scale: np.ndarray) -> Gaussians:
    """Fit a Gaussian to the draws of each mode, as closely as their number allows.

    ``label`` is the mode of each of ``draws`` (draw, dim), and ``minima`` (mode, dim) are the lowest points of the
    modes. ``scale`` is the expected spread of each coordinate. Estimates are shrunk: means towards the minima, and
    variances towards ``scale`` and a shape shared by all modes. The correlations of a mode are shrunk towards those of
    all modes, and these towards 0. Each is shrunk as far as noise alone would explain the difference (Ledoit and Wolf,
    2004).
    """
    num, dim = minima.shape
    draws = draws.astype(float)
    mean, variance, count, fresh = _moments(draws, label, minima, scale)
    sd = np.sqrt(variance)
    z = (draws - mean[label]) / sd[label]
    common: np.ndarray = np.ones(dim)
    inverse: np.ndarray = common
    if dim <= DENSE_DIM:
        common = np.linalg.cholesky(_shrunk(z, fresh.sum()) if len(z) > 1 else np.eye(dim))
        inverse = np.linalg.inv(common)
        z = z @ inverse.T
    axes, stretch = np.zeros((num, dim, min(dim, MOST_AXES))), np.ones((num, min(dim, MOST_AXES)))
    for k in np.flatnonzero(count > 1):
        width, along = _own_axes(z[label == k], fresh[k])
        axes[k, :, : len(width)], stretch[k, : len(width)] = along, width
        off = (mean[k] - minima[k]) / sd[k]
        off = off @ inverse.T if inverse.ndim == 2 else off
        mean[k] -= min(1.0, dim / fresh[k] / max(float(off @ off), 1e-300)) * (mean[k] - minima[k])
    lengths = np.log(np.diag(common)).sum() if common.ndim == 2 else 0.0
    log_det = np.log(sd).sum(axis=1) + lengths + np.log(stretch).sum(axis=1)
    return Gaussians(count, mean, sd, common, inverse, axes, stretch, log_det)


def fit_around(draws: np.ndarray, label: np.ndarray, minima: np.ndarray, laplace: np.ndarray) -> Gaussians:
    """Fit a Gaussian to the draws of each mode, shrunk towards its Laplace approximation.

    ``label`` is the mode of each of ``draws`` (draw, dim), and ``laplace`` are covariances (mode, dim, dim) at the
    ``minima`` (mode, dim). The fit is shrunk as far as noise alone would explain the difference.
    """
    num, dim = minima.shape
    mean, covariance = minima.astype(float), np.array(laplace, float)
    count = np.bincount(label, minlength=num).astype(float)
    for k in np.flatnonzero(count > 1):
        lower = np.linalg.cholesky(covariance[k])
        z = np.linalg.solve(lower, (draws[label == k] - mean[k]).T).T
        share = _fresh_share(z - z.mean(axis=0), np.zeros(len(z), int))
        fresh = max(share * len(z), 1e-9)
        off = z.mean(axis=0)
        off *= 1 - min(1.0, dim / fresh / max(float(off @ off), 1e-300))
        width, axes = _own_axes(z - off, fresh)
        stretch = np.eye(dim) + axes * (width**2 - 1) @ axes.T
        mean[k] += lower @ off
        covariance[k] = lower @ stretch @ lower.T
    return gaussians_of(count, mean, covariance)


def gaussians_of(count: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> Gaussians:
    """Return Gaussians with given means (mode, dim) and covariances (mode, dim, dim).

    In more than MOST_AXES dimensions only the axes are kept along which a mode differs most from the others.
    """
    sd = np.sqrt(np.einsum("kii->ki", covariance))
    correlation = covariance / sd[:, :, None] / sd[:, None]
    usual = np.average(correlation, axis=0, weights=count + 1.0)
    common = np.linalg.cholesky(usual + LEAST_CORRELATION * np.eye(len(usual)))
    inverse = np.linalg.inv(common)
    value, vector = np.linalg.eigh(inverse @ correlation @ inverse.T)
    value = np.maximum(value, 1e-6)
    kept = np.argsort(-np.abs(np.log(value)), axis=1, kind="stable")[:, : min(mean.shape[1], MOST_AXES)]
    stretch = np.sqrt(np.take_along_axis(value, kept, axis=1))
    axes = np.take_along_axis(vector, kept[:, None], axis=2)
    log_det = np.log(sd).sum(axis=1) + np.log(np.diag(common)).sum() + np.log(stretch).sum(axis=1)
    return Gaussians(count, mean, sd, common, inverse, axes, stretch, log_det)


def _fresh_share(z: np.ndarray, label: np.ndarray) -> float:
    """Return the effective sample size for each of ``z`` (draw, dim), from the correlation between successive draws.

    ``label`` is the mode of each draw; draws of one chain follow each other.
    """
    same = label[1:] == label[:-1]
    alike = (z[1:] * z[:-1])[same].sum() / max(float((z[:-1] ** 2)[same].sum()), 1e-300)
    alike = float(np.clip(alike, 0.0, MOST_ALIKE))
    return (1 - alike) / (1 + alike)


def _moments(
    draws: np.ndarray, label: np.ndarray, minima: np.ndarray, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return means and variances (mode, dim), numbers of draws, and effective sample sizes.

    Means are shrunk towards ``minima``, variances towards ``scale`` and a shared shape.
    """
    count = np.bincount(label, minlength=len(minima)).astype(float)
    mean, variance = minima.astype(float), np.tile(scale.astype(float) ** 2, (len(minima), 1))
    for k in np.flatnonzero(count):
        mine = draws[label == k]
        share = count[k] / (count[k] + PRIOR_DRAWS)
        mean[k] += share * (mine.mean(axis=0) - mean[k])
        variance[k] += share * (((mine - mean[k]) ** 2).mean(axis=0) - variance[k])
    fresh = count * _fresh_share((draws - mean[label]) / np.sqrt(variance)[label], label)
    return mean, _common_shape(variance, count, np.maximum(fresh, 1e-9)), count, fresh


def _common_shape(variance: np.ndarray, count: np.ndarray, fresh: np.ndarray) -> np.ndarray:
    """Return variances (mode, dim) shrunk towards the mean over modes, scaled by the width of each mode.

    The log of a variance has variance 2 / n, where n is the effective sample size, ``fresh``.
    """
    if len(variance) < 2:
        return variance
    shape = np.log(np.average(variance, axis=0, weights=count + 1e-9))
    own = np.log(variance) - shape
    width = own.mean(axis=1, keepdims=True)
    noise = (variance.shape[1] - 1) * 2 / fresh
    share = np.minimum(1.0, noise / np.maximum(((own - width) ** 2).sum(axis=1), 1e-300))[:, None]
    wide = np.maximum(0.0, 1 - 2 / fresh[:, None] / np.maximum(width**2, 1e-300))
    return np.exp(shape + wide * width + (1 - share) * (own - width))


def _shrunk(z: np.ndarray, fresh: float) -> np.ndarray:
    """Return the covariance of ``z`` (draw, dim), shrunk towards 1 as far as noise explains the difference.

    ``fresh`` is the effective sample size of ``z``.
    """
    dim = z.shape[1]
    found, one = z.T @ z / len(z), np.eye(dim)
    share = _noise_share(dim, float((found**2).sum()), float(((found - one) ** 2).sum()), fresh)
    return (1 - share) * found + share * one


def _noise_share(dim: int, square: float, away: float, fresh: float) -> float:
    """Return the share of the difference between a covariance and 1 that is noise.

    ``square`` is the sum of its squared entries, ``away`` that of its difference from 1. An entry of the covariance of
    n draws has variance (c_ii c_jj + c_ij^2) / n.
    """
    return float(np.clip((dim**2 + square) / max(fresh, 1e-9) / max(away, 1e-300), 1e-3, 1.0))


def _own_axes(z: np.ndarray, fresh: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the axes along which ``z`` (draw, dim) is not of width 1, and the widths there: (axis,), (dim, axis).

    In many dimensions only axes are kept that are wider than noise could make them.
    """
    dim = z.shape[1]
    if dim <= DENSE_DIM:
        found = z.T @ z / len(z)
        share = _noise_share(dim, float((found**2).sum()), float(((found - np.eye(dim)) ** 2).sum()), fresh)
        value, vector = np.linalg.eigh(found)
        value = _spikes(value, dim / max(fresh, 1e-9), otherwise=(1 - share) * value + share)
    else:
        some = z[np.linspace(0, len(z) - 1, min(len(z), GRAM_DRAWS)).astype(int)]
        value, vector = np.linalg.eigh(some @ some.T / len(some))  # same eigenvalues as the covariance
        vector = some.T @ vector / np.sqrt(len(some) * np.maximum(value, 1e-300))
        value = np.where(value > 1, value, 1.0)
        value = _spikes(value, dim / max(fresh * len(some) / len(z), 1e-9), otherwise=np.ones(len(value)))
    kept = np.argsort(-np.abs(np.log(value)), kind="stable")[:MOST_AXES]
    kept = kept[value[kept] != 1]
    return np.sqrt(value[kept]), vector[:, kept]


def _spikes(value: np.ndarray, noise: float, otherwise: np.ndarray) -> np.ndarray:
    """Return the true eigenvalues behind those of a sample covariance that stand out from noise.

    ``noise`` is the number of dimensions over that of draws. Eigenvalues of noise end at (1 +- sqrt(noise))^2. One
    beyond, v, comes from l where v = l + noise l / (l - 1) (Baik and Silverstein, 2006). Eigenvalues within are
    replaced by ``otherwise``.
    """
    value = np.maximum(value, 0.0)  # without full rank, rounding may make one negative
    high, low = SPIKE * (1 + np.sqrt(noise)) ** 2, max(0.0, 1 - np.sqrt(noise)) ** 2 / SPIKE
    middle = value + 1 - noise
    root = np.sqrt(np.maximum(middle**2 - 4 * value, 0.0))
    found = np.where(value > high, (middle + root) / 2, np.where(value < low, (middle - root) / 2, otherwise))
    return np.maximum(found, 1e-3)
