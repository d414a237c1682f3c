"""What the two networks of the paper share: settings, the three methods on every data set, the trace plot."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from sahmc.paper.batch import default_on_each, join, measure, run_batch
from sahmc.paper.experiment import Book, ratio
from sahmc.partition import EnergyPartition
from sahmc.tilt import StepTilt

EPSILON, LENGTH, T0 = 0.005, 25, 1000
ITERATIONS, BURN, THIN, QUICK = 55_000, 5_000, 10, 11
BLOCK = 5
"""Data sets whose results are kept together."""


def networks(book: Book, printed: Callable[..., dict[str, Any]], ours: dict[str, Callable[..., dict[str, Any]]]) -> Any:
    """HMC and SAHMC on all data sets at once; ``ours`` in blocks, each of which is kept."""
    settings = dict(scale=QUICK if book.quick else 1, seeds=book.seeds)
    cells = {method: book.cell(method, printed, method=method, **settings) for method in ("HMC", "SAHMC")}
    for name, compute in ours.items():
        parts = []
        for first in range(0, book.seeds, BLOCK):
            label = f"{name.replace(', ', '-').replace(' ', '-')}-{first:03d}"
            parts.append(book.cell(label, compute, first=first, **settings))
        cells[name] = join(parts)
    return cells


def default_block(
    model_of: Any, data: Any, starts: np.ndarray, quantity: Any, first: int, scale: int
) -> dict[str, Any]:
    """Our default on a block of data sets, with the gradients of a printed run each."""
    chosen = range(first, min(first + BLOCK, len(starts)))
    return default_on_each(model_of, data, starts, quantity, LENGTH * ITERATIONS // scale, chosen)


def printed_batch(
    book: Book, density: Any, data: Any, starts: np.ndarray, quantity: Any, edges: EnergyPartition, method: str,
    scale: int,
) -> dict[str, Any]:  # fmt: skip
    """With the settings the two networks of the paper share."""
    began = time.perf_counter()
    drawn = run_batch(
        density,
        data,
        starts,
        tilt=StepTilt(edges) if method == "SAHMC" else None,
        step_size=EPSILON,
        steps=LENGTH,
        t0=T0,
        iterations=ITERATIONS // scale,
        burn=BURN // scale,
        thin=THIN,
        seed=0,
        report=_reporter(book, method),
    )
    seconds = (time.perf_counter() - began) / len(starts)
    return {**measure(drawn, data, quantity), "seconds": seconds}


def _reporter(book: Book, method: str) -> Any:
    def report(done: int, total: int) -> None:
        if done % (total // 5 or 1) < 1000:
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
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(cells), figsize=(4 * len(cells), 3.6), layout="constrained")
    for ax, (method, cell) in zip(axes, cells.items(), strict=True):
        ax.plot(cell["trace"], linewidth=0.5, color="#1f6f8b")
        ax.set(title=f"{method}\n{which}, one chain", xlabel="draw kept", ylabel="energy")
    return figure
