"""The overview of a run in a few lines, for ``print(result)`` and notebooks."""

from __future__ import annotations

import numpy as np

from sahmc._support.frozen import thawed
from sahmc._support.tables import number
from sahmc._support.words import counted, listed, wrapped
from sahmc.models.positions import named
from sahmc.results.findings.words import ERROR, WARNING
from sahmc.results.mode_moments import with_mass
from sahmc.results.records import RunRecord
from sahmc.tilt.importance import kish_efficiency

MOST_NAMED = 6
"""The maximum number of variables or modes to list."""
COLUMN = 14
"""The width of the first column in characters, including the space around it."""


def overview(record: RunRecord) -> dict[str, str]:
    """Return the lines of the overview of a run, by topic."""
    chains, draws = record.draws.energy.shape
    settings, levels = record.settings, record.num_regions
    trips = f" with {levels} regions, {counted(int(record.round_trips.sum()), 'round trip')}" if levels > 1 else ""
    cost = f"{record.num_gradients:,} gradients, {number(settings['sampling_time'], 2)} s"
    variables = [f"{name} {leaf.shape[2:]}" if leaf.ndim > 2 else name for name, leaf in _variables(record)]
    return {
        "draws": f"{counted(chains, 'chain')} of {counted(draws, 'draw')}, seed {thawed(settings['random_seed'])}",
        "variables": _some(variables),
        "sampler": f"{settings['kernel']}, tilt {settings['tilt']}{trips}, {cost}",
        "moves": f"acceptance {record.draws.acceptance_rate.mean():.2f}, "
        f"{_divergences(record)}, weight efficiency {kish_efficiency(record.weight):.2f}",
        **_modes(record),
        "findings": _findings(record),
    }


def as_text(lines: dict[str, str]) -> str:
    """Return an overview as text that fits a terminal."""
    indent = " " * COLUMN
    rows = [wrapped(f"  {name:<{COLUMN - 2}}{what}", indent) for name, what in lines.items()]
    return "\n".join(["<sahmc.Result", *rows]) + ">"


def _variables(record: RunRecord) -> list[tuple[str, np.ndarray]]:
    return list(named(record.draws.values).items())


def _some(names: list[str]) -> str:
    """Return the first few names as text, and the number of the others."""
    more = len(names) - MOST_NAMED
    return listed(names) if more <= 0 else f"{', '.join(names[:MOST_NAMED])} and {more} more"


def _modes(record: RunRecord) -> dict[str, str]:
    """Return the line on modes, if the run searched for them."""
    if record.modes is None:
        return {}
    mass = record.modes.mass(record.weight)
    told = [f"{m:.2g}" if m < 0.1 else f"{m:.2f}" for m in mass[with_mass(mass)]]
    return {"modes": f"{len(told)}, of mass {_some(told)}" if len(told) > 1 else str(len(told))}


def _divergences(record: RunRecord) -> str:
    """Return the number of divergences, and how many were on hot levels, where they do not count as a finding."""
    cold = int(record.counts.cold_diverging)
    hot = int(record.counts.diverging) - cold
    where = f" ({hot:,} of them on hot levels)" if cold else " (hot levels)"
    return f"{counted(record.counts.diverging, 'divergence')}{where if hot > 0 else ''}"


def _findings(record: RunRecord) -> str:
    """Return the numbers of errors and warnings, and their codes."""
    told = []
    for severity in (ERROR, WARNING):
        codes = [finding.code for finding in record.findings if finding.severity == severity]
        if codes:
            told.append(f"{counted(len(codes), severity)} ({', '.join(dict.fromkeys(codes))})")
    return ", ".join(told) or "none"
