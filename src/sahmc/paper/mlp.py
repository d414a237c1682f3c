"""Table 4 and figure 3: a one-layer network of ReLU units on simulated data.

The paper does not state the number of data, the number of hidden units, the inputs or the prior. We use 300 inputs
uniform on [-3, 3], ten hidden units, a linear output, noise of standard deviation 1, and N(0, 5^2) on every weight.
Energies then lie in the printed range.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sahmc.paper.experiment import Book, Cell, Experiment, Row, standard_error
from sahmc.paper.networks import (
    ITERATIONS,
    QUICK,
    default_block,
    networks,
    printed_batch,
    score_columns,
    score_row,
    trace_figure,
)
from sahmc.tilt.partition import EnergyPartition

N, HIDDEN, PRIOR, NOISE, REACH = 300, 10, 5.0, 1.0, 3.0
"""The numbers of data and hidden units, standard deviations of prior and noise, and the maximum absolute input."""
EDGES = (460.0, 560.0, 2.0)
SWEEP_SETS, SWEEP_SHORTER = 20, 5
"""The number of data sets in the sweep over other settings, and the factor by which its runs are shorter."""
SWEEP: tuple[dict[str, int | float], ...] = (
    {},
    {"size": 200},
    {"size": 500},
    {"hidden": 5},
    {"hidden": 20},
    {"prior": 1.0},
    {"prior": 10.0},
)
PUBLISHED = {"HMC": (0.112, 4.1, 40.3, 282.7), "SAHMC": (0.077, 8.3, 184.9, 335.8)}
"""The loss, and the minimum, median and maximum effective sample size, in the printed table."""

Data = tuple[Float[Array, " rows"], Float[Array, " rows"]]
"""The inputs and outputs of one data set."""


def relu(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return max(x, 0)."""
    return jnp.maximum(x, 0.0)


def true_function(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return f_0(x), the true regression function."""
    return 3 * relu(x - 1.5) - relu(x + 1) - 3 * relu(x - 1) + 2 * relu(x)


def network(weights: Float[Array, " dim"], x: Float[Array, " rows"]) -> Float[Array, " rows"]:
    """Return f(x) = alpha_0 + sum_k alpha_k relu(beta_k0 + beta_k1 x).

    The weights are (alpha_0, alpha, beta_0, beta_1) in one vector.
    """
    hidden = (weights.shape[-1] - 1) // 3
    alpha, offset, slope = (weights[1 + i * hidden : 1 + (i + 1) * hidden] for i in range(3))
    return weights[0] + relu(x[:, None] * slope + offset) @ alpha


def log_density(weights: Float[Array, " dim"], data: Data, prior: float = PRIOR) -> Float[Array, ""]:
    """Return the log posterior density with all constants, so that energies compare with those of the paper.

    ``prior`` is the standard deviation of each weight.
    """
    x, y = data
    residual = (y - network(weights, x)) / NOISE
    size, dim = x.shape[0], weights.shape[0]
    fit = -0.5 * jnp.sum(residual**2) - size * (0.5 * np.log(2 * np.pi) + np.log(NOISE))
    return fit - 0.5 * jnp.sum((weights / prior) ** 2) - dim * (0.5 * np.log(2 * np.pi) + np.log(prior))


def distance(weights: Float[Array, " dim"], data: Data) -> Float[Array, ""]:
    """Return the loss of one network: the mean of (f_0 - f)^2 over the inputs."""
    x, _ = data
    return jnp.mean((true_function(x) - network(weights, x)) ** 2)


def make_data(replicates: int, size: int = N) -> tuple[Float[Array, "sets rows"], Float[Array, "sets rows"]]:
    """Simulate the inputs and outputs of data sets, from a fixed seed."""
    keys = jax.random.split(jax.random.key(2019), 2)
    x = jax.random.uniform(keys[0], (replicates, size), minval=-REACH, maxval=REACH)
    return x, true_function(x) + NOISE * jax.random.normal(keys[1], (replicates, size))


def random_starts(replicates: int, hidden: int = HIDDEN) -> np.ndarray:
    """Draw starting points from a fixed seed: standard normal weights, (data set, dim)."""
    return np.asarray(jax.random.normal(jax.random.key(7), (replicates, 3 * hidden + 1)))


def run(book: Book) -> None:
    """Run all methods, then the sweep over other settings; write two tables and the figure."""
    cells = networks(book, partial(_printed, book), {"our default": _default})
    rows = [_row(method, cell, cells["HMC"]) for method, cell in cells.items()]
    book.table(
        "mlp",
        (
            *score_columns("posterior loss"),
            "lower than HMC's, share",
            "with modes rolled down to",
            "seconds a data set",
        ),
        rows,
        "Means over data sets. Loss: posterior mean of (f_0 - f)^2, per point, by weight. ESS: over the weights of the "
        "network, of the draws as they were made (HMC, SAHMC, NUTS) or of weighted means (our default).",
    )
    book.picture("mlp", trace_figure(cells, "first data set"))
    _sweep(book)


def _row(method: str, cell: Cell, base: Cell) -> Row:
    lower = [float(np.mean(own < base["lowest"][:, 0])) for own in cell["lowest"].T]
    shares = ["-", "-"] if method == "HMC" else lower
    return [*score_row(method, cell["mean"], cell, PUBLISHED.get(method)), *shares, cell["seconds"]]


def _printed(
    book: Book, method: str, scale: int, seeds: int, size: int = N, hidden: int = HIDDEN, prior: float = PRIOR,
    edges: tuple[float, float, float] = EDGES,
) -> Cell:  # fmt: skip
    """Run HMC, SAHMC or NUTS on all data sets at once; a sweep changes the settings from ``size`` on."""
    data, starts = make_data(seeds, size), random_starts(seeds, hidden)
    density = partial(log_density, prior=prior)
    return printed_batch(book, density, data, starts, distance, EnergyPartition.uniform(*edges), method, scale)


def _default(first: int, scale: int, seeds: int) -> Cell:
    return default_block(log_density, make_data(seeds), random_starts(seeds), distance, first, scale)


def _sweep(book: Book) -> None:
    """Measure how the comparison depends on settings that the paper does not state, by HMC and SAHMC with others.

    The energy range is shifted with the lowest energies that HMC finds, as an experimenter would do.
    """
    seeds, scale = min(book.seeds, SWEEP_SETS), QUICK if book.quick else SWEEP_SHORTER
    rows: list[Row] = []
    for setup in SWEEP[:2] if book.quick else SWEEP:
        settings = {"size": N, "hidden": HIDDEN, "prior": PRIOR, **setup}
        label = f"sweep-n{settings['size']}-h{settings['hidden']}-p{settings['prior']:g}"
        found = {}
        edges = EDGES
        for method in ("HMC", "SAHMC"):
            common = dict(method=method, scale=scale, seeds=seeds, edges=edges)
            found[method] = book.cell(f"{label}-{method}", partial(_printed, book), **common, **settings)
            low = 10 * np.floor(np.median(found["HMC"]["lowest"][:, 0]) / 10) - 40
            edges = (float(low), float(low) + 100, 2.0)
        gap = found["HMC"]["mean"] - found["SAHMC"]["mean"]
        lower = np.mean(found["SAHMC"]["lowest"][:, 0] < found["HMC"]["lowest"][:, 0])
        rows.append(
            [
                str(settings["size"]),
                str(settings["hidden"]),
                f"{settings['prior']:g}",
                f"{edges[0]:g} to {edges[1]:g}",
                float(found["HMC"]["mean"].mean()),
                float(found["SAHMC"]["mean"].mean()),
                float(gap.mean()),
                standard_error(gap),
                *(float(found[method]["ess"][:, 1].mean()) for method in ("HMC", "SAHMC")),
                float(lower),
            ]
        )
    book.table(
        "mlp-sweep",
        (
            "data",
            "hidden units",
            "prior sd",
            "regions",
            "HMC loss",
            "SAHMC loss",
            "HMC minus SAHMC",
            "its standard error",
            "HMC median ESS",
            "SAHMC median ESS",
            "SAHMC finds the lower energy, share",
        ),
        rows,
        f"{seeds} data sets, {ITERATIONS // scale:,} iterations each; regions from 40 below the lowest energies of "
        "HMC, 100 wide.",
    )


EXPERIMENT = Experiment("mlp", "Table 4 and figure 3: a network on simulated data", 200, run)
