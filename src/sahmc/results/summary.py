"""The summary of a result: a table of every quantity, then the findings in words."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

import numpy as np

from sahmc._support.frozen import thawed
from sahmc._support.tables import Table, number
from sahmc._support.types import PositionFn
from sahmc._support.validate import is_number, require
from sahmc.models.positions import labels, named
from sahmc.results.evidence import evidence_in_words
from sahmc.results.expectations import resample_index, values
from sahmc.results.records import Finding, RunRecord
from sahmc.results.relabelling import relabelled, symmetries_in_words
from sahmc.results.search import search_in_words
from sahmc.tilt.importance import by_columns, rank_rhat, resample_rows, weighted_ess, weighted_mean, weighted_variance

SHOWN_ROWS = 40
"""The most rows that are printed; all are in the DataFrame."""
INTERVAL_DRAWS = 4000
"""The most equal-weight draws from which intervals are computed."""


@dataclass(frozen=True, repr=False)
class Summary:
    """The summary of a run; print it, or take ``to_dataframe()``."""

    headline: str
    """A line on the run as a whole."""
    names: list[str]
    """The names of the quantities, which are the rows."""
    columns: dict[str, np.ndarray]
    """The columns by name, with a number for each quantity."""
    findings: tuple[Finding, ...]
    """The findings: what is wrong with the run, errors first."""
    evidence: str = ""
    """A line on the log evidence; nothing where it cannot be known."""
    search: str = ""
    """A line on what the search for modes would have found; nothing where there was none."""
    symmetries: str = ""
    """A line on the symmetries by which modes have copies; nothing where there are none."""

    def to_dataframe(self) -> Any:
        """Return a pandas DataFrame with a row for each quantity."""
        import pandas as pd

        return pd.DataFrame(self.columns, index=self.names)

    def table(self, shown: int = SHOWN_ROWS) -> Table:
        """Return the first ``shown`` rows as a table of text, rounded to about three significant digits."""
        rows = [self._row(i) for i in range(min(shown, len(self.names)))]
        return Table("", list(self.columns), self.names[:shown], rows)

    def _row(self, i: int) -> list[str]:
        """Return the cells of one quantity."""
        cells = []
        for name, column in self.columns.items():
            value = float(column[i])
            if name == "ess":
                cells.append("-" if np.isnan(value) else f"{value:.0f}")
            else:
                known = name == "r_hat" and not np.isnan(value)
                cells.append(f"{value:.2f}" if known else number(value, 2 if name == "mcse" else 3))
        return cells

    @property
    def verdict(self) -> str:
        """A line on whether to trust the run."""
        errors = sum(finding.severity == "error" for finding in self.findings)
        if errors:
            return f"Do not trust this run: {errors} error{'s' * (errors > 1)}."
        return f"{len(self.findings)} warning{'s' * (len(self.findings) > 1)}." if self.findings else "No findings."

    @property
    def notes(self) -> tuple[str, ...]:
        """The lines on symmetries, evidence and search, some of them empty."""
        return self.symmetries, self.evidence, self.search

    def __str__(self) -> str:
        more = len(self.names) - SHOWN_ROWS
        rest = [f"... and {more} more rows, in to_dataframe()"] if more > 0 else []
        lines = [f"{f.severity}: {f.sentence}\n    {f.advice} [{f.code}]" for f in self.findings]
        notes = [note for note in self.notes if note]
        notes = ["", *notes] if notes else []
        return "\n".join([self.headline, "", str(self.table()), *rest, *notes, "", self.verdict, *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        items = "".join(
            f"<li><b>{f.severity}</b>: {html.escape(f.sentence)} {html.escape(f.advice)} <code>{f.code}</code></li>"
            for f in self.findings
        )
        more = len(self.names) - SHOWN_ROWS
        rest = f"<p>… and {more} more rows, in <code>to_dataframe()</code></p>" if more > 0 else ""
        return (
            f"<p>{html.escape(self.headline)}</p>{self.table().to_html()}{rest}"
            + "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
            + f"<p><b>{html.escape(self.verdict)}</b></p>"
            + (f"<ul>{items}</ul>" if items else "")
        )


def summarise(record: RunRecord, fn: PositionFn | None, prob: float) -> Summary:
    """Return the summary of ``fn`` of the position, or of the position itself if None.

    Intervals are highest-density intervals of probability ``prob``.
    """
    from arviz_stats.base import array_stats

    require(is_number(prob) and 0 < prob < 1, "prob must lie in (0, 1)", prob, "pass 0.94, say")
    weight = record.weight
    index = resample_index(record, min(weight.size, INTERVAL_DRAWS), 0)
    rows = resample_rows(weight, 0)
    low, high = (f"hdi_{50 * (1 - prob):.3g}%", f"hdi_{50 * (1 + prob):.3g}%")

    def measure(columns: np.ndarray) -> tuple[Any, ...]:
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

    names: list[str] = []
    parts: list[tuple[np.ndarray, ...]] = []
    for name, leaf in named(relabelled(record) if fn is None else values(record, fn)).items():
        names += labels({name: leaf}, lead=2)
        mean, sd, error, ess, rhat = by_columns(measure, leaf)
        drawn = np.asarray(leaf[index], float)
        hdi = np.asarray(array_stats.hdi(drawn, prob, axis=0))
        parts.append(tuple(np.ravel(x) for x in (mean, sd, hdi[..., 0], hdi[..., 1], error, ess, rhat)))
    columns = dict(
        zip(
            ("mean", "sd", low, high, "mcse", "ess", "r_hat"),
            (np.concatenate(part) for part in zip(*parts, strict=True)),
            strict=True,
        )
    )
    return Summary(
        headline(record),
        names,
        columns,
        record.findings,
        evidence_in_words(record),
        search_in_words(record),
        symmetries_in_words(record) if fn is None else "",
    )


def headline(record: RunRecord) -> str:
    """Return a line that says what was run."""
    chains, draws = record.draws.energy.shape
    settings, levels = record.settings, record.num_regions
    trips = f", {int(record.round_trips.sum())} round trips over {levels} levels" if levels > 1 else ""
    return (
        f"{chains} chains of {draws} draws, {settings['kernel']}, tilt {settings['tilt']}{trips}, "
        f"{record.num_gradients:,} gradients, seed {thawed(settings['random_seed'])}"
    )
