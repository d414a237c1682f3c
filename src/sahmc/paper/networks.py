"""What the two networks of the paper share: settings, the three methods on every data set, the trace plot."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sahmc.paper.batch import default_on_each, join, measure, nuts_iterations, run_batch, run_nuts
from sahmc.paper.experiment import Book, ratio
from sahmc.tilt.partition import EnergyPartition
from sahmc.tilt.tilts import StepTilt

EPSILON, LENGTH, T0 = 0.005, 25, 1000
ITERATIONS, BURN, THIN, QUICK = 55_000, 5_000, 10, 11
DATA_SETS_AT_ONCE = 5
"""Data sets whose results are kept together."""


def networks(
    book: Book, printed: Callable[..., dict[str, Any]], ours: Mapping[str, Callable[..., dict[str, Any]]]
) -> Any:
    """HMC, SAHMC and NUTS on all data sets at once; ``ours`` in blocks, each of which is kept."""
    settings = dict(scale=QUICK if book.quick else 1, seeds=book.seeds)
    cells = {method: book.cell(method, printed, method=method, **settings) for method in ("HMC", "SAHMC", "NUTS")}
    for name, compute in ours.items():
        parts = []
        for first in range(0, book.seeds, DATA_SETS_AT_ONCE):
            label = f"{name.replace(', ', '-').replace(' ', '-')}-{first:03d}"
            parts.append(book.cell(label, compute, first=first, **settings))
        cells[name] = join(parts)
    return cells


def default_block(
    model_of: Any, data: Any, starts: np.ndarray, quantity: Any, first: int, scale: int, times: int = 1
) -> dict[str, Any]:
    """Our default on a block of data sets, with ``times`` the gradients of a printed run each."""
    chosen = range(first, min(first + DATA_SETS_AT_ONCE, len(starts)))
    return default_on_each(model_of, data, starts, quantity, times * LENGTH * ITERATIONS // scale, chosen)


def printed_batch(
    book: Book, density: Any, data: Any, starts: np.ndarray, quantity: Any, edges: EnergyPartition, method: str,
    scale: int,
) -> dict[str, Any]:  # fmt: skip
    """With the settings the two networks of the paper share. NUTS: with no more gradients than such a run."""
    began = time.perf_counter()
    options: dict[str, Any] = dict(step_size=EPSILON, seed=0, report=_reporter(book, method))
    if method == "NUTS":
        iterations = nuts_iterations(LENGTH * ITERATIONS // scale)
        drawn = run_nuts(density, data, starts, iterations=iterations, **options)
    else:
        tilt = StepTilt(edges) if method == "SAHMC" else None
        length: dict[str, Any] = dict(iterations=ITERATIONS // scale, burn=BURN // scale, thin=THIN)
        drawn = run_batch(density, data, starts, tilt=tilt, steps=LENGTH, t0=T0, **length, **options)
    seconds = (time.perf_counter() - began) / len(starts)
    return {**measure(drawn, data, quantity), "seconds": seconds}


def _reporter(book: Book, method: str) -> Any:
    shown = 0

    def report(done: int, total: int) -> None:
        nonlocal shown
        if 5 * done // total > shown:
            shown = 5 * done // total
            book.say(f"    {method}: {done:,} of {total:,} iterations")

    return report


def score_columns(score: str) -> tuple[str, ...]:
    """Of ``score_row``."""
    ess = ("ESS min", "median", "max", "published min", "published median", "published max")
    return ("method", score, "its standard error", "published", "over published", *ess, "lowest energy")


def score_row(method: str, scores: np.ndarray, cell: dict[str, Any], published: tuple[float, ...] | None) -> list[Any]:
    """``published``: the score and three effective sample sizes."""
    known = published or (float("nan"),) * 4
    mean, error = float(scores.mean()), float(scores.std(ddof=1) / np.sqrt(len(scores)))
    sizes = (float(x) for x in cell["ess"].mean(axis=0))
    return [
        method,
        mean,
        error,
        known[0],
        ratio(mean, known[0]),
        *sizes,
        *known[1:4],
        float(cell["lowest"][:, 0].mean()),
    ]


def trace_figure(cells: dict[str, dict[str, Any]], which: str) -> Any:
    """Energies of one chain of each method, on one scale."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(cells), figsize=(3.6 * len(cells), 3.8), layout="constrained", sharey=True)
    for ax, (method, cell) in zip(axes, cells.items(), strict=True):
        ax.plot(cell["trace"], linewidth=0.5, color="#1f6f8b")
        ax.set(title=method, xlabel="draw kept")
    axes[0].set_ylabel(f"energy, {which}, one chain")
    return figure
