"""Log likelihoods, simulated data and draws from the prior, which need the model; and cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sahmc._support.frozen import thawed
from sahmc._support.validate import require, require_flag
from sahmc.models.positions import in_tree
from sahmc.models.predictor import Predictor, Variables
from sahmc.results.records import Rejuvenated, RunRecord
from sahmc.tilt.importance import resample_rows

if TYPE_CHECKING:
    import xarray as xr
    from arviz_stats import ELPDData

MOST_NUMBERS, LEAST_DRAWS = 2**24, 100
"""The maximum number of log likelihoods, above which draws are thinned, and the minimum number of draws per chain."""
WEIGHT_DIGITS = 4
"""The number of digits of a stacking weight; an optimiser determines it no better."""
PRIOR_DRAWS = 1000
"""The number of draws from the prior."""


class Wanted(NamedTuple):
    """The groups requested from ``Result.to_datatree``."""

    log_likelihood: bool
    """Whether to compute the log likelihood of every observation."""
    posterior_predictive: bool
    """Whether to simulate data under the posterior."""
    prior: bool
    """Whether to draw from the prior and simulate data under it."""

    @property
    def argument(self) -> str | None:
        """The first requested group, written as an argument; None if there is none."""
        for name, value in self._asdict().items():
            require_flag(value, name)
        return next((f"{name}=True" for name, value in self._asdict().items() if value), None)

    def require(self, predictor: Predictor | None) -> Predictor:
        """Return the ``predictor`` of a model, or raise ``ValueError`` if it has none."""
        require(
            predictor is not None,
            f"{self.argument} needs a model of NumPyro, PyMC or Stan, which names its data",
            "a log density, or a Model made of functions",
            "compute it from the equal-weight draws that result.resample(n) returns",
        )
        assert predictor is not None
        return predictor


def add_predictions(
    tree: xr.DataTree,
    predictor: Predictor,
    wanted: Wanted,
    record: RunRecord,
    index: tuple[np.ndarray, np.ndarray],
    rejuvenated: Rejuvenated | None,
    seed: int,
) -> xr.DataTree:
    """Return a tree with the ``wanted`` groups added.

    ``index`` holds the chain and the draw of each row of the posterior. ``rejuvenated`` holds these draws after some
    moves, or is None. The log likelihood of repeated draws is computed once. Data are simulated separately for each,
    unless Stan made them while sampling.
    """
    shape = index[0].shape
    groups: dict[str, Variables] = {}
    if wanted.log_likelihood:
        groups["log_likelihood"] = log_likelihood(predictor, record, index, rejuvenated)
    if wanted.posterior_predictive:
        flat = tuple(part.ravel() for part in index)
        draws = _values(record, flat) if rejuvenated is None else rejuvenated.values
        found = predictor.posterior_predictive(draws, seed)
        groups["posterior_predictive"] = {name: x.reshape(*shape, *x.shape[1:]) for name, x in found.items()}
    if wanted.prior:
        values, predictive = predictor.prior(PRIOR_DRAWS, seed)
        groups["prior"] = {name: x[None] for name, x in values.items()}
        groups["prior_predictive"] = {name: x[None] for name, x in predictive.items()}
    for name, group in groups.items():
        if group:
            tree[name] = _group(group, record)
    return tree


def log_likelihood(
    predictor: Predictor,
    record: RunRecord,
    index: tuple[np.ndarray, np.ndarray],
    rejuvenated: Rejuvenated | None = None,
) -> dict[str, np.ndarray]:
    """Return the log likelihood of every observation under the draws of ``index``, as arrays with its axes first."""
    shape = index[0].shape
    if rejuvenated is None:
        number = np.ravel_multi_index(index, record.draws.log_weight.shape)
        once, again = np.unique(number, return_inverse=True)
        draws = _values(record, np.unravel_index(once, record.draws.log_weight.shape))
    else:
        draws, again = rejuvenated.values, np.arange(index[0].size)
    found = predictor.log_likelihood(draws)
    return {name: x[again.ravel()].reshape(*shape, *x.shape[1:]) for name, x in found.items()}


def _values(record: RunRecord, index: tuple[np.ndarray, ...]) -> dict[str, np.ndarray]:
    """Return the variables of the draws with the chains and draw numbers in ``index``."""
    return {name: np.asarray(x[index]) for name, x in record.draws.values.items()}


def _group(values: Variables, record: RunRecord) -> xr.DataTree:
    """Return a group of arrays (chain, draw, ...), with the dims and coords of the model.

    The log likelihood of vectors has fewer dims than the vectors: it lacks the last ones.
    """
    import xarray as xr
    from arviz_base import dict_to_dataset

    arrays = {in_tree(name): np.asarray(x) for name, x in values.items()}
    dims = {in_tree(name): own for name, own in thawed(record.labels.dims).items()}
    own: dict[Any, Any] = {name: dims[name][: x.ndim - 2] for name, x in arrays.items() if name in dims}
    return xr.DataTree(dict_to_dataset(arrays, coords=dict(record.labels.coords), dims=own))


def leave_one_out(record: RunRecord, predictor: Predictor) -> ELPDData:
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


def loo_columns(found: Mapping[str, ELPDData]) -> dict[str, np.ndarray]:
    """Return estimates of several models on the same observations, as columns with an entry for each model.

    ``elpd_loo``, ``elpd_loo_error``
        The expected log predictive density of the same number of new observations, and its standard error, due to the
        finite number of observations.
    ``p_loo``
        The effective number of parameters.
    ``elpd_diff``, ``elpd_diff_error``
        The difference of ``elpd_loo`` from that of the best model, at most 0, and its standard error.
    ``stacking_weight``
        The weight of the model in the best predictive mixture.
    """
    import arviz_stats

    together = arviz_stats.compare(dict(found), method="stacking").loc[list(found)]
    elpd = np.array([one.elpd for one in found.values()], float)
    return {
        "elpd_loo": elpd,
        "elpd_loo_error": np.array([one.se for one in found.values()], float),
        "p_loo": np.array([one.p for one in found.values()], float),
        "elpd_diff": elpd - elpd.max(),
        "elpd_diff_error": together["dse"].to_numpy(float),
        "stacking_weight": together["weight"].to_numpy(float).round(WEIGHT_DIGITS),
    }
