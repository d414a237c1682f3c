"""Table 5: a network of 25 hidden units on the Pima Indians diabetes data.

The paper does not state the scaling of predictors, the prior of the weights or the definition of "test error". We use
predictors standardised by the training rows, ReLU units, a logistic output, and N(0, 5^2) on every weight without its
constant. Energies then lie in the printed range, 290 to 360. Our test error is the share of test rows with a posterior
probability on the wrong side of one half.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sahmc.models.model import Model
from sahmc.paper.batch import OfData
from sahmc.paper.experiment import Book, Cell, Experiment, Row, standard_error
from sahmc.paper.networks import default_block, networks, printed_batch, score_columns, score_row, trace_figure
from sahmc.paper.pima_data import PimaData, load_pima
from sahmc.tilt.partition import EnergyPartition

HIDDEN, PRIOR, NARROW, TRAINING = 25, 5.0, 1.0, 0.9
APART, TIMES = "our default, prior apart", 3
LONGER, NARROWER = f"{APART}, {TIMES} times the gradients", f"{APART}, prior sd {NARROW:g}"
EDGES = (290.0, 360.0, 2.0)
# test error; ESS min, median, max; lowest energy
PUBLISHED = {"HMC": (0.383, 1.7, 4.0, 24.9, 294.90), "SAHMC": (0.265, 4.4, 15.0, 34.5, 289.13)}

Data = tuple[Float[Array, "rows predictors"], Float[Array, " rows"], Float[Array, "test predictors"]]
"""The predictors and classes of the training rows, and the predictors of the test rows."""


def logit(weights: Float[Array, " dim"], x: Float[Array, "rows predictors"]) -> Float[Array, " rows"]:
    """Return the log odds of diabetes in each row, for weights (alpha_0, alpha, beta_0, beta) in one vector."""
    hidden = (weights.shape[-1] - 1) // (x.shape[-1] + 2)
    alpha, offset, slope = jnp.split(weights[1:], (hidden, 2 * hidden))
    return weights[0] + jnp.maximum(x @ slope.reshape(-1, hidden) + offset, 0.0) @ alpha


def log_likelihood(weights: Float[Array, " dim"], data: Data) -> Float[Array, ""]:
    """Return the log likelihood of the training rows."""
    x, y, _ = data
    score = logit(weights, x)
    return jnp.sum(y * score - jax.nn.softplus(score))


def log_prior(weights: Float[Array, " dim"], spread: float = PRIOR) -> Float[Array, ""]:
    """Return the log prior without its constant; ``spread`` is the standard deviation of each weight."""
    return -0.5 * jnp.sum((weights / spread) ** 2)


def log_density(weights: Float[Array, " dim"], data: Data) -> Float[Array, ""]:
    """Return the log posterior density, up to a constant."""
    return log_likelihood(weights, data) + log_prior(weights)


def model(spread: float = PRIOR) -> Model:
    """Return the same posterior as a model with separate prior and likelihood; its log likelihood takes the data."""
    return Model(log_likelihood=log_likelihood, log_prior=partial(log_prior, spread=spread))


def probability(weights: Float[Array, " dim"], data: Data) -> Float[Array, " test"]:
    """Return the probability of diabetes in each test row."""
    return jax.nn.sigmoid(logit(weights, data[2]))


def splits(pima: PimaData, seeds: int) -> tuple[tuple[Array, ...], np.ndarray]:
    """Split the rows at random ``seeds`` times, and return the ``Data`` of all splits and the test classes.

    The first axis of arrays is the split. Predictors are standardised by the training rows.
    """
    size = round(TRAINING * len(pima.y))
    parts = []
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(pima.y))
        train, test = order[:size], order[size:]
        mean, spread = pima.x[train].mean(axis=0), pima.x[train].std(axis=0)
        parts.append([(pima.x[rows] - mean) / spread for rows in (train, test)] + [pima.y[train], pima.y[test]])
    x, new, y, truth = (np.stack(part) for part in zip(*parts, strict=True))
    return tuple(jnp.asarray(a, jnp.float32) for a in (x, y, new)), truth


def random_starts(seeds: int) -> np.ndarray:
    """Draw starting points from a fixed seed: standard normal weights, (split, dim)."""
    return np.asarray(jax.random.normal(jax.random.key(7), (seeds, 1 + HIDDEN * 10)))


def logistic_regression(x: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return the probabilities of ``y`` = 1 in ``new`` rows, fitted to ``x`` and ``y`` by maximum likelihood."""
    design, coefficients = np.column_stack([np.ones(len(x)), x]), np.zeros(x.shape[1] + 1)
    for _ in range(25):
        fitted = 1 / (1 + np.exp(-design @ coefficients))
        curvature = (design.T * (fitted * (1 - fitted))) @ design
        coefficients += np.linalg.solve(curvature, design.T @ (y - fitted))
    return 1 / (1 + np.exp(-np.column_stack([np.ones(len(new)), new]) @ coefficients))


def run(book: Book) -> None:
    """Run all methods and a logistic regression on random splits of the data; write the table and the figure."""
    pima = load_pima(book.data)
    data, truth = splits(pima, book.seeds)
    starts = random_starts(book.seeds)
    edges = EnergyPartition.uniform(*EDGES)

    def printed(method: str, scale: int, seeds: int) -> Cell:
        return printed_batch(book, log_density, data, starts, probability, edges, method, scale)

    def ours(posterior: OfData | Model, first: int, scale: int, seeds: int, times: int = 1) -> Cell:
        return default_block(posterior, data, starts, probability, first, scale, times)

    variants = {"our default": partial(ours, log_density), APART: partial(ours, model())}
    if not book.quick:
        variants[LONGER] = partial(ours, model(), times=TIMES)
        variants[NARROWER] = partial(ours, model(NARROW))
    cells = networks(book, printed, variants)
    arrays = [np.asarray(part, float) for part in data]
    yardstick = np.stack([logistic_regression(*(part[k] for part in arrays)) for k in range(book.seeds)])
    rows = [_row(method, cell, truth) for method, cell in cells.items()]
    wrong = _wrong(yardstick, truth)
    rows.append(["logistic regression", float(wrong.mean()), standard_error(wrong), *["-"] * (len(rows[0]) - 3)])
    gaps = {name: _wrong(cells[name]["mean"], truth) - wrong for name in variants}
    listed = "; ".join(f"{name}: {gap.mean():.4f} +- {standard_error(gap):.4f}" for name, gap in gaps.items())
    note = "" if pima.as_published else " NOT the published data."
    book.table(
        "pima",
        (
            *score_columns("test error"),
            "published",
            "seconds a split",
        ),
        rows,
        "Means over random splits into 90 % and 10 %. ESS: over the weights of the network, of the draws as they were "
        "made (HMC, SAHMC, NUTS) or of weighted means (our default). Test error less that of the logistic regression "
        f"on the same split: {listed}.{note}",
    )
    book.picture("pima", trace_figure({name: cells[name] for name in ("HMC", "SAHMC", "NUTS", APART)}, "first split"))


def _wrong(probabilities: np.ndarray, truth: np.ndarray) -> np.ndarray:
    return ((probabilities > 0.5) != truth).mean(axis=1)


def _row(method: str, cell: Cell, truth: np.ndarray) -> Row:
    published = PUBLISHED.get(method)
    energy = published[4] if published else float("nan")
    return [*score_row(method, _wrong(cell["mean"], truth), cell, published), energy, cell["seconds"]]


EXPERIMENT = Experiment("pima", "Table 5: a network on the Pima Indians diabetes data", 100, run)
