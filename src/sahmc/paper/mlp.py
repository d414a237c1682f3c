"""Table 4 and figure 3: a one-layer network of ReLU units on simulated data.

The paper does not say how many data, hidden units, which inputs or prior. Here: 300 inputs uniform on [-3, 3], ten
hidden units, a linear output, noise of standard deviation 1, N(0, 5^2) on every weight. Energies then fall in the
printed range.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sahmc.importance import weighted_ess
from sahmc.paper import methods
from sahmc.paper.batch import Drawn, run_batch
from sahmc.paper.experiment import Book, Experiment, ratio
from sahmc.partition import EnergyPartition
from sahmc.tilt import StepTilt

N, HIDDEN, PRIOR, NOISE, REACH = 300, 10, 5.0, 1.0, 3.0
EPSILON, LENGTH, T0 = 0.005, 25, 1000
ITERATIONS, BURN, THIN, QUICK = 55_000, 5_000, 10, 11
EDGES = (460.0, 560.0, 2.0)
BLOCK = 20
"""Data sets between two looks at the clock."""
PUBLISHED = {"HMC": (0.112, 4.1, 40.3, 282.7), "SAHMC": (0.077, 8.3, 184.9, 335.8)}


def relu(x: Any) -> Any:
    return jnp.maximum(x, 0.0)


def true_function(x: Any) -> Any:
    return 3 * relu(x - 1.5) - relu(x + 1) - 3 * relu(x - 1) + 2 * relu(x)


def network(weights: Any, x: Any) -> Any:
    """alpha_0 + sum_k alpha_k relu(beta_k0 + beta_k1 x), for weights (alpha_0, alpha, beta_0, beta_1) in one vector."""
    hidden = (weights.shape[-1] - 1) // 3
    alpha, offset, slope = (weights[1 + i * hidden : 1 + (i + 1) * hidden] for i in range(3))
    return weights[0] + relu(x[:, None] * slope + offset) @ alpha


def log_density(weights: Any, data: Any) -> Any:
    """With all constants, so that energies mean what they do in the paper."""
    x, y = data
    residual = (y - network(weights, x)) / NOISE
    size, dim = x.shape[0], weights.shape[0]
    fit = -0.5 * jnp.sum(residual**2) - size * (0.5 * np.log(2 * np.pi) + np.log(NOISE))
    return fit - 0.5 * jnp.sum((weights / PRIOR) ** 2) - dim * (0.5 * np.log(2 * np.pi) + np.log(PRIOR))


def distance(weights: Any, x: Any) -> Any:
    """The loss of one network: mean of (f_0 - f)^2 over the inputs."""
    return jnp.mean((true_function(x) - network(weights, x)) ** 2)


def make_data(replicates: int, size: int = N) -> tuple[Any, Any]:
    keys = jax.random.split(jax.random.key(2019), 2)
    x = jax.random.uniform(keys[0], (replicates, size), minval=-REACH, maxval=REACH)
    return x, true_function(x) + NOISE * jax.random.normal(keys[1], (replicates, size))


def random_starts(replicates: int, hidden: int = HIDDEN) -> np.ndarray:
    return np.asarray(jax.random.normal(jax.random.key(7), (replicates, 3 * hidden + 1)))


def run(book: Book) -> None:
    scale = QUICK if book.quick else 1
    settings = dict(scale=scale, seeds=book.seeds)
    cells = {
        method: book.cell(f"mlp-{method}", partial(_printed, book), method=method, **settings)
        for method in ("HMC", "SAHMC")
    }
    parts = [
        book.cell(f"mlp-default-{first:03d}", partial(_default, book), first=first, **settings)
        for first in range(0, book.seeds, BLOCK)
    ]
    cells["our default"] = {
        **{key: np.concatenate([part[key] for part in parts]) for key in ("loss", "ess", "lowest")},
        "seconds": float(np.mean([part["seconds"] for part in parts])),
        "trace": parts[0]["trace"],
    }
    rows: list[list[Any]] = []
    for method, cell in cells.items():
        published = PUBLISHED.get(method, (float("nan"),) * 4)
        loss = cell["loss"]
        lower = float(np.mean(cell["lowest"] < cells["HMC"]["lowest"])) if method != "HMC" else float("nan")
        rows.append(
            [
                method,
                float(loss.mean()),
                float(loss.std(ddof=1) / np.sqrt(len(loss))),
                published[0],
                ratio(float(loss.mean()), published[0]),
                *(float(x) for x in cell["ess"].mean(axis=0)),
                *published[1:],
                float(cell["lowest"].mean()),
                lower,
                cell["seconds"],
            ]
        )
    book.table(
        "mlp",
        (
            "method",
            "posterior loss",
            "its standard error",
            "published",
            "over published",
            "ESS min",
            "median",
            "max",
            "published min",
            "published median",
            "published max",
            "lowest energy",
            "lower than HMC's, share",
            "seconds a data set",
        ),
        rows,
        "Means over data sets. Loss: posterior mean of (f_0 - f)^2, per point, by weight. ESS: over the weights of the "
        "network, of the draws as they were made (HMC, SAHMC) or of weighted means (our default).",
    )
    book.picture("mlp", _figure(cells))


def _printed(book: Book, method: str, scale: int, seeds: int) -> dict[str, Any]:
    """HMC or SAHMC on all data sets at once."""
    data, starts = make_data(seeds), random_starts(seeds)
    settings: dict[str, Any] = dict(step_size=EPSILON, steps=LENGTH, t0=T0, thin=THIN, seed=0)
    settings |= dict(iterations=ITERATIONS // scale, burn=BURN // scale, report=_reporter(book, method))
    tilt = StepTilt(EnergyPartition.uniform(*EDGES)) if method == "SAHMC" else None
    began = time.perf_counter()
    drawn = run_batch(log_density, data, starts, tilt=tilt, **settings)
    seconds = (time.perf_counter() - began) / seeds
    return {**measures(drawn, data), "seconds": seconds}


def _reporter(book: Book, method: str) -> Any:
    def report(done: int, total: int) -> None:
        if done % (total // 10 or 1) < 1000:
            book.say(f"    {method}: {done:,} of {total:,} iterations")

    return report


def measures(drawn: Drawn, data: Any) -> dict[str, Any]:
    """Of every data set: posterior loss by weight, ESS (min, median, max) of the raw draws, lowest energy, a trace."""

    @jax.jit
    def loss(position: Any, log_weight: Any, x: Any) -> Any:
        return jnp.sum(jax.nn.softmax(log_weight) * jax.vmap(distance, (0, None))(position, x))

    losses, sizes = [], []
    even = np.full((1, drawn.energy.shape[1]), 1 / drawn.energy.shape[1])
    for k in range(len(drawn.energy)):
        losses.append(float(loss(drawn.position[k], drawn.log_weight[k], data[0][k])))
        ess = weighted_ess(drawn.position[k][None].astype(float), even)
        sizes.append([np.nanmin(ess), np.nanmedian(ess), np.nanmax(ess)])
    return {"loss": np.array(losses), "ess": np.array(sizes), "lowest": drawn.lowest, "trace": drawn.energy[0]}


def _default(book: Book, first: int, scale: int, seeds: int) -> dict[str, Any]:
    """Our default on some of the data sets, one after the other, from the start HMC had, with as many gradients."""
    data, starts = make_data(seeds), random_starts(seeds)
    losses, sizes, lowest, traces = [], [], [], []
    began = time.perf_counter()
    chosen = range(first, min(first + BLOCK, seeds))
    for k in chosen:
        x, y = data[0][k], data[1][k]
        model, off = partial(log_density, data=(x, y)), partial(distance, x=x)
        gradients = LENGTH * ITERATIONS // scale
        result = methods.default(model, starts[k], gradients, random_seed=k, progressbar=False)
        losses.append(float(result.expectation(off).mean))
        ess = result.ess()
        sizes.append([np.nanmin(ess), np.nanmedian(ess), np.nanmax(ess)])
        lowest.append(float(-result.log_density.max()))
        traces.append(np.asarray(-result.log_density[0]))
    seconds = (time.perf_counter() - began) / len(chosen)
    book.say(f"    our default: {first + len(chosen)} of {seeds} data sets, {seconds:.1f} s each")
    found = {"loss": np.array(losses), "ess": np.array(sizes), "lowest": np.array(lowest)}
    return {**found, "trace": traces[0], "seconds": seconds}


def _figure(cells: dict[str, dict[str, Any]]) -> Any:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), sharey=True, layout="constrained")
    for ax, (method, cell) in zip(axes, cells.items(), strict=True):
        ax.plot(cell["trace"], linewidth=0.5, color="#1f6f8b")
        ax.set(title=f"{method}, first data set", xlabel="draw kept", ylabel="energy")
    return figure


EXPERIMENT = Experiment("mlp", "Table 4 and figure 3: a network on simulated data", 200, run)
