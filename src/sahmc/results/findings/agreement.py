"""Findings on the agreement of chains: R-hat, effective sample size, drift, and weight on too few draws."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sahmc.results.findings.listing import ERROR, WARNING
from sahmc.results.records import Finding, RunRecord
from sahmc.tilt.importance import (
    kish_efficiency,
    resample_rows,
    split_rhat,
    weighted_mean,
    weighted_rhat,
    weighted_variance,
)

RHAT_WARNING, RHAT_ERROR = 1.1, 1.5
"""The maximum R-hat of weighted values before a warning, and before an error."""
APART_ERROR = 4.0
"""The maximum variance of chain means, relative to that expected at LEAST_ESS, before an error."""
LEAST_ESS = 100
"""The minimum effective sample size for a reliable standard error."""
DRIFT_WARNING, DRIFT_ERROR = 5.0, 10.0
"""The maximum difference between the means of the two halves of the draws, in standard errors."""
LEAST_EFFICIENCY = 0.02
"""The minimum Kish efficiency of the weights."""
HEAVIEST_DRAW, EQUAL_SHARES = 0.1, 3.0
"""The maximum share of the weight for a single draw; and, for few draws, the maximum multiple of an equal share."""


def check_weights(record: RunRecord) -> Iterator[Finding]:
    """Check that the weight is not concentrated on too few draws."""
    weight = record.weight
    heaviest, efficiency = float(weight.max()), kish_efficiency(weight)
    if heaviest > max(HEAVIEST_DRAW, EQUAL_SHARES / weight.size):
        sentence = f"One draw carries {heaviest:.0%} of the weight."
        yield Finding("weights", ERROR, sentence, heaviest, "Raise tune, so that theta is learnt better.")
    elif efficiency < LEAST_EFFICIENCY:
        sentence = f"The weights leave only {efficiency:.1%} of the draws effective."
        yield Finding("weights", WARNING, sentence, efficiency, "Raise tune, so that theta is learnt better.")


def check_moved(values: np.ndarray, names: list[str]) -> Iterator[Finding]:
    """Check that every coordinate of the positions, ``values`` (chain, draw, coordinate), took several values."""
    still = np.flatnonzero((values == values[:1, :1]).all(axis=(0, 1)))
    if 0 < len(still) < values.shape[2] and values[..., 0].size > 1:
        others = f" and {len(still) - 1} more" if len(still) > 1 else ""
        yield Finding(
            "stuck",
            ERROR,
            f"{names[still[0]]}{others} has the same value in all draws: its unit is far from those of the others, or "
            "too large for the precision.",
            float(len(still)),
            "Divide each variable by its unit, or use 64 bits.",
        )


def check_agreement(values: np.ndarray, names: list[str], weight: np.ndarray) -> Iterator[Finding]:
    """Check weighted R-hat, effective sample size and drift of all quantities, and report the worst of each.

    ``values`` is an array (chain, draw, quantity), ``names`` are those of the quantities, and ``weight`` sums to 1.
    """
    if weight.size == 1:
        few = f"There is a single draw; standard errors need about {LEAST_ESS}."
        yield Finding("budget", WARNING, few, 1.0, "Raise draws.")
        return
    mean, error = weighted_mean(values, weight)
    spread = weighted_variance(values, weight)
    moves = spread > 1e-12 * mean**2
    if not moves.any():
        yield Finding("stuck", ERROR, "Nothing moved.", 0.0, "Check the log density and where it starts.")
        return
    yield from _chains_differ(values, names, weight)
    ess = np.where(moves, spread / np.where(error > 0, error, 1.0) ** 2, np.inf)
    worst = int(np.argmin(ess))
    if ess[worst] < LEAST_ESS:
        yield Finding(
            "budget",
            WARNING,
            f"The effective sample size is {ess[worst]:.0f} for {names[worst]}; standard errors need about "
            f"{LEAST_ESS}.",
            float(ess[worst]),
            f"Raise draws {math.ceil(LEAST_ESS / max(ess[worst], 1)) + 1}-fold.",
        )
    half = values.shape[1] // 2
    if half < 4:
        return
    halves = (values[:, :half], weight[:, :half]), (values[:, half:], weight[:, half:])
    if any(w.sum() == 0 for _, w in halves):
        words = "All the weight lies in one half of the draws: the other tells nothing of the posterior."
        yield Finding("drift", ERROR, words, 1.0, "Raise tune.")
        return
    parts = [weighted_mean(v, w / w.sum()) for v, w in halves]
    noise = np.hypot(parts[0].mcse, parts[1].mcse)
    drift = np.where(moves & (noise > 0), np.abs(parts[0].mean - parts[1].mean) / np.where(noise > 0, noise, 1.0), 0.0)
    worst = int(np.argmax(drift))
    if drift[worst] > DRIFT_WARNING:
        yield Finding(
            "drift",
            ERROR if drift[worst] > DRIFT_ERROR else WARNING,
            f"The two halves of the draws differ by {drift[worst]:.0f} standard errors in {names[worst]}.",
            float(drift[worst]),
            "Raise tune.",
        )


def _chains_differ(values: np.ndarray, names: list[str], weight: np.ndarray) -> Iterator[Finding]:
    """Check that chains agree, by the worst of the quantities.

    Two versions of R-hat are needed. R-hat of the weighted values w (f - mean) detects chains that carry different
    weight; but if weights vary much, it hides differences between the means of chains. R-hat of equal-weight rows
    detects these. With many chains it exceeds 1 by about the number of half-chains over twice the effective sample
    size, which is harmless; its threshold allows for that.
    """
    mixing, apart = weighted_rhat(values, weight), split_rhat(values[resample_rows(weight, 0)])
    apart = np.where(np.isnan(apart), 1.0, apart)
    room = 2 * len(values) / LEAST_ESS
    excess = np.maximum((mixing**2 - 1) / (RHAT_WARNING**2 - 1), (apart**2 - 1) / room)
    worst = int(np.argmax(excess))
    if excess[worst] <= 1:
        return
    bad = mixing[worst] > RHAT_ERROR or apart[worst] ** 2 - 1 > APART_ERROR * room
    many = int((excess > 1).sum())
    yield Finding(
        "rhat",
        ERROR if bad else WARNING,
        f"Chains disagree: R-hat is {apart[worst]:.2f} for {names[worst]}, {mixing[worst]:.2f} with its weights"
        + (f" (too high for {many} of {len(names)} quantities)." if many > 1 else "."),
        float(max(mixing[worst], apart[worst])),
        "Raise draws and tune.",
    )
