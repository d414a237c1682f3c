"""A test of the closing remark on Riemannian HMC: more effective draws per iteration, fewer per second.

There are two problems. A logistic regression uses the Fisher metric, which suits it. The paper's first mixture, under
its own step tilt, uses SoftAbs of the Hessian, because a mixture has no Fisher metric. ESS does not detect a chain that
stays in one mode, so for the mixture an ESS is also computed from the errors of the masses over runs.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sahmc._support.types import PositionFn
from sahmc.hamiltonian.riemannian import SoftAbs, fisher_metric
from sahmc.kernels.hmc import HMC
from sahmc.kernels.rmhmc import RMHMC
from sahmc.paper import methods
from sahmc.paper.experiment import Book, Cell, Experiment, Row, standard_error
from sahmc.testing.targets import mixture
from sahmc.tilt.partition import EnergyPartition

DRAWS, QUICK, LENGTH = 500, 10, (1, 6)
CASES: dict[str, tuple[str, ...]] = {
    "logistic regression": ("HMC, diagonal", "HMC, dense", "RMHMC, Fisher", "RMHMC, SoftAbs"),
    "mixture set 1, step tilt": ("HMC, diagonal", "HMC, dense", "RMHMC, SoftAbs"),
}


def logistic_regression() -> tuple[PositionFn, Any]:
    """Return the log density of a logistic regression on simulated data, and its Fisher metric.

    There are 200 outcomes and six predictors. Neighbouring predictors have correlation 0.9, and each coefficient has
    the prior N(0, 3^2).
    """
    rng = np.random.default_rng(0)
    root = np.linalg.cholesky(0.9 ** np.abs(np.subtract.outer(np.arange(6), np.arange(6))))
    design = rng.normal(size=(200, 6)) @ root.T
    outcome = rng.random(200) < 1 / (1 + np.exp(-design @ np.array([1.0, -1.0, 0.5, 0.0, 0.5, -0.5])))
    x, sign = jnp.asarray(design, jnp.float32), jnp.asarray(2.0 * outcome - 1, jnp.float32)

    def log_density(beta: Float[Array, " dim"]) -> Float[Array, ""]:
        return jnp.sum(jax.nn.log_sigmoid(sign * (x @ beta))) - 0.5 * jnp.sum(beta**2) / 9

    return log_density, fisher_metric(lambda beta: 2 * jnp.arcsin(jnp.sqrt(jax.nn.sigmoid(x @ beta))), precision=1 / 9)


def run(book: Book) -> None:
    """Run HMC and Riemannian HMC on both problems, and write the table."""
    draws = DRAWS // (QUICK if book.quick else 1)
    rows: list[Row] = []
    for number, (case, kernels) in enumerate(CASES.items()):
        base: Cell = {}
        for kernel in kernels:
            label = f"case{number}-{kernel.replace(', ', '-')}"
            cell = book.cell(label, _compute, case=case, kernel=kernel, draws=draws, seeds=book.seeds)
            base = base or cell
            rows.append(
                [
                    case,
                    kernel,
                    cell["per_iteration"],
                    cell["its_error"],
                    cell["per_second"],
                    cell["per_iteration"] / base["per_iteration"],
                    cell["per_second"] / base["per_second"],
                    cell["by_masses"] if cell["by_masses"] else "one mode",
                    cell["failed"],
                ]
            )
    book.table(
        "rmhmc",
        (
            "problem",
            "kernel",
            "ESS per 1000 iterations",
            "its standard error",
            "ESS a second",
            "per iteration, over HMC",
            "per second, over HMC",
            "ESS per 1000 iterations by errors of the masses",
            "moves rejected by the implicit solver, share",
        ),
        rows,
        "Least ESS over coordinates, 32 chains, step sizes tuned to an acceptance of 0.8, one to six leapfrog steps.",
    )


def _compute(case: str, kernel: str, draws: int, seeds: int) -> Cell:
    density, metric = logistic_regression()
    start = np.zeros(6)
    options: dict[str, Any] = {"tilt": "none"}
    target = mixture(-6.0, 4.0)
    if case.startswith("mixture"):
        density, start = target.log_density, target.start
        options = {"tilt": "step", "partition": EnergyPartition.uniform(0, 20, 2)}
    name, shape = kernel.split(", ")
    kind = HMC if name == "HMC" else RMHMC
    spec = kind(num_integration_steps=LENGTH, metric={"Fisher": metric, "SoftAbs": SoftAbs()}.get(shape, shape))
    per_iteration, per_second, failed, errors = [], [], [], []
    for seed in (0, *range(seeds)):  # the first run compiles
        result = methods.run_quietly(
            density, start, kernel=spec, draws=draws, tune=draws // 2, jumps=False, random_seed=seed,
            progressbar=False, **options,
        )  # fmt: skip
        ess = float(np.min(result.ess()))
        per_iteration.append(1000 * ess / result.energy.size)
        per_second.append(ess / result.settings["sampling_time"])
        failed.append(result.num_failed / result.num_trajectories)
        if case.startswith("mixture"):
            errors.append(result.expectation(target.indicators).mean - target.masses)
    by_masses = 0.0
    if errors:
        share = np.sum(target.masses * (1 - target.masses)) / np.sum(np.mean(np.square(errors[1:]), axis=0))
        by_masses = float(1000 * share / result.energy.size)
    rates = np.array(per_iteration[1:])
    return {
        "per_iteration": float(rates.mean()),
        "its_error": standard_error(rates),
        "per_second": float(np.median(per_second[1:])),
        "failed": float(np.mean(failed[1:])),
        "by_masses": by_masses,
    }


EXPERIMENT = Experiment("rmhmc", "Closing remark: Riemannian HMC", 8, run)
