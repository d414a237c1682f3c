"""Rounds of draws: a run continues until it reaches the requested precision or a limit."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import jax
import numpy as np
from jaxtyping import Array, Key

from sahmc._support.hosts import agreed
from sahmc.engine.limits import Limits
from sahmc.results.findings.listing import GO_ON, WARNING
from sahmc.results.precision import Precision, Shortfall
from sahmc.results.records import Finding
from sahmc.sampling.outcome import Outcome, Run

SAFETY, LEAST_GROWTH, MOST_GROWTH = 1.1, 1.2, 2.0
"""The safety factor on the length of a round, and the bounds on the growth of a run in one round."""
MOST_DRAWS = 100
"""The maximum number of draws of a run without limits, as a multiple of the number first requested."""


def draw_in_rounds(
    run: Run, rng_key: Key[Array, ""], limits: Limits, until: Precision | None
) -> tuple[Outcome, list[Finding]]:
    """Make a first round of draws and, if a precision is requested, further ones.

    Returns the last outcome, and findings if it falls short of the request. If draws show a mode that the warm-up
    missed, everything is done once more. A failure in a further round or pass becomes a finding, unless a folder holds
    the draws.
    """
    outcome = run.once(rng_key, limits)
    lacking: list[Shortfall] = []
    while True:
        try:
            if outcome.number == 0 and outcome.may_go_on() and len(outcome.missed):
                outcome = run.again(jax.random.fold_in(rng_key, 1), limits, outcome)
        except Exception as error:
            if run.is_kept:
                raise
            outcome, lacking = outcome.with_failure("A second pass, which knows more modes,", error), []
            break
        began, rows = time.perf_counter(), outcome.drawn.so_far.rows
        try:
            cut = outcome.record.settings["interrupted"]
            lacking = [] if until is None or cut else until.shortfalls(outcome.record)
        except Exception as error:
            outcome, lacking = outcome.with_failure("The look at how precise the draws are", error), []
        limits.keep_time(rows, outcome.pace, outcome.looking + time.perf_counter() - began)
        total = agreed(_next(outcome, lacking, limits, MOST_DRAWS * run.ready.plan.draws))  # clocks differ
        if total is None or not outcome.may_go_on():
            break
        try:
            outcome = run.go_on(outcome, total, limits)
        except Exception as error:
            if run.is_kept:
                raise
            outcome, lacking = outcome.with_failure("A further round of draws", error), []
            break
    if outcome.may_go_on():
        run.note_complete(outcome)
    return outcome, [*_lacking(lacking, limits, run.presses.ended), *_cut_short(outcome, run.ready.plan.draws, limits)]


def _next(outcome: Outcome, lacking: list[Shortfall], limits: Limits, most: int) -> int | None:
    """Return the total number of draws after the next round; None if there is no further round.

    ``lacking`` lists the quantities that are not precise enough, and ``most`` is the maximum number of draws.
    """
    factor = max((shortfall.factor for shortfall in lacking), default=0.0)
    if not lacking or not math.isfinite(factor) or limits.is_late:
        return None
    drawn, spent = outcome.drawn, outcome.record.num_gradients
    rows = drawn.so_far.rows
    total = min(most, math.ceil(rows * np.clip(SAFETY * factor, LEAST_GROWTH, MOST_GROWTH)))
    left = (limits.max_gradients - spent - outcome.looked) / max(1.0, drawn.counts.gradients / rows)
    total = int(min(total, rows + max(0.0, left)))
    return total if total > rows else None


def _lacking(lacking: list[Shortfall], limits: Limits, ended: bool) -> Iterator[Finding]:
    """Yield a finding if a run ended, perhaps by Ctrl-C, before it reached the requested precision."""
    if lacking:
        worst = max(lacking, key=lambda shortfall: shortfall.factor)
        why = " before Ctrl-C" if ended else _why(worst, limits)
        sentence = f"The precision asked for was not reached{why}: {'; '.join(map(str, lacking))}."
        todo = GO_ON if ended else "Raise the limit, or go on with Result.extend."
        if not math.isfinite(worst.factor):
            todo = "Leave it out of until, or see the other findings."
        yield Finding("limit", WARNING, sentence, worst.value, todo)


def _why(worst: Shortfall, limits: Limits) -> str:
    """Return, as text, why a run ended before it reached the requested precision."""
    if not math.isfinite(worst.factor):
        return ", since no number of draws would do"
    if limits.is_late:
        return f" in max_time = {limits.max_time:g} s"
    if math.isfinite(limits.max_gradients):
        return f" with max_gradients = {limits.max_gradients:,.0f}"
    return f" by {MOST_DRAWS} times as many draws as at first"


def _cut_short(outcome: Outcome, wanted: int, limits: Limits) -> Iterator[Finding]:
    """Yield a finding if a limit left a run with fewer draws than first ``wanted``."""
    rows = outcome.drawn.so_far.rows
    if rows < wanted and not limits.are_none and outcome.may_go_on():
        which = (
            f"max_time = {limits.max_time:g} s" if limits.is_late else f"max_gradients = {limits.max_gradients:,.0f}"
        )
        sentence = f"{rows:,} of {wanted:,} draws of each chain were made with {which}."
        yield Finding("limit", WARNING, sentence, float(rows), "Raise the limit, or go on with Result.extend.")
