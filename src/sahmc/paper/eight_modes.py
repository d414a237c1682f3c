"""Tables 2 and 3: eight Gaussians at the corners of a cube, in 3 to 11 dimensions."""

from __future__ import annotations

from functools import partial

import numpy as np
from jax.typing import ArrayLike

from sahmc.paper import methods
from sahmc.paper.experiment import Book, Cell, Experiment, Row, standard_error
from sahmc.paper.stan import METHOD, sample_mixture, with_stan
from sahmc.results.result import Result
from sahmc.testing.targets import Target, eight_modes
from sahmc.testing.targets.paper import eight_centres
from sahmc.tilt.partition import EnergyPartition

EDGES = (10.0, 5.0)
"""The edges of the cube: the printed one, and the one that reproduces the printed HMC rows."""
# table 2: dimension -> epsilon, L, u_1, m
SETUP = {
    3: (0.9, 1, 8.0, 6),
    5: (0.25, 3, 8.0, 10),
    7: (0.25, 3, 8.0, 14),
    9: (0.25, 3, 8.0, 18),
    11: (0.25, 3, 8.0, 22),
}
ITERATIONS, BURN, QUICK = 1_000_000, 200_000, 20
QUICK_DIMS = (3, 11)
NUTS_ITERATIONS = {3: 555_000, 5: 687_500, 7: 500_000, 9: 375_000, 11: 350_000}
# table 3: (dimension, method) -> CPU seconds, N_dis, F_err
PUBLISHED = {
    (3, "SAHMC"): (2.98, 8.0, 0.0030),
    (3, "HMC"): (3.01, 8.0, 0.0024),
    (3, "NUTS"): (3.72, 8.0, 0.0624),
    (5, "SAHMC"): (5.24, 8.0, 0.0050),
    (5, "HMC"): (5.22, 8.0, 0.0246),
    (5, "NUTS"): (5.83, 8.0, 0.0655),
    (7, "SAHMC"): (5.59, 8.0, 0.0081),
    (7, "HMC"): (5.63, 4.4, 0.1248),
    (7, "NUTS"): (5.90, 8.0, 0.0955),
    (9, "SAHMC"): (5.87, 8.0, 0.0265),
    (9, "HMC"): (5.83, 4.0, 0.1250),
    (9, "NUTS"): (6.10, 8.0, 0.1036),
    (11, "SAHMC"): (6.11, 8.0, 0.0431),
    (11, "HMC"): (6.13, 4.0, 0.1250),
    (11, "NUTS"): (7.26, 8.0, 0.1082),
}
METHODS = ("SAHMC", "HMC", "NUTS", "our default")


def run(book: Book) -> None:
    """Run all methods in all dimensions, and write the table."""
    scale = QUICK if book.quick else 1
    chosen = with_stan(book, METHODS)
    rows: list[Row] = []
    for edge in EDGES:
        for dim in QUICK_DIMS if book.quick else SETUP:
            for method in chosen:
                settings = dict(edge=edge, dim=dim, method=method, scale=scale, seeds=book.seeds)
                label = f"edge{edge:g}-d{dim}-{method.replace(' ', '-')}"
                cell = book.cell(label, partial(_compute, book), **settings)
                rows.append(_row(edge, dim, method, cell))
    book.table(
        "eight-modes",
        (
            "edge",
            "d",
            "method",
            "iterations",
            "gradients a chain",
            "seconds a chain",
            "published",
            "N_dis",
            "published",
            "F_err, raw",
            "published",
            "over published",
            "F_err, weighted",
            "its Monte Carlo error",
        ),
        rows,
        "N_dis and F_err over chains; for our default a group of 32 chains, with the gradients of one printed SAHMC "
        "chain, takes the place of a chain. F_err weighted: with the weights, chain by chain.",
    )


def _row(edge: float, dim: int, method: str, cell: Cell) -> Row:
    seconds, modes, error = PUBLISHED.get((dim, method.removeprefix("Stan ")), (float("nan"),) * 3)
    return [
        f"{edge:g}",
        str(dim),
        method,
        f"{cell['iterations']:,}",
        f"{cell['gradients']:.3g}",
        cell["seconds"],
        seconds,
        cell["modes"],
        modes,
        cell["raw"],
        error,
        cell["raw"] / error,
        cell["weighted"],
        cell["error"],
    ]


def _compute(book: Book, edge: float, dim: int, method: str, scale: int, seeds: int) -> Cell:
    target = eight_modes(dim, edge)
    epsilon, length, first, count = SETUP[dim]
    iterations, burn = ITERATIONS // scale, BURN // scale
    common = dict(chains=seeds, random_seed=0, progressbar=book.progressbar)
    if method == "our default":
        return _default(target, length * iterations, seeds, book.progressbar)
    if method.endswith("NUTS"):
        iterations, burn = NUTS_ITERATIONS[dim] // scale, NUTS_ITERATIONS[dim] // scale // 5
    if method == METHOD:
        centres = eight_centres(dim, edge)
        unit = np.tile(np.eye(dim), (len(centres), 1, 1))
        draws, costs = sample_mixture(book.out / "stan", centres, unit, target.start, iterations, burn, seeds)
        return {"iterations": iterations, **costs, **_measures(draws, np.zeros(draws.shape[:2]), target)}
    if method == "NUTS":
        result = methods.nuts(target, iterations, burn, **common)
    else:
        edges = EnergyPartition(first + 2.0 * np.arange(count - 1)) if method == "SAHMC" else None
        result = methods.printed(target, epsilon, length, edges, iterations, burn, **common)
    return {
        "iterations": iterations,
        "gradients": result.num_gradients / seeds,
        "seconds": result.settings["sampling_time"] / seeds,
        **_measures(result.draws, result.log_weight, target),
    }


def _measures(draws: np.ndarray, log_weight: np.ndarray, target: Target) -> Cell:
    """Return N_dis and F_err over chains, from the share F_ij of draws of chain i nearest to mode j."""
    raw = methods.own_masses(draws, np.zeros_like(log_weight), target)
    found = float((raw > 0).sum(axis=1).mean())
    return {"modes": found, **_errors(raw, methods.own_masses(draws, log_weight, target))}


def _default(target: Target, gradients: int, seeds: int, progressbar: bool) -> Cell:
    def measure(result: Result) -> dict[str, ArrayLike]:
        raw = methods.own_masses(result.draws, np.zeros_like(result.log_weight), target).mean(axis=0)
        return {"raw": raw, "weighted": result.expectation(target.indicators).mean}

    found, last = methods.default_runs(target, gradients, seeds, measure, progressbar=progressbar)
    return {
        "iterations": last.settings["tune"] + last.settings["draws"],
        "gradients": float(found["gradients"].mean()),
        "seconds": float(np.median(found["seconds"])),
        "modes": float((found["raw"] > 0).sum(axis=1).mean()),
        **_errors(found["raw"], found["weighted"]),
    }


def _errors(raw: np.ndarray, weighted: np.ndarray) -> dict[str, float]:
    by_chain = np.abs(weighted - 1 / 8).mean(axis=1)
    return {
        "raw": float(np.abs(raw - 1 / 8).mean()),
        "weighted": float(by_chain.mean()),
        "error": standard_error(by_chain),
    }


EXPERIMENT = Experiment("eight-modes", "Tables 2 and 3: eight modes in 3 to 11 dimensions", 10, run)
