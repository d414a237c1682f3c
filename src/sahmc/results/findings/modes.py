"""Findings on modes: modes with too little mass, and modes that too few chains visited."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import jax
import numpy as np

from sahmc._support.words import counted
from sahmc.models.positions import labels
from sahmc.results.expectations import resample_index
from sahmc.results.findings.listing import ERROR, WARNING
from sahmc.results.records import Finding, ModeAssignment, RunRecord
from sahmc.results.relabelling import known_symmetries
from sahmc.results.within_modes import mode_moments
from sahmc.symmetry.relabel import relabel

LEAST_MASS = 0.01
"""The minimum mass of a mode that is checked."""
SEEN_BY = 0.25
"""The minimum share of the chains that must have visited a mode."""
MODES_NAMED = 4
"""The maximum number of rarely visited modes that are named; the rest are counted."""
EXPECTED_MASS, UNSEEN_MASS = 0.2, 0.05
"""The minimum expected mass for a report, where a mode's depth and width give its expected mass.

The first is for modes with less than a tenth of that mass in the draws, the second for modes that no chain visited."""
LACKING, HARDLY = 0.1, 0.03
"""The share of its expected mass below which a mode lacks mass, and the share below which chains cannot have entered
it. Some draws nearby may have been counted for it."""
QUANTITIES_NAMED, NAMING_DRAWS = 2, 1000
"""The number of quantities that describe the position of a mode, and of draws used to compute them."""


def name_modes(record: RunRecord) -> list[str]:
    """Return the name of each mode in a sentence: its label and, if it has draws, its position.

    The position is the mean of the quantities in which modes differ most, from some equal-weight draws.
    """
    seen = record.modes
    if seen is None:
        return []
    index = resample_index(record, NAMING_DRAWS, 0)
    leaves = [np.asarray(leaf[index])[None] for leaf in record.draws.leaves]
    values, even = jax.tree.unflatten(record.draws.structure, leaves), np.full((1, NAMING_DRAWS), 1 / NAMING_DRAWS)
    symmetries = known_symmetries(record)
    if symmetries:
        values = relabel(values, record.draws.log_density[index][None], even, symmetries)
    moments = mode_moments(values, seen.label[index][None], even, len(seen.energy))
    names = labels(record.draws.values, 2, record.labels)
    chosen = moments.most_different()[:QUANTITIES_NAMED]

    def place(k: int) -> str:
        told = ", ".join(f"{names[i]} = {moments.mean[k, i]:z.3g}" for i in chosen)
        return f"mode {k} (near {told})" if moments.mass[k] > 0 else f"mode {k}"

    return [place(k) for k in range(len(seen.energy))]


def missed_modes(record: RunRecord) -> np.ndarray:
    """Return the lowest points (mode, dim) of modes that the warm-up missed and whose mass is therefore unknown.

    These are the modes for which ``check_modes`` reports an error, if they are few. Chains may have visited them late,
    or only have seen them in passing. There are none if there are too many modes to list.
    """
    seen, reference = record.modes, record.warmup.reference
    if seen is None or not seen.complete or (reference is not None and reference.shifts):
        return np.zeros((0, 0))
    mass, chains = seen.mass(record.weight), seen.chains(record.cold)
    late = (mass >= LEAST_MASS) & (chains < SEEN_BY * len(seen.label))
    late |= _lacks_mass(np.asarray(seen.expected), mass, chains, LACKING)
    late &= ~np.asarray(seen.known, bool)
    return np.asarray(seen.minimum)[late] if late.sum() <= MODES_NAMED else np.zeros((0, 0))


def _lacks_mass(expected: np.ndarray, mass: np.ndarray, chains: np.ndarray, share: float) -> np.ndarray:
    """Tell which modes hold less than this share of their expected mass, or were visited by no chain."""
    return ((chains == 0) & (expected > UNSEEN_MASS)) | ((expected > EXPECTED_MASS) & (mass < share * expected))


def check_modes(
    seen: ModeAssignment,
    mass: np.ndarray,
    chains: np.ndarray,
    total: int,
    countless: bool = False,
    names: Sequence[str] | None = None,
) -> Iterator[Finding]:
    """Check for modes with too little mass, and for modes that too few chains visited.

    ``mass`` and ``chains`` hold the mass of each mode and the number of chains that visited it, out of ``total``.
    ``countless`` means that there are too many modes to list but chains can reach all of them, so a mode found late is
    not an error. ``names`` are the names of the modes, their labels if None.
    """
    names = [f"mode {k}" for k in range(len(mass))] if names is None else names
    if not seen.complete:
        yield Finding(
            "modes",
            WARNING,
            f"New modes were still found when the search through the draws ended: there are more than the {len(mass)} "
            "of the table.",
            float(len(mass)),
            "Masses of single modes mean little here; look at quantities that do not depend on them.",
        )
    numbers = np.asarray(seen.expected), np.asarray(mass), np.asarray(chains)
    lacking = _lacks_mass(*numbers, LACKING)
    shut = _lacks_mass(*numbers, HARDLY) & (numbers[2] < SEEN_BY * total)
    for k, expected in enumerate(seen.expected):
        if lacking[k]:
            yield Finding(
                "modes",
                ERROR if shut[k] else WARNING,
                f"M{names[k][1:]} should hold {expected:.2f} of the mass by its depth and width, but in the "
                f"draws it holds {mass[k]:.2g}.",
                float(expected),
                "Chains may not find their way into it: raise tune and draws, and leave jumps on.",
            )
    rare = np.flatnonzero((mass >= LEAST_MASS) & (chains < SEEN_BY * total))
    rare = rare[np.lexsort([-mass[rare], seen.known[rare]])]  # late ones first, then by mass
    for k in rare[:MODES_NAMED]:
        late = "" if seen.known[k] else ", and found only while draws were made, so its mass is not known"
        yield Finding(
            "modes",
            WARNING if seen.known[k] or countless else ERROR,
            f"M{names[k][1:]}, of mass {mass[k]:.2f}, was seen by {chains[k]} of {total} chains{late}.",
            float(chains[k]),
            "Raise draws and tune, or start some chains there with initvals.",
        )
    rest = rare[MODES_NAMED:]
    if len(rest):
        late_ones = int((~np.asarray(seen.known, bool)[rest]).sum())
        yield Finding(
            "modes",
            ERROR if late_ones and not countless else WARNING,
            f"{counted(len(rest), 'more mode')}, of mass {mass[rest].sum():.2f} together, seen by less than a quarter "
            f"of the chains each; {late_ones} of them found only while draws were made.",
            float(len(rest)),
            "Raise draws and tune. If parts of the model can change places, masses of single modes mean little: look "
            "at quantities that do not depend on their order.",
        )
