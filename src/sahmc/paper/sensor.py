"""Figure 2: the locations of four sensors, in eight dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jax.typing import ArrayLike

from sahmc.paper import methods
from sahmc.paper.experiment import Book, Cell, Experiment, Row
from sahmc.results.result import Result
from sahmc.testing.targets import Target, sensor_network
from sahmc.tilt.partition import EnergyPartition

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPSILON, LENGTH = 0.02, 3
FIRST, COUNT = -4.0, 19
ITERATIONS, BURN, QUICK = 2_000_000, 400_000, 40
NUTS_ITERATIONS = 400_000
SECONDS = {"SAHMC": 106.0, "HMC": 106.0, "NUTS": 102.0}
TRUE = np.array([[0.5748, 0.9069], [0.0991, 0.3651], [0.2578, 0.1350], [0.8546, 0.0392]])
SIDES = ("--", "-+", "+-", "++")
METHODS = ("SAHMC", "HMC", "NUTS", "our default")


def run(book: Book) -> None:
    """Run all methods from the true locations, and write the table and the figure."""
    scale = QUICK if book.quick else 1
    cells = {
        method: book.cell(
            f"sensor-{method.replace(' ', '-')}",
            _compute,
            method=method,
            scale=scale,
            seeds=book.seeds,
            progressbar=book.progressbar,
        )
        for method in METHODS
    }
    truth = sensor_network()
    rows: list[Row] = [
        ["reference", "-", "-", "-", *map(float, truth.masses), "-", "-"],
        *(
            [
                method,
                f"{cell['gradients']:.3g}",
                cell["seconds"],
                SECONDS.get(method, float("nan")),
                *map(float, cell["masses"].mean(axis=0)),
                float(np.abs(cell["masses"] - truth.masses).max(axis=1).mean()),
                float(np.abs(cell["mean"] - truth.mean).max()),
            ]
            for method, cell in cells.items()
        ),
    ]
    book.table(
        "sensor",
        (
            "method",
            "gradients a run",
            "seconds a run",
            "published",
            *(f"P({side})" for side in SIDES),
            "largest error, mean over runs",
            "largest error of a mean",
        ),
        rows,
        "P: sides of the line through the known sensors on which sensors 1 and 3 lie, weighted, mean over runs. The "
        "paper prints scatter plots only. All runs start at the true locations.",
    )
    book.picture("sensor", _figure(cells))


def _compute(method: str, scale: int, seeds: int, progressbar: bool) -> Cell:
    target = sensor_network()
    iterations, burn = ITERATIONS // scale, BURN // scale
    common = dict(chains=seeds, random_seed=0, progressbar=progressbar)
    if method == "our default":
        return _default(target, LENGTH * iterations, seeds, progressbar)
    if method == "NUTS":
        iterations = NUTS_ITERATIONS // scale
        result = methods.nuts(target, iterations, iterations // 5, **common)
    else:
        edges = EnergyPartition(FIRST + 2.0 * np.arange(COUNT - 1)) if method == "SAHMC" else None
        result = methods.printed(target, EPSILON, LENGTH, edges, iterations, burn, thin=4, **common)
    every = max(1, result.energy.shape[1] // 5000)
    return {
        "gradients": result.num_gradients / seeds,
        "seconds": result.settings["sampling_time"] / seeds,
        "masses": methods.own_masses(result.draws, result.log_weight, target),
        "mean": _own_means(result).mean(axis=0),
        "scatter": np.asarray(result.draws[0, ::every]),
    }


def _default(target: Target, gradients: int, seeds: int, progressbar: bool) -> Cell:
    def measure(result: Result) -> dict[str, ArrayLike]:
        return {"masses": result.expectation(target.indicators).mean, "mean": result.expectation().mean}

    found, last = methods.default_runs(target, gradients, seeds, measure, progressbar=progressbar)
    return {
        "gradients": float(found["gradients"].mean()),
        "seconds": float(np.median(found["seconds"])),
        "masses": found["masses"],
        "mean": found["mean"].mean(axis=0),
        "scatter": last.resample(5000),
    }


def _own_means(result: Result) -> np.ndarray:
    weight = np.exp(result.log_weight - result.log_weight.max(axis=1, keepdims=True))
    return np.einsum("cd,cdk->ck", weight / weight.sum(axis=1, keepdims=True), result.draws)


def _figure(cells: dict[str, Cell]) -> Figure:
    """Plot draws of the four sensors, a column for each method, with the true locations dashed.

    Draws are unweighted, as in figure 2; only those of our default are weighted.
    """
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(4, 4, figsize=(11, 9.8), sharex=True, sharey=True, layout="constrained")
    for column, (method, cell) in enumerate(cells.items()):
        for sensor in range(4):
            ax = axes[sensor, column]
            points = cell["scatter"][:, 2 * sensor : 2 * sensor + 2]
            ax.scatter(*points.T, s=2, alpha=0.3, linewidths=0, color="#1f6f8b", rasterized=True)
            ax.axvline(TRUE[sensor, 0], color="#c2571a", linestyle="dashed", linewidth=1)
            ax.axhline(TRUE[sensor, 1], color="#c2571a", linestyle="dashed", linewidth=1)
            ax.set(xlim=(-1.1, 2.1), ylim=(-0.6, 1.9), aspect="equal")
            if sensor == 0:
                ax.set_title(method)
            if column == 0:
                ax.set_ylabel(f"sensor {sensor + 1}")
    return figure


EXPERIMENT = Experiment("sensor", "Figure 2: sensor network localisation", 10, run)
