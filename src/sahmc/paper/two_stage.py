"""A test of the closing remark on the partition: a short run of HMC finds the range of energies, then SAHMC uses it.

HMC started in a mode sees only the energies of that mode. Barriers lie above these, and a partition that ends below a
barrier does not carry a chain across it.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from sahmc.paper import methods
from sahmc.paper.experiment import Book, Cell, Experiment, Row
from sahmc.testing.targets import Target, eight_modes, mixture, sensor_network
from sahmc.tilt.partition import EnergyPartition

ITERATIONS, BURN, QUICK = 500_000, 100_000, 20
QUICK_CASES = ("mixture set 2", "eight modes, d = 11, edge 5")
FIRST, WIDTH = 500, 2.0
"""The number of iterations of the first stage ("a few hundreds"), and the printed bandwidth."""


class Case(NamedTuple):
    """A problem of the paper, with the printed settings."""

    target: Target
    step_size: float
    length: int
    """The number of leapfrog steps of a trajectory."""
    printed: EnergyPartition
    """The printed partition."""
    barrier: str
    """The energies of the barriers that surround the first mode, for the table."""


def cases() -> dict[str, Case]:
    """Return the problems by name."""
    regions = EnergyPartition(8.0 + 2.0 * np.arange(21))
    return {
        "mixture set 1": Case(mixture(-6.0, 4.0), 0.3, 20, EnergyPartition.uniform(0, 20, 2), "8.1, 11.4"),
        "mixture set 2": Case(mixture(-8.0, 6.0), 0.3, 20, EnergyPartition.uniform(0, 20, 2), "13.1, 23.0"),
        "eight modes, d = 11, edge 5": Case(eight_modes(11, 5.0), 0.25, 3, regions, _height(11, 5.0)),
        "eight modes, d = 11, edge 10": Case(eight_modes(11, 10.0), 0.25, 3, regions, _height(11, 10.0)),
        "sensor network": Case(sensor_network(), 0.02, 3, EnergyPartition(-4.0 + 2.0 * np.arange(18)), "not known"),
    }


def _height(dim: int, edge: float) -> str:
    """Return the energies of the saddles: to a neighbour along one edge, and between the two groups of modes."""
    bottom = 0.5 * dim * np.log(2 * np.pi) + np.log(8)
    return f"{bottom + edge**2 / 8 - np.log(2):.1f}, {bottom + (dim - 2) * edge**2 / 8 - np.log(2):.1f}"


def run(book: Book) -> None:
    """Run SAHMC on the printed partition and on one from a first stage, and our default; write the table."""
    scale = QUICK if book.quick else 1
    rows: list[Row] = []
    for number, (name, case) in enumerate(cases().items()):
        if book.quick and name not in QUICK_CASES:
            continue
        for method in ("printed partition", "two stages", "automatic ladder (our default)"):
            cell = book.cell(
                f"case{number}-{method.split()[0]}",
                partial(_compute, case),
                method=method,
                iterations=ITERATIONS // scale,
                burn=BURN // scale,
                seeds=book.seeds,
                progressbar=book.progressbar,
            )
            errors = methods.errors_of_masses(cell["masses"], case.target)
            rows.append([name, case.barrier, method, cell["range"], f"{cell['gradients']:.3g}", *errors])
    book.table(
        "two-stage",
        (
            "problem",
            "energies of the barriers",
            "partition from",
            "edges",
            "gradients a run",
            *methods.ERROR_COLUMNS,
        ),
        rows,
        f"First stage: {FIRST} iterations of HMC with the printed settings from the usual start; edges every {WIDTH:g} "
        "from the lowest to the highest energy it saw (mean over runs shown). Second stage: SAHMC as printed on them. "
        "Ours: a ladder of temperatures, found by itself, with the gradients of a run of SAHMC.",
    )


def _compute(case: Case, method: str, iterations: int, burn: int, seeds: int, progressbar: bool) -> Cell:
    if method.startswith("automatic"):
        found = methods.default_masses(case.target, case.length * iterations, seeds)
        return {**found, "range": f"T = 1 to {found['top']:.3g}"}
    target, printed = case.target, (case.step_size, case.length)
    if method == "printed partition":
        runs = [(case.printed, seeds, 0)]
    else:
        first = methods.printed(target, *printed, None, FIRST + 1, 1, chains=seeds, random_seed=1, progressbar=False)
        runs = [(partition_of(energy), 1, seed) for seed, energy in enumerate(first.energy)]
    masses, gradients = [], 0.0
    for partition, chains, seed in runs:
        result = methods.printed(
            target, *printed, partition, iterations, burn, thin=4, chains=chains, random_seed=seed,
            progressbar=progressbar,
        )  # fmt: skip
        masses.append(methods.own_masses(result.draws, result.log_weight, target))
        gradients += result.num_gradients / seeds
    ends = np.mean([np.asarray(partition.edges)[[0, -1]] for partition, *_ in runs], axis=0)
    return {"masses": np.concatenate(masses), "gradients": gradients, "range": f"{ends[0]:.1f} to {ends[1]:.1f}"}


def partition_of(energy: np.ndarray) -> EnergyPartition:
    """Return the partition with edges from the lowest to the highest observed energy."""
    count = max(2, int((energy.max() - energy.min()) / WIDTH) + 1)
    return EnergyPartition(float(energy.min()) + WIDTH * np.arange(1, count + 1))


EXPERIMENT = Experiment("two-stage", "Closing remark: the partition from a short run of HMC", 10, run)
