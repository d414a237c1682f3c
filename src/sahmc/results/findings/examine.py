"""The examination of a run for problems of all kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from sahmc._support.types import Position
from sahmc.results.findings.agreement import check_agreement, check_moved, check_weights
from sahmc.results.findings.ladder import check_evidence, check_ladder, check_theta
from sahmc.results.findings.listing import ERROR, GO_ON
from sahmc.results.findings.modes import LEAST_MASS, check_modes, name_modes
from sahmc.results.findings.moves import check_moves
from sahmc.results.records import Finding, RunRecord
from sahmc.results.search import check_search
from sahmc.results.variables import choose_quantities

NOT_EXAMINED = Finding(
    "interrupted", ERROR, "Interrupted before it was examined: faults were not looked for.", 0.0, GO_ON
)
"""The finding of a run that was interrupted before its examination."""
SAID = 200
"""The maximum number of characters of an exception that a finding quotes."""


def examine(record: RunRecord, positions: Position, whole: bool = False) -> tuple[Finding, ...]:
    """Return the findings of a run, errors first.

    ``positions`` is a pytree of arrays (chain, draw, ...), compared between chains. They are ``whole`` if they
    are what chains move, rather than variables or functions of it.
    """
    flat, names, every = choose_quantities(positions, record.labels)
    pick = slice(None, None, every[0]), slice(None, None, every[1])
    found = [*check_moves(record), *check_weights(record), *check_ladder(record), *check_theta(record, every)]
    found += [*check_evidence(record), *check_search(record), *(check_moved(flat, names) if whole else ())]
    quantities = np.concatenate([flat, record.draws.log_density[pick][..., None]], axis=2).astype(float)
    names = [*names, "the log density"]
    weight = record.weight[pick]
    weight = weight / weight.sum()
    seen = record.modes
    if seen is not None and len(seen.energy) > 1:
        seen = seen._replace(label=seen.label[pick])
        mass = seen.mass(weight)
        reference = record.warmup.reference
        countless = reference is not None and reference.shifts > 0
        called = name_modes(record)
        found += check_modes(seen, mass, seen.chains(record.cold[pick]), len(flat), countless, called)
        for k in np.flatnonzero((mass > LEAST_MASS) & (mass < 1 - LEAST_MASS)):
            quantities = np.concatenate([quantities, (seen.label == k)[..., None].astype(float)], axis=2)
            names.append(f"the mass of {called[k]}")
    found += check_agreement(quantities, names, weight)
    return errors_first(*found)


def guarded(what: str, check: Callable[[], Iterable[Finding]]) -> tuple[Finding, ...]:
    """Return the findings of a check. If it fails, return a finding that says so, so that the draws are not lost.

    ``what`` is the beginning of its sentence.
    """
    try:
        return tuple(check())
    except Exception as error:
        return (failure(f"{what} could not be examined", error),)


def failure(sentence: str, error: Exception) -> Finding:
    """Return the finding that begins with ``sentence`` and reports an ``error`` that did not affect the draws."""
    said = " ".join(f"{type(error).__name__}: {error}".split())[:SAID]
    whole = f"{sentence} ({said}). The draws are as they were made."
    return Finding("examination", ERROR, whole, 0.0, "Keep them with result.save(), and report this.")


def errors_first(*found: Finding) -> tuple[Finding, ...]:
    """Return findings in their order, errors before warnings."""
    return tuple(sorted(found, key=lambda finding: finding.severity != ERROR))
