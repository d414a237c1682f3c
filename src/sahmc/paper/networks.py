"""Shared parts of the paper's two networks: settings, the three methods on every data set, the trace plot."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import PyTree

from sahmc.kernels.hmc import HMC
from sahmc.kernels.nuts import NUTS
from sahmc.models.model import Model
from sahmc.paper.batch import NUTS_BURN, OfData, default_on_each, join, measure, nuts_iterations, run_batch
from sahmc.paper.experiment import Book, Cell, Row, standard_error
from sahmc.paper.methods import printed_kernel
from sahmc.tilt.gain import Gain
from sahmc.tilt.partition import EnergyPartition
from sahmc.tilt.tilts import NoTilt, StepTilt

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPSILON, LENGTH, T0 = 0.005, 25, 1000
ITERATIONS, BURN, THIN, QUICK = 55_000, 5_000, 10, 11
DATA_SETS_AT_ONCE = 5
"""The number of data sets in a block, whose results are stored together."""


def networks(book: Book, printed: Callable[..., Cell], ours: Mapping[str, Callable[..., Cell]]) -> dict[str, Cell]:
    """Run HMC, SAHMC and NUTS on all data sets at once, and ``ours`` in blocks, each of which is stored.

    ``printed(method, scale, seeds)`` returns a cell: the results of ``measure``, and the seconds per data set. Each of
    ``ours``, by name, does the same for ``(first, scale, seeds)``. ``scale`` is the factor by which a small version is
    shorter; ``first`` is the index of the first data set of a block. Return the cells by method.
    """
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
    model: OfData | Model,
    data: PyTree,
    starts: np.ndarray,
    quantity: OfData,
    first: int,
    scale: int,
    times: int = 1,
) -> Cell:
    """Run our default on the block of data sets that starts at ``first``.

    Each run has ``times`` the gradients of a printed run. ``model`` goes to ``sample_many``; the posterior mean of
    ``quantity(position, data)`` is computed.
    """
    chosen = range(first, min(first + DATA_SETS_AT_ONCE, len(starts)))
    return default_on_each(model, data, starts, quantity, times * LENGTH * ITERATIONS // scale, chosen)


def printed_batch(
    book: Book,
    density: OfData,
    data: PyTree,
    starts: np.ndarray,
    quantity: OfData,
    edges: EnergyPartition,
    method: str,
    scale: int,
) -> Cell:
    """Run HMC, SAHMC or NUTS on all data sets, with the settings the two networks of the paper share.

    NUTS gets no more gradients than HMC. ``density(position, data)`` is the log density on one data set. The posterior
    mean of ``quantity(position, data)`` is computed.
    """
    began = time.perf_counter()
    if method == "NUTS":
        kernel: HMC | NUTS = NUTS(step_size=EPSILON, metric="unit")
        length = dict(iterations=nuts_iterations(LENGTH * ITERATIONS // scale), burn=NUTS_BURN, thin=1)
    else:
        kernel = printed_kernel(EPSILON, LENGTH)
        length = dict(iterations=ITERATIONS // scale, burn=BURN // scale, thin=THIN)
    tilt = StepTilt(edges) if method == "SAHMC" else NoTilt()
    report = _reporter(book, method)
    drawn = run_batch(density, data, starts, kernel, tilt=tilt, gain=Gain(T0), report=report, **length)
    seconds = (time.perf_counter() - began) / len(starts)
    return {**measure(drawn, data, quantity), "seconds": seconds}


def _reporter(book: Book, method: str) -> Callable[[int, int], None]:
    """Return a function (done, total) that reports progress at each fifth."""
    shown = 0

    def report(done: int, total: int) -> None:
        nonlocal shown
        if 5 * done // total > shown:
            shown = 5 * done // total
            book.say(f"    {method}: {done:,} of {total:,} iterations")

    return report


def score_columns(score: str) -> tuple[str, ...]:
    """Return the columns of ``score_row``; ``score`` is the name of the score."""
    ess = ("ESS min", "median", "max", "published min", "published median", "published max")
    return ("method", score, "its standard error", "published", "over published", *ess, "lowest energy")


def score_row(method: str, scores: np.ndarray, cell: Cell, published: tuple[float, ...] | None) -> Row:
    """Return the row of a method: score over data sets, effective sample sizes and energy, and published numbers.

    ``cell`` is the output of ``measure``; ``published`` holds the score and three effective sample sizes.
    """
    known = published or (float("nan"),) * 4
    mean = float(scores.mean())
    sizes = (float(x) for x in cell["ess"].mean(axis=0))
    return [
        method,
        mean,
        standard_error(scores),
        known[0],
        mean / known[0],
        *sizes,
        *known[1:4],
        float(cell["lowest"][:, 0].mean()),
    ]


def trace_figure(cells: dict[str, Cell], which: str) -> Figure:
    """Plot the energies of one chain of each method on a common scale; ``which`` names the data set."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(cells), figsize=(3.6 * len(cells), 3.8), layout="constrained", sharey=True)
    for ax, (method, cell) in zip(axes, cells.items(), strict=True):
        ax.plot(cell["trace"], linewidth=0.5, color="#1f6f8b")
        ax.set(title=method, xlabel="draw kept")
    axes[0].set_ylabel(f"energy, {which}, one chain")
    return figure
