"""The three tilts on every problem of the paper, with equal gradients and automatic settings.

From step to linear, you see the benefit of trajectories that follow the learned bias. From linear to tempered, you see
the benefit of a step size for each level. The last row adds jumps between the modes found: our default.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from jaxtyping import PyTree

from sahmc.paper import methods, mlp, pima
from sahmc.paper.batch import OfData, default_on_each
from sahmc.paper.experiment import Book, Cell, Experiment, Row, standard_error
from sahmc.paper.networks import ITERATIONS, LENGTH
from sahmc.paper.pima_data import NoDataError, load_pima
from sahmc.testing.targets import Target, eight_modes, mixture, sensor_network

GRADIENTS, QUICK = 2_000_000, 10
QUICK_TARGETS = ("mixture set 2", "sensor network")
SETS, SPLITS = 5, 3
"""The numbers of data sets of the simulated network and of splits of the Pima data."""
Options = dict[str, str | bool]
TILTS: dict[str, Options] = {
    "step": {"tilt": "step", "jumps": False},
    "linear": {"tilt": "linear", "jumps": False},
    "tempered": {"jumps": False},
    "tempered, jumps (our default)": {},
}
"""The options of ``sample`` for each row of a table; the others are compared with the first."""


def targets() -> dict[str, Target]:
    """Return the problems with known mode masses, by name."""
    return {
        "mixture set 1": mixture(-6.0, 4.0),
        "mixture set 2": mixture(-8.0, 6.0),
        "eight modes, d = 11, edge 5": eight_modes(11, 5.0),
        "eight modes, d = 11, edge 10": eight_modes(11, 10.0),
        "sensor network": sensor_network(),
    }


def run(book: Book) -> None:
    """Run every tilt on the problems with known masses and on the networks, and write a table for each."""
    scale = QUICK if book.quick else 1
    _known_answers(book, scale)
    _networks(book, scale)


def _known_answers(book: Book, scale: int) -> None:
    rows: list[Row] = []
    for number, (name, target) in enumerate(targets().items()):
        if book.quick and name not in QUICK_TARGETS:
            continue
        best: float | None = None
        for tilt, options in TILTS.items():
            label = f"target{number}-{tilt.split(' (')[0].replace(', ', '-')}"
            cell = book.cell(
                label, partial(_masses, target, options), gradients=GRADIENTS // scale, seeds=book.seeds, tilt=tilt
            )
            found, error, spread = methods.errors_of_masses(cell["masses"], target)
            best = best or error
            rows.append([name, tilt, f"{cell['gradients']:.3g}", cell["seconds"], found, error, spread, best / error])
    book.table(
        "tilts",
        (
            "problem",
            "tilt",
            "gradients",
            "seconds",
            *methods.ERROR_COLUMNS,
            "step's error over this",
        ),
        rows,
        "All 32 chains start in one mode. Modes found: with at least a tenth of their mass, mean over runs. Gradients: "
        "mean over runs; a run that spent more than its budget was made again, shorter.",
    )


def _masses(target: Target, options: Options, gradients: int, seeds: int, tilt: str) -> Cell:
    return methods.default_masses(target, gradients, seeds, **options)


def _networks(book: Book, scale: int) -> None:
    """Measure loss or test error and the lowest energy, on the first data sets of each network."""
    sets, splits = (1, 1) if book.quick else (SETS, SPLITS)
    problems: dict[str, tuple[OfData, PyTree, np.ndarray, OfData, int, np.ndarray | None]] = {
        "mlp": (mlp.log_density, mlp.make_data(200), mlp.random_starts(200), mlp.distance, sets, None)
    }
    try:
        data, truth = pima.splits(load_pima(book.data), 100)
        problems["pima"] = (pima.log_density, data, pima.random_starts(100), pima.probability, splits, truth)
    except NoDataError as reason:
        book.say(f"  pima left out: {reason}")
    rows: list[Row] = []
    for name, (model, data, starts, quantity, count, classes) in problems.items():
        for tilt, options in TILTS.items():
            label = f"{name}-{tilt.split(' (')[0].replace(', ', '-')}"
            compute = partial(_on_each, model, data, starts, quantity, options)
            cell = book.cell(label, compute, gradients=LENGTH * ITERATIONS // scale, sets=count, tilt=tilt)
            score = cell["mean"] if classes is None else ((cell["mean"] > 0.5) != classes[:count]).mean(axis=1)
            least = float(np.median(cell["ess"][:, 0]))
            low, seconds = float(cell["lowest"][:, 0].mean()), cell["seconds"]
            rows.append([name, str(count), tilt, float(score.mean()), standard_error(score), least, low, seconds])
    book.table(
        "tilts-networks",
        (
            "network",
            "data sets",
            "tilt",
            "posterior loss (mlp), test error (pima)",
            "its standard error",
            "least ESS of a weight, median",
            "lowest energy, mean",
            "seconds",
        ),
        rows,
        "With the gradients of one printed run.",
    )


def _on_each(
    model: OfData, data: PyTree, starts: np.ndarray, quantity: OfData, options: Options, gradients: int, sets: int,
    tilt: str,
) -> Cell:  # fmt: skip
    return default_on_each(model, data, starts, quantity, gradients, range(sets), **options)


EXPERIMENT = Experiment("tilts", "The three tilts at equal gradients", 5, run)
