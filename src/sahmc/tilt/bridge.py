"""Bridges: ratios of integrals from draws of two densities or of a whole ladder of them."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from sahmc.tilt.importance import Expectation, error_of_mean, weighted_mean

BRACKET, FREE_STEPS, MOST_STEPS = 50.0, 8, 150
"""The nats beyond all draws between which a bridge is looked for, the steps of that search before every third is a
bisection, and the most steps."""
FEW = 50_000
"""The number of draws from which on a bridge is first looked for by so many of them."""
UNKNOWN = Expectation(np.array(np.nan), np.array(np.nan))
"""The answer where nothing supports one."""


def bridge_levels(betas: np.ndarray, level: np.ndarray, energy: np.ndarray) -> Expectation:
    """Return log Z of the first level less that of the last, from the level and energy of draws (chain, draw).

    For levels i and j = i + 1 the log of Z_j / Z_i is M - log(n_i / n_j), where M solves
    sum over i of s(dU - M) = sum over j of s(M - dU), s is the logistic function and d = beta_i - beta_j: Bennett's
    acceptance ratio. A level without any draw makes it nan.
    """
    counts = np.bincount(level.ravel(), minlength=len(betas)).astype(float)
    if not (counts > 0).all():
        return UNKNOWN
    steps = -np.diff(betas)
    lower, upper = level < len(betas) - 1, level > 0  # draws that stand at the lower or the upper end of a bridge
    at_lower, at_upper = level[lower], level[upper] - 1
    below, above = steps[at_lower] * energy[lower], steps[at_upper] * energy[upper]
    middle: np.ndarray | None = None
    if level.size > FEW:  # most of the way by some of the draws
        some = slice(None, None, level.size // FEW)
        middle = _bridge(at_lower[some], below[some], at_upper[some], above[some], len(steps))
        middle = middle if np.isfinite(middle).all() else None  # a level with few draws may have none of those
    middle = _bridge(at_lower, below, at_upper, above, len(steps), middle)
    give, take = expit(below - middle[at_lower]), expit(middle[at_upper] - above)
    width = np.bincount(at_lower, give * (1 - give), len(steps)) + np.bincount(at_upper, take * (1 - take), len(steps))
    if not (width > 0).all():
        return UNKNOWN
    influence = np.zeros(level.shape)  # of each draw on the sum of all bridges, to first order
    influence[lower] += give / width[at_lower]
    influence[upper] -= take / width[at_upper]
    total = np.sum(middle - np.log(counts[:-1] / counts[1:]))
    return Expectation(-total, error_of_mean(influence * influence.size))


def _bridge(
    at_lower: np.ndarray,
    below: np.ndarray,
    at_upper: np.ndarray,
    above: np.ndarray,
    num: int,
    guess: np.ndarray | None = None,
) -> np.ndarray:
    """Return M of each of ``num`` bridges, by Newton's method within brackets, from a ``guess`` or the medians.

    ``at_lower`` is the bridge at whose lower end each of some draws stands and ``below`` its dU; ``at_upper`` and
    ``above`` are those of draws at an upper end.
    """
    ends = [values[np.isfinite(values)] for values in (below, above)]
    low = np.full(num, min(part.min(initial=np.inf) for part in ends) - BRACKET)
    high = np.full(num, max(part.max(initial=-np.inf) for part in ends) + BRACKET)
    middle = np.clip(_medians(at_lower, below, at_upper, above, num) if guess is None else guess, low, high)
    for i in range(MOST_STEPS):
        give, take = expit(below - middle[at_lower]), expit(middle[at_upper] - above)
        slack = np.bincount(at_lower, give, num) - np.bincount(at_upper, take, num)
        low, high = np.where(slack > 0, middle, low), np.where(slack > 0, high, middle)
        slope = np.bincount(at_lower, give * (1 - give), num) + np.bincount(at_upper, take * (1 - take), num)
        newton = middle + slack / np.maximum(slope, 1e-300)
        if np.abs(newton - middle).max() < 1e-9:
            break
        # Energies under a prior can be so far apart that Newton's steps alone do not get there.
        inside = (newton > low) & (newton < high) & ((i < FREE_STEPS) | (i % 3 != 2))
        middle = np.where(inside, newton, 0.5 * (low + high))
    return middle


def _medians(at_lower: np.ndarray, below: np.ndarray, at_upper: np.ndarray, above: np.ndarray, num: int) -> np.ndarray:
    """Return the median of dU at each bridge, over draws at either end."""
    at, values = np.concatenate([at_lower, at_upper]), np.concatenate([below, above])
    order = np.lexsort([values, at])
    bounds = np.searchsorted(at[order], np.arange(num + 1))
    return values[order][np.minimum((bounds[:-1] + bounds[1:]) // 2, len(values) - 1)]


def bridge_to_reference(low: np.ndarray, weight: np.ndarray, high: np.ndarray) -> Expectation:
    """Return the log of the integral of exp(-U), from E = U + log q at draws of either density (Meng and Wong, 1996).

    ``low`` are the E of draws of the posterior (chain, draw), whose weights are ``weight`` and sum to 1; ``high`` are
    those of independent draws of q. With l = exp(-E), Z solves Z = mean of l / (s l + t Z) under q over the mean of
    1 / (s l + t Z) under the posterior, where s and t are the shares of the numbers of draws.
    """
    num = 1 / (weight**2).sum()
    share = num / (num + len(high))
    log_z = -float(np.median(low))
    high = np.where(np.isnan(high), np.inf, high)
    for _ in range(MOST_STEPS):
        up = expit(np.log(share / (1 - share)) - high - log_z) / share  # l / (s l + t Z) over Z's own scale
        down = expit(np.log((1 - share) / share) + low + log_z) / (1 - share)
        below = float((weight * down).sum())
        step = float(np.log(up.mean()) - np.log(below)) if up.any() and below > 0 else np.nan
        log_z += step
        if not abs(step) > 1e-9:
            break
    if np.isnan(log_z):
        return Expectation(np.array(np.nan), np.array(np.nan))
    of_q = up.var() / len(high) / max(up.mean() ** 2, 1e-300)
    of_p = weighted_mean(down, weight)
    return Expectation(np.array(log_z), np.sqrt(of_q + (of_p.mcse / of_p.mean) ** 2))
