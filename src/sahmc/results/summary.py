"""The texts on a run as a whole: the overview in a few lines, and the summary with a table and the findings."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sahmc._support.frozen import thawed
from sahmc._support.tables import Table, digits_for, number
from sahmc._support.types import PositionFn
from sahmc._support.validate import is_number, require
from sahmc._support.words import counted, listed, wrapped
from sahmc.models.positions import named, numbered
from sahmc.results.evidence import evidence_in_words
from sahmc.results.expectations import resample_index, values
from sahmc.results.findings.listing import ERROR, WARNING, Findings
from sahmc.results.records import RunRecord
from sahmc.results.relabelling import relabelled, symmetries_in_words
from sahmc.results.search import search_in_words
from sahmc.results.variables import VarNames, choose_variables
from sahmc.results.within_modes import with_mass, within_mode
from sahmc.tilt.importance import (
    by_columns,
    kish_efficiency,
    rank_rhat,
    resample_rows,
    weighted_ess,
    weighted_mean,
    weighted_variance,
)

if TYPE_CHECKING:
    import pandas as pd

SHOWN_ROWS = 40
"""The maximum number of printed rows; the DataFrame has all."""
INTERVAL_DRAWS = 4000
"""The maximum number of equal-weight draws from which intervals are computed."""
MOST_NAMED = 6
"""The maximum number of variables or modes to list."""
COLUMN = 14
"""The width of the first column of the overview in characters, including the space around it."""

Index = tuple[np.ndarray, np.ndarray]
"""The chains and the draw numbers of some draws."""


def overview(record: RunRecord) -> dict[str, str]:
    """Return the lines of the overview of a run, by topic."""
    chains, draws = record.draws.energy.shape
    settings, levels = record.settings, record.num_regions
    trips = f" with {levels} regions, {counted(int(record.round_trips.sum()), 'round trip')}" if levels > 1 else ""
    cost = f"{record.num_gradients:,} gradients, {number(settings['sampling_time'], 2)} s"
    variables = named(record.draws.values).items()
    shapes = [f"{name} {leaf.shape[2:]}" if leaf.ndim > 2 else name for name, leaf in variables]
    return {
        "draws": f"{counted(chains, 'chain')} of {counted(draws, 'draw')}, seed {thawed(settings['random_seed'])}",
        "variables": _some(shapes),
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


@dataclass(frozen=True, repr=False)
class Summary:
    """The summary of a run; print it, or call ``to_dataframe()``."""

    headline: str
    """A line on the run as a whole."""
    names: list[str]
    """The names of the quantities, one for each row."""
    columns: dict[str, np.ndarray]
    """The columns by name, with a number for each quantity."""
    findings: Findings
    """The findings, problems of the run with errors first."""
    evidence: str = ""
    """A line on the log evidence; empty if the run does not support it."""
    search: str = ""
    """A line on the power of the search for modes; empty if there was no search."""
    symmetries: str = ""
    """A line on the symmetries that make copies of modes; empty if there are none."""

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a row for each quantity."""
        import pandas as pd

        return pd.DataFrame(self.columns, index=self.names)

    def table(self, shown: int = SHOWN_ROWS) -> Table:
        """Return the first ``shown`` rows as a table of text, rounded to meaningful digits."""
        rows = [self._row(i) for i in range(min(shown, len(self.names)))]
        interval = [name for name in self.columns if name.startswith("hdi_")]
        return Table("", list(self.columns), self.names[:shown], rows, spare=("mcse", *interval))

    def _row(self, i: int) -> list[str]:
        """Return the cells of one quantity; mean and interval show at least two digits of the standard deviation."""
        cells, sd = [], float(self.columns["sd"][i])
        for name, column in self.columns.items():
            value = float(column[i])
            if name in ("ess", "r_hat"):
                cells.append("-" if np.isnan(value) else f"{value:.{0 if name == 'ess' else 2}f}")
            else:
                cells.append(number(value, {"mcse": 2, "sd": 3}.get(name) or digits_for(value, sd)))
        return cells

    @property
    def notes(self) -> tuple[str, ...]:
        """The lines on evidence, symmetries and search, without empty ones."""
        return tuple(note for note in (self.evidence, self.symmetries, self.search) if note)

    @property
    def rest(self) -> str:
        """A line on the rows that are not printed; empty if all are."""
        more = len(self.names) - SHOWN_ROWS
        return f"... and {counted(more, 'more row')}, in to_dataframe()" if more > 0 else ""

    def __str__(self) -> str:
        notes = ["", *(wrapped(note) for note in self.notes)] if self.notes else []
        table = [str(self.table()), *([self.rest] if self.rest else [])]
        return "\n".join([wrapped(self.headline), "", *table, *notes, "", str(self.findings)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        told = (f"<p>{html.escape(note)}</p>" for note in (self.rest, *self.notes) if note)
        return (
            f"<p>{html.escape(self.headline)}</p>{self.table().to_html()}{''.join(told)}{self.findings._repr_html_()}"
        )


def summarise(
    record: RunRecord, fn: PositionFn | None, prob: float, var_names: VarNames = None, mode: int | None = None
) -> Summary:
    """Return the summary of ``fn`` of the position, or of the position itself if None.

    Intervals are highest-density intervals of probability ``prob``. ``var_names`` selects the variables, all if None.
    ``mode`` restricts the posterior to the mode with this label; None means the whole posterior.
    """
    require(is_number(prob) and 0 < prob < 1, "prob must lie in (0, 1)", prob, "pass 0.94, say")
    inside = record if mode is None else within_mode(record, mode)
    found = choose_variables(named(relabelled(record) if fn is None else values(record, fn)), var_names)
    weight, known = inside.weight, record.labels if fn is None else None
    rows, index = resample_rows(weight, 0), resample_index(inside, min(weight.size, INTERVAL_DRAWS), 0)
    names = [text for name, leaf in found.items() for text in numbered(name, leaf.shape[2:], known)]
    parts = [_measure(leaf, weight, rows, index, prob) for leaf in found.values()]
    low, high = (f"hdi_{50 * (1 - prob):.3g}%", f"hdi_{50 * (1 + prob):.3g}%")
    headings = ("mean", "sd", low, high, "mcse", "ess", "r_hat")
    columns = dict(zip(headings, (np.concatenate(part) for part in zip(*parts, strict=True)), strict=True))
    return Summary(
        headline(record, mode),
        names,
        columns,
        Findings(record.findings),
        evidence_in_words(record),
        search_in_words(record) if mode is None else "",
        symmetries_in_words(record) if fn is None else "",
    )


def _measure(leaf: np.ndarray, weight: np.ndarray, rows: Index, index: Index, prob: float) -> tuple[np.ndarray, ...]:
    """Return the columns of the quantities in an array (chain, draw, ...).

    ``rows`` and ``index`` select equal-weight draws; each row of ``rows`` comes from one chain.
    """
    from arviz_stats.base import array_stats

    def measure(columns: np.ndarray) -> tuple[np.ndarray, ...]:
        mean, error = weighted_mean(columns, weight)
        still = (columns == columns[:1, :1]).all(axis=(0, 1))
        found = (
            np.sqrt(weighted_variance(columns, weight)),
            error,
            weighted_ess(columns, weight),
            rank_rhat(columns[rows]),
        )
        constant = (0.0, 0.0, np.nan, np.nan)
        return (mean, *(np.where(still, c, x) for c, x in zip(constant, found, strict=True)))

    mean, sd, error, ess, rhat = by_columns(measure, leaf)
    drawn = np.asarray(leaf[index], float)
    hdi = np.asarray(array_stats.hdi(drawn, prob, axis=0))
    return tuple(np.ravel(x) for x in (mean, sd, hdi[..., 0], hdi[..., 1], error, ess, rhat))


def headline(record: RunRecord, mode: int | None = None) -> str:
    """Return a line that describes the run, and the mode to which the summary is restricted."""
    chains, draws = record.draws.energy.shape
    settings, levels = record.settings, record.num_regions
    trips = f", {counted(int(record.round_trips.sum()), 'round trip')} over {levels} levels" if levels > 1 else ""
    within = ""
    if mode is not None and record.modes is not None:
        mass = float(record.weight[record.modes.label == mode].sum())
        what = f"mode {mode}" if mode >= 0 else "what belongs to no mode"
        within = f"posterior within {what}, of mass {mass:.3f}: "
    return (
        f"{within}{counted(chains, 'chain')} of {counted(draws, 'draw')}, {settings['kernel']}, "
        f"tilt {settings['tilt']}{trips}, {record.num_gradients:,} gradients, seed {thawed(settings['random_seed'])}"
    )
