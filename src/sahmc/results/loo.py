"""Leave-one-out cross-validation of runs, by ArviZ, and stacking weights of their models."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sahmc.models.predictor import Predictor
from sahmc.results.predictions import log_likelihood
from sahmc.results.records import RunRecord
from sahmc.tilt.importance import resample_rows

MOST_NUMBERS, LEAST_DRAWS = 2**24, 100
"""The maximum number of log likelihoods, above which draws are thinned, and the minimum number of draws per chain."""


WEIGHT_DIGITS = 4
"""The number of digits of a stacking weight; an optimiser determines it no better."""


class LooTable(NamedTuple):
    """The columns of a comparison by cross-validation, with an entry for each model."""

    elpd: np.ndarray
    """The expected log predictive density of the same number of new observations."""
    se: np.ndarray
    """Its standard error, due to the finite number of observations."""
    p: np.ndarray
    """The effective number of parameters."""
    diff: np.ndarray
    """The difference of ``elpd`` from that of the best model, at most 0."""
    diff_se: np.ndarray
    """The standard error of this difference."""
    weight: np.ndarray
    """The stacking weight: that of the model in the best predictive mixture."""
    doubtful: np.ndarray
    """The number of observations whose removal changes the posterior too much for the estimate to be reliable."""


def leave_one_out(record: RunRecord, predictor: Predictor) -> Any:
    """Return ArviZ's estimate for all observations of a model, including the pointwise values."""
    import arviz_stats
    import xarray as xr

    index = resample_rows(record.weight, 0)
    size = sum(values.size for values in record.labels.observed_data.values())
    draws = max(LEAST_DRAWS, MOST_NUMBERS // max(1, size * len(index[0])))
    every = -(-index[0].shape[1] // draws)
    chain, draw = (part[:, ::every] for part in index)
    found = log_likelihood(predictor, record, (chain, draw))
    whole = np.concatenate([found[name].reshape(*chain.shape, -1).astype(float) for name in sorted(found)], axis=-1)
    axes = ("chain", "draw")
    energy = xr.Dataset({"lp": (axes, record.draws.log_density[chain, draw].astype(float))})
    pointwise = xr.Dataset({"observation": ((*axes, "row"), whole)})
    labelled = {"posterior": energy, "log_likelihood": pointwise}
    coords = {"chain": np.arange(len(chain)), "draw": np.arange(chain.shape[1])}
    tree = xr.DataTree.from_dict({name: group.assign_coords(coords) for name, group in labelled.items()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # doubtful observations, which we count
        return arviz_stats.loo(tree, pointwise=True)


def loo_table(found: Mapping[str, Any]) -> LooTable:
    """Return estimates of several models on the same observations, with ArviZ's comparison of them."""
    import arviz_stats

    together = arviz_stats.compare(dict(found), method="stacking").loc[list(found)]
    elpd = np.array([one.elpd for one in found.values()], float)
    return LooTable(
        elpd,
        np.array([one.se for one in found.values()], float),
        np.array([one.p for one in found.values()], float),
        elpd - elpd.max(),
        together["dse"].to_numpy(float),
        together["weight"].to_numpy(float).round(WEIGHT_DIGITS),
        np.array([int((one.pareto_k > one.good_k).sum()) for one in found.values()]),
    )
