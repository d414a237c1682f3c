"""Findings on whether chains agree: R-hat, effective sample size, drift, and weights on too few draws."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sahmc.results.findings.words import ERROR, WARNING
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
"""The largest R-hat of the weighted values of a quantity without a warning, and without an error."""
APART_ERROR = 4.0
"""The factor by which the spread of chain means may exceed what LEAST_ESS leaves, without an error."""
LEAST_ESS = 100
"""The effective sample size that a standard error needs."""
DRIFT_WARNING, DRIFT_ERROR = 5.0, 10.0
"""The most standard errors between the means of the two halves of the draws."""
LEAST_EFFICIENCY = 0.02
"""The share of the draws that the weights must leave effective."""
HEAVIEST_DRAW, EQUAL_SHARES = 0.1, 3.0
"""The share of the weight that one draw may carry, and how many times an equal share it may, where draws are few."""


def check_weights(record: RunRecord) -> Iterator[Finding]:
    """Check that the weight does not lie on too few draws."""
    weight = record.weight
    heaviest, efficiency = float(weight.max()), kish_efficiency(weight)
    if heaviest > max(HEAVIEST_DRAW, EQUAL_SHARES / weight.size):
        sentence = f"One draw carries {heaviest:.0%} of the weight."
        yield Finding("weights", ERROR, sentence, heaviest, "Raise tune, so that theta is learnt better.")
    elif efficiency < LEAST_EFFICIENCY:
        sentence = f"The weights leave only {efficiency:.1%} of the draws effective."
        yield Finding("weights", WARNING, sentence, efficiency, "Raise tune, so that theta is learnt better.")


def check_agreement(values: np.ndarray, names: list[str], weight: np.ndarray) -> Iterator[Finding]:
    """Check R-hat, effective sample size and drift of each quantity, all weighted; the worst of each is reported.

    ``values`` are arrays (chain, draw, quantity), ``names`` those of the quantities, and ``weight`` sums to 1.
    """
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

    Two numbers are looked at, because each sees what the other cannot. R-hat of the weighted values w (f - mean) sees
    that chains carry weight of their own; where the weights vary much it hides that the means of chains differ. R-hat
    of equal-weight rows sees that; but with many chains it exceeds 1 by about the number of half-chains over twice the
    effective sample size, without harm, and is judged by that.
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
