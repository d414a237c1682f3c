"""Bridge sampling: ratios of integrals from draws of two densities, or of a whole ladder of them."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from sahmc.tilt.importance import Expectation, error_of_mean, weighted_mean

BRACKET, FREE_STEPS, MOST_STEPS = 50.0, 8, 150
"""Settings of the search for a bridge.

They are its margin beyond the range of the draws (nats), the number of steps before every third one is a bisection,
and the maximum number of steps."""
FEW = 50_000
"""The number of draws above which a subset of about this size gives the starting value."""
UNKNOWN = Expectation(np.array(np.nan), np.array(np.nan))
"""The result if the draws do not support an estimate."""


def bridge_levels(betas: np.ndarray, level: np.ndarray, energy: np.ndarray) -> Expectation:
    """Return log Z of the first level minus that of the last, from the level and energy of draws (chain, draw).

    This is Bennett's acceptance ratio. For levels i and j = i + 1, log(Z_j / Z_i) = M - log(n_i / n_j). M solves
    ``sum over i of s(dU - M) = sum over j of s(M - dU)``, where s is the logistic function and d = beta_i - beta_j.
    A level without draws makes the result nan.
    """
    counts = np.bincount(level.ravel(), minlength=len(betas)).astype(float)
    if not (counts > 0).all():
        return UNKNOWN
    steps = -np.diff(betas)
    lower, upper = level < len(betas) - 1, level > 0  # draws at the lower or the upper end of a bridge
    at_lower, at_upper = level[lower], level[upper] - 1
    below, above = steps[at_lower] * energy[lower], steps[at_upper] * energy[upper]
    middle: np.ndarray | None = None
    if level.size > FEW:  # a starting value from some of the draws
        some = slice(None, None, level.size // FEW)
        middle = _bridge(at_lower[some], below[some], at_upper[some], above[some], len(steps))
        middle = middle if np.isfinite(middle).all() else None  # the subset may miss a level with few draws
    middle = _bridge(at_lower, below, at_upper, above, len(steps), middle)
    give, take = expit(below - middle[at_lower]), expit(middle[at_upper] - above)
    width = np.bincount(at_lower, give * (1 - give), len(steps)) + np.bincount(at_upper, take * (1 - take), len(steps))
    if not (width > 0).all():
        return UNKNOWN
    influence = np.zeros(level.shape)  # first-order influence of each draw on the sum of all bridges
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
    """Return M of each of ``num`` bridges by bracketed Newton steps, starting from ``guess`` or from the medians.

    For each draw at the lower end of a bridge, ``at_lower`` is the index of that bridge and ``below`` is dU.
    ``at_upper`` and ``above`` are the same for draws at the upper end.
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
        # Energies under a prior can be so far apart that Newton steps alone do not converge.
        inside = (newton > low) & (newton < high) & ((i < FREE_STEPS) | (i % 3 != 2))
        middle = np.where(inside, newton, 0.5 * (low + high))
    return middle


def _medians(at_lower: np.ndarray, below: np.ndarray, at_upper: np.ndarray, above: np.ndarray, num: int) -> np.ndarray:
    """Return the median of dU of each bridge, over draws at both ends."""
    at, values = np.concatenate([at_lower, at_upper]), np.concatenate([below, above])
    order = np.lexsort([values, at])
    bounds = np.searchsorted(at[order], np.arange(num + 1))
    return values[order][np.minimum((bounds[:-1] + bounds[1:]) // 2, len(values) - 1)]


def bridge_to_reference(low: np.ndarray, weight: np.ndarray, high: np.ndarray) -> Expectation:
    """Return the log of the integral of exp(-U), from E = U + log q at draws of both densities (Meng and Wong, 1996).

    ``low`` holds E of posterior draws (chain, draw); their ``weight`` sums to 1. ``high`` holds E of independent draws
    from q. Z solves Z = a / b: a is the mean of ``l / (s l + t Z)`` under q, and b is the mean of ``1 / (s l + t Z)``
    under the posterior. Here l = exp(-E), and s and t are the shares of posterior draws and of draws from q.
    """
    num = 1 / (weight**2).sum()
    share = num / (num + len(high))
    log_z = -float(np.median(low))
    high = np.where(np.isnan(high), np.inf, high)
    for _ in range(MOST_STEPS):
        up = expit(np.log(share / (1 - share)) - high - log_z) / share  # l / (s l + t Z); down is Z / (s l + t Z)
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
