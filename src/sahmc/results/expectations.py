"""Posterior means of a run, their standard errors, and equal-weight draws."""

from __future__ import annotations

import jax
import numpy as np

from sahmc._support.types import Position, PositionFn
from sahmc._support.validate import require, require_function
from sahmc.models.positions import named
from sahmc.results.records import RunRecord
from sahmc.tilt.importance import (
    BLOCK_BYTES,
    Expectation,
    by_columns,
    systematic_resample,
    weighted_ess,
    weighted_mean,
)


def values(record: RunRecord, fn: PositionFn | None = None) -> Position:
    """Return ``fn`` of every draw as arrays (chain, draw, ...), or the draws themselves if None.

    It is computed for a few chains at a time, to save memory.
    """
    draws = record.draws.values
    if fn is None:
        return draws
    require_function(fn, "fn", "a position")
    each = sum(leaf[0].nbytes for leaf in record.draws.leaves)
    step = max(1, BLOCK_BYTES // each)
    mapped = jax.vmap(jax.vmap(fn))
    _try(fn, draws)
    parts = [
        jax.tree.map(np.asarray, mapped(jax.tree.map(lambda x: x[i : i + step], draws)))  # noqa: B023
        for i in range(0, len(record.draws.energy), step)
    ]
    found = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
    require(jax.tree.leaves(found), "fn must return arrays", "none", "return what you want to know the mean of")
    return found


def _try(fn: PositionFn, draws: Position) -> None:
    """Raise ``ValueError`` if ``fn`` uses names or axes that a draw does not have."""
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[2:], x.dtype), draws)
    try:
        jax.eval_shape(fn, one)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        what = ", ".join(f"{name} {leaf.shape}" for name, leaf in named(one).items())
        kind = "a dict of" if isinstance(draws, dict) else "an array," if hasattr(draws, "dtype") else "a pytree of"
        why = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        must = f"fn must be a function of one draw, {kind} {what}"
        raise ValueError(f"{must}; got {why}. To fix it, use these names and shapes.") from error


def expectation(record: RunRecord, fn: PositionFn | None) -> Expectation:
    """Return the posterior mean of ``fn`` and its Monte Carlo standard error; None means the position itself."""
    weight = record.weight
    leaves, tree = jax.tree.flatten(values(record, fn))
    parts = [by_columns(lambda columns: weighted_mean(columns, weight), leaf) for leaf in leaves]
    return Expectation(*(jax.tree.unflatten(tree, part) for part in zip(*parts, strict=True)))


def effective_sample_size(record: RunRecord, fn: PositionFn | None) -> Position:
    """Return the effective sample size of the posterior mean of ``fn``, in the structure that ``fn`` returns."""
    weight = record.weight

    def measure(columns: np.ndarray) -> tuple[np.ndarray]:
        return (weighted_ess(columns, weight),)

    return jax.tree.map(lambda leaf: by_columns(measure, leaf)[0], values(record, fn))


def resample_index(record: RunRecord, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the chain and the draw of each of ``size`` equal-weight draws, in time order.

    ``seed`` seeds the single random number this uses.
    """
    index = systematic_resample(record.weight.ravel(), size, np.random.default_rng(seed))
    return np.unravel_index(index, record.draws.log_weight.shape)  # type: ignore[return-value]
