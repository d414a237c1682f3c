"""Shared parts of the experiments: cells that are computed once, tables with the published numbers, and figures."""

from __future__ import annotations

import csv
import importlib
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sahmc._support.sealed_files import write_whole
from sahmc._version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUICK_SEEDS = 3
"""The number of runs of each method in the small version of an experiment."""
Cell = dict[str, Any]
"""The outcome of one method on one problem: numbers, texts and arrays by name."""
Row = list[str | float | int]
"""The entries of one row of a table."""


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper."""

    name: str
    """Its name on the command line."""
    title: str
    seeds: int
    """The number of runs of each method in the paper."""
    run: Callable[[Book], None]
    """The function that computes the cells and writes the tables and figures."""


def find(name: str) -> Experiment:
    """Return an experiment by name, from its own file."""
    return importlib.import_module(f"sahmc.paper.{name.replace('-', '_')}").EXPERIMENT


@dataclass
class Book:
    """The folder with the output of an experiment. A cell that is already there is not computed again."""

    out: Path
    """The folder."""
    quick: bool
    """Whether to make the small version."""
    seeds: int
    """The number of runs of each method."""
    progressbar: bool = True
    data: Path | None = None
    """The file of data, for the experiment that needs one."""
    made: dict[str, None] = field(default_factory=dict)
    """The hardware, versions and dates of the cells, without repeats, in order of appearance."""

    def __post_init__(self) -> None:
        (self.out / "cells").mkdir(parents=True, exist_ok=True)

    def say(self, words: str) -> None:
        """Print a line of progress."""
        print(words, flush=True)

    def cell(self, name: str, compute: Callable[..., Cell], **settings: object) -> Cell:
        """Return ``compute(**settings)``, or its stored result for the same settings and version.

        Numbers are stored in a file named after the cell, with arrays in a file next to it.
        """
        path = self.out / "cells" / f"{name}.json"
        key = json.loads(json.dumps({**settings, "sahmc": __version__}, default=str))
        if path.exists():
            known = json.loads(path.read_text())
            if known["settings"] == key:
                self._remember(known)
                return self._with_arrays(name, known["result"])
        self.say(f"  {name}")
        result = compute(**settings)
        arrays = {k: v for k, v in result.items() if isinstance(v, np.ndarray)}
        numbers = {k: v for k, v in result.items() if k not in arrays}
        if arrays:
            kept: dict[str, Any] = arrays
            np.savez_compressed(path.with_suffix(".npz"), **kept)
        content = {"settings": key, "hardware": hardware(), "date": time.strftime("%Y-%m-%d"), "result": numbers}
        write_whole(path, json.dumps(content, indent=1, default=float).encode())
        self._remember(content)
        return {**numbers, **arrays}

    def _remember(self, content: Cell) -> None:
        stan = content["result"].get("stan")
        self.made[content["hardware"] + (f", Stan {stan}" if stan else "") + f"; {content['date']}"] = None

    def _with_arrays(self, name: str, numbers: Cell) -> Cell:
        path = self.out / "cells" / f"{name}.npz"
        if not path.exists():
            return numbers
        with np.load(path) as arrays:
            return {**numbers, **{k: arrays[k] for k in arrays.files}}

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Row], note: str) -> None:
        """Write a table as CSV and as Markdown, followed by ``note``, hardware, versions, seeds and date."""
        with (self.out / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(rows)
        lines = [
            "| " + " | ".join(columns) + " |",
            "|" + "---|" * len(columns),
            *("| " + " | ".join(cell(value) for value in row) + " |" for row in rows),
            "",
            f"{note} {self.caption()}",
        ]
        (self.out / f"{name}.md").write_text("\n".join(lines) + "\n")
        self.say("\n".join(lines))

    def picture(self, name: str, figure: Figure) -> None:
        """Write a figure as PNG with the caption below it, and close it."""
        import matplotlib.pyplot as plt

        figure.supxlabel(self.caption(), fontsize=6.5, color="0.5")
        figure.savefig(self.out / f"{name}.png", dpi=130)
        plt.close(figure)
        self.say(f"  wrote {name}.png")

    def caption(self) -> str:
        """Return the hardware and date of the cells, and the command that reproduces them."""
        how = " --quick" if self.quick else ""
        return f"{'; '.join(self.made)}. Seeds 0 to {self.seeds - 1}. `sahmc paper run {self.out.name}{how}`."


def run_experiment(
    name: str, out: Path, *, quick: bool, seeds: int | None, data: Path | None = None, progressbar: bool = True
) -> Book:
    """Run the experiment of this name and write it to the folder ``out``; existing cells are not computed again.

    ``quick`` makes a small version. ``seeds`` is the number of runs of each method; None means that of the paper, or 3
    in the small version. ``data`` is a file, for the experiment that needs one.
    """
    import matplotlib

    matplotlib.use("Agg")
    chosen = find(name)
    book = Book(out, quick, seeds or (QUICK_SEEDS if quick else chosen.seeds), progressbar, data)
    book.say(f"{chosen.title}, in {out}")
    chosen.run(book)
    return book


def hardware() -> str:
    """Return a line with the processor and the software versions."""
    import jax

    device = jax.devices()[0].device_kind
    cores = f", {os.cpu_count()} cores" if jax.default_backend() == "cpu" else ""
    versions = f"Python {platform.python_version()}, jax {jax.__version__}, sahmc {__version__}"
    return f"{device} ({platform.machine()}{cores}), {versions}"


def cell(value: str | float | int) -> str:
    """Return the text of a value in a table: three significant digits of a float, else the value itself."""
    if isinstance(value, float):
        return "-" if np.isnan(value) else f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)


def standard_error(values: np.ndarray) -> float:
    """Return the standard error of the mean of values; nan for one of them."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
