"""Models compared by their evidence, and by how well they predict each observation from the others."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sahmc._support.tables import Table, number
from sahmc._support.validate import is_number, require, require_flag
from sahmc.plots.figures import COLD, WARM, pyplot
from sahmc.results.predictions import leave_one_out, loo_columns
from sahmc.results.result import Result

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


WIDE = 30.0
"""The maximum range in nats of a linear axis of a plot; a wider one is compressed away from 0."""
WIDTH = 79
"""The maximum number of characters in a line of a note."""


def compare(results: Mapping[str, Result], *, prior: Mapping[str, float] | None = None, loo: bool = True) -> Comparison:
    """Compare models of the same data, each by the result of a run: print the returned object, or use
    ``to_dataframe()``.

    Bayes factors and odds are relative to the most probable model, the first row. Their errors, and those of
    probabilities, follow from the errors of the log evidences.

    Parameters
    ----------
    results
        A dict of results by model name, two or more. Each run must know its log evidence.
    prior
        The prior probabilities of the models, a dict of positive numbers, which are normalised to sum to 1; equal if
        None, the default.
    loo
        Whether to add leave-one-out cross-validation and stacking weights, by ArviZ, a bool. This needs log
        likelihoods, like ``Result.to_datatree(log_likelihood=True)``. If they are unavailable, it is left out and a
        note says why. Default True.
    """
    _check(results, prior)
    require_flag(loo, "loo")
    found = {name: _log_evidence(name, result) for name, result in results.items()}
    mean, error = (np.array(part) for part in zip(*found.values(), strict=True))
    belief = np.array([1.0 if prior is None else float(prior[name]) for name in results])
    order = np.argsort(-mean - np.log(belief), kind="stable")
    names = [list(results)[i] for i in order]
    ordered = {name: results[name] for name in names}
    columns = _evidence_columns(mean[order], error[order], belief[order] / belief.sum())
    notes = [*_notes_on_constants(ordered), *_notes_on_data(ordered)]
    if loo:
        more, note = _cross_validated(ordered)
        columns |= more
        notes += note
    return Comparison(names, columns, tuple(notes), prior is not None)


@dataclass(frozen=True, repr=False)
class Comparison:
    """Models, the most probable first; print it, or use ``to_dataframe()``."""

    names: list[str]
    """The names of the models, one per row."""
    columns: dict[str, np.ndarray]
    """The columns by name, with a number for each model."""
    notes: tuple[str, ...] = ()
    """Notes on what was left out, and on possible problems with the comparison."""
    shows_prior: bool = False
    """Whether to print prior probabilities, and odds besides Bayes factors."""

    @property
    def has_loo(self) -> bool:
        """Whether there are cross-validation columns."""
        return "elpd_loo" in self.columns

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a row for each model."""
        import pandas as pd

        return pd.DataFrame(self.columns, index=self.names)

    def tables(self) -> list[Table]:
        """Return the numbers as text tables: one of the evidence and, if available, one of cross-validation."""
        pairs = {"log evidence": "log_evidence", "Bayes factor": "bayes_factor"}
        pairs |= {"prior": "prior", "odds": "odds"} if self.shows_prior else {}
        tables = [self._table({**pairs, "probability": "probability"})]
        if self.has_loo:
            pairs = {"elpd_loo": "elpd_loo", "p_loo": "p_loo", "elpd_diff": "elpd_diff", "stacking": "stacking_weight"}
            tables.append(self._table(pairs))
        return tables

    def _table(self, pairs: Mapping[str, str]) -> Table:
        """Return some columns as a table; ``pairs`` maps headings to column names."""
        errors = {name: self.columns.get(f"{name}_error") for name in pairs.values()}
        rows = [
            [_with_error(self.columns[k][i], 0.0 if e is None else e[i]) for k, e in errors.items()]
            for i in range(len(self.names))
        ]
        return Table("", list(pairs), self.names, rows)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot how far each model is behind the best, in nats, with its probability beside it.

        Bars show two standard errors. Returns the axes: ``ax``, or new ones if None.
        """
        must = "ax must be Matplotlib's axes"
        require(ax is None or hasattr(ax, "errorbar"), must, ax, "pass plt.gca(), or leave it out")
        columns, rows = self.columns, np.arange(len(self.names))
        best = np.argmax(columns["log_evidence"])
        behind = columns["log_evidence"] - columns["log_evidence"][best]
        errors = np.hypot(columns["log_evidence_error"], columns["log_evidence_error"][best])
        errors[best] = 0.0
        if ax is None:
            ax = pyplot().subplots(figsize=(6.5, 1.6 + 0.5 * len(rows)), layout="constrained")[1]
        style: dict[str, Any] = {"capsize": 3, "linewidth": 1.5, "linestyle": "none"}
        shift = 0.12 if self.has_loo else 0.0
        ax.errorbar(behind, rows - shift, xerr=2 * errors, fmt="o", color=COLD, label="log evidence", **style)
        furthest = -behind.min()
        if self.has_loo:
            diff, error = columns["elpd_diff"], columns["elpd_diff_error"]
            style |= {"label": "leave-one-out (elpd)", "mfc": "white"}
            ax.errorbar(diff, rows + shift, xerr=2 * error, fmt="s", color=WARM, **style)
            ax.legend(frameon=False, fontsize=9, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
            furthest = max(furthest, -diff.min())
        if furthest > WIDE:
            ax.set_xscale("symlog", linthresh=3)
        ax.axvline(0, color="0.85", linewidth=1, zorder=0)
        ax.set_yticks(rows, self.names)
        ax.set_ylim(len(rows) - 0.4, -0.6)
        for row, *share in zip(rows, columns["probability"], columns["probability_error"], strict=True):
            place = ("axes fraction", "data")
            ax.annotate(_with_error(*share), (1.01, float(row)), xycoords=place, va="center", fontsize=9)
        ax.annotate("probability", (1.01, 1.01), xycoords="axes fraction", va="bottom", fontsize=9, color="0.35")
        ax.set_xlabel("nats behind the best model, ± 2 standard errors", fontsize=10)
        ax.tick_params(labelsize=9)
        ax.spines[["top", "right"]].set_visible(False)
        return ax

    def __str__(self) -> str:
        return "\n\n".join([*map(str, self.tables()), *(textwrap.fill(note, WIDTH) for note in self.notes)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return "".join(table.to_html() for table in self.tables()) + notes


def _check(results: Mapping[str, Result], prior: Mapping[str, float] | None) -> None:
    """Raise ``ValueError`` unless these are at least two results by name, with prior probabilities for all of them."""
    ok = isinstance(results, Mapping) and len(results) > 1 and all(isinstance(name, str) for name in results)
    given = list(results) if isinstance(results, Mapping) else results
    must, todo = "compare needs two results or more, by name", 'write sahmc.compare({"one": r1, "two": r2})'
    require(ok, must, given, todo)
    strange = {name: type(x).__name__ for name, x in results.items() if not isinstance(x, Result)}
    require(not strange, "compare needs results of sahmc.sample", strange, "pass these, not their draws")
    ok = prior is None or (
        isinstance(prior, Mapping)
        and set(prior) == set(results)
        and all(is_number(value) and float(value) > 0 for value in prior.values())
    )
    must = f"prior must be a dict of positive numbers, one for each of {', '.join(map(repr, results))}"
    require(ok, must, prior, "leave it out if all models are as probable")


def _log_evidence(name: str, result: Result) -> tuple[float, float]:
    """Return the log evidence of a run and its error, or raise ``ValueError`` if they are unknown."""
    try:
        mean, error = (float(part) for part in result.log_evidence())
    except ValueError as why:
        raise ValueError(f"the log evidence of {name!r} is not known: {why}") from why
    codes = ", ".join(finding.code for finding in result.findings if finding.severity == "error")
    require(
        math.isfinite(mean) and math.isfinite(error),
        "every run must know its log evidence",
        f"that of {name!r} is nan, for the findings {codes or 'of its run'}",
        "look at its findings, and sample it again as they say",
    )
    return mean, error


def _evidence_columns(mean: np.ndarray, error: np.ndarray, prior: np.ndarray) -> dict[str, np.ndarray]:
    """Return Bayes factors, odds and probabilities with their errors, to first order in those of the log evidence.

    Models are in order, the most probable first.
    """
    log_factor = mean - mean[0]
    factor, share = np.exp(log_factor), np.exp(log_factor) * prior / prior[0]
    probability = share / share.sum()
    log_factor_error = np.append(0.0, np.hypot(error[1:], error[0]))
    # d log p_i = d log Z_i - sum_j p_j d log Z_j
    moved = (np.eye(len(mean)) - probability) * error
    return {
        "log_evidence": mean,
        "log_evidence_error": error,
        "log_bayes_factor": log_factor,
        "log_bayes_factor_error": log_factor_error,
        "bayes_factor": factor,
        "bayes_factor_error": factor * log_factor_error,
        "prior": prior,
        "odds": share,
        "odds_error": share * log_factor_error,
        "probability": probability,
        "probability_error": probability * np.sqrt(np.sum(moved**2, axis=1)),
    }


def _cross_validated(results: Mapping[str, Result]) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the columns of cross-validation, and notes: why it was left out, or which models are in doubt."""
    found = {}
    for name, result in results.items():
        predictor = None if result.live is None or not result.live.has_positions else result.live.predictor
        if predictor is None:
            why = "a result that was loaded, or of a model that does not name its data"
            return {}, [f"Cross-validation is left out: {name!r} has no log likelihoods ({why})."]
        try:
            found[name] = leave_one_out(result.record, predictor)
        except Exception as error:
            return {}, [f"Cross-validation is left out: {name!r} has no log likelihoods ({error})."]
    sizes = {name: int(one.n_data_points) for name, one in found.items()}
    if len(set(sizes.values())) > 1:
        return {}, [f"Cross-validation is left out: the models have different numbers of observations, {sizes}."]
    doubtful = {name: int((one.pareto_k > one.good_k).sum()) for name, one in found.items()}
    return loo_columns(found), [
        f"Cross-validation of {name!r} is in doubt: {bad} of {sizes[name]} observations "
        f"{'has' if bad == 1 else 'have'} a Pareto k above {found[name].good_k:.2f}."
        for name, bad in doubtful.items()
        if bad
    ]


def _notes_on_constants(results: Mapping[str, Result]) -> list[str]:
    raw = [name for name, result in results.items() if not result.settings["prior"]]
    if not raw:
        return []
    return [
        f"The log evidence of {', '.join(map(repr, raw))} is that of exp(log density): it counts only if the density "
        "has all its constants, those of the prior included (in Stan: target += normal_lpdf(...) in place of ~)."
    ]


def _notes_on_data(results: Mapping[str, Result]) -> list[str]:
    """Return a note if models name different data."""
    known = {
        name: sorted((np.asarray(x).shape, np.asarray(x).tobytes()) for x in labels.observed_data.values())
        for name, labels in ((name, result.record.labels) for name, result in results.items())
        if labels.observed_data
    }
    first = next(iter(known), None)
    other = [name for name, data in known.items() if first is not None and data != known[first]]
    if not other:
        return []
    who = ", ".join(map(repr, other))
    return [f"The data of {who} are not those of {first!r}: evidence compares models of the same data."]


def _with_error(value: float, error: float) -> str:
    """Return a number rounded to the size of its error, and that error; the number alone if the error is 0."""
    if not error:
        return number(float(value))
    size = math.floor(math.log10(error))
    digits = max(0, -size + (error < 3 * 10.0**size))  # one digit of the error, two if the first is 1 or 2
    return f"{value:.{digits}f} ± {error:.{digits}f}" if digits <= 6 else f"{value:.2g} ± {error:.1g}"
