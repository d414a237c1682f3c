"""Pointwise log likelihoods and simulated data of PyMC models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from sahmc._support.frozen import thawed
from sahmc._support.validate import require
from sahmc.models.model import Labels
from sahmc.models.predictor import Predictor, PriorDraws, Variables, require_observed

PyMCModel: TypeAlias = Any
"""A ``pymc.Model``, which has no types."""


@dataclass(frozen=True)
class PyMCPredictor(Predictor):
    """The predictive functions of a PyMC model, with its data at the time of the call."""

    model: PyMCModel
    """The model."""
    labels: Labels
    """The names of its dimensions, their coordinates, and its data."""
    improper: tuple[str, ...]
    """The names of variables with an improper prior, which cannot be sampled."""

    def log_likelihood(self, draws: Variables) -> dict[str, np.ndarray]:
        """Return the log likelihood of every observation under each draw, by name of the observed variable."""
        import pymc

        require_observed(self.model.observed_RVs)
        found = pymc.compute_log_likelihood(
            self._trace(draws), model=self.model, extend_inferencedata=False, progressbar=False
        )
        return {name: np.asarray(found[name])[0] for name in found.data_vars}

    def posterior_predictive(self, draws: Variables, seed: int) -> dict[str, np.ndarray]:
        """Return data simulated by the model under each draw, by name of the observed variable."""
        import pymc

        require_observed(self.model.observed_RVs)
        found = pymc.sample_posterior_predictive(
            self._trace(draws),
            model=self.model,
            var_names=[variable.name for variable in self.model.observed_RVs],
            random_seed=seed,
            return_inferencedata=False,
            progressbar=False,
        )
        return {name: np.asarray(values)[0] for name, values in found.items()}

    def prior(self, size: int, seed: int) -> PriorDraws:
        """Return draws from the prior, including deterministics, and data simulated from each."""
        import pymc

        must, given = "prior=True needs a prior that can be drawn from", f"improper {list(self.improper)}"
        require(not self.improper, must, given, "give every free variable a proper prior")
        found = pymc.sample_prior_predictive(size, model=self.model, random_seed=seed, return_inferencedata=False)
        data = {variable.name for variable in self.model.observed_RVs}
        return PriorDraws(
            {name: np.asarray(x) for name, x in found.items() if name not in data},
            {name: np.asarray(x) for name, x in found.items() if name in data},
        )

    def _trace(self, draws: Variables) -> object:
        """Return draws of the free variables in the container that this version of PyMC reads.

        It includes coordinates and constant data. If PyMC cannot see that these are unchanged since the draws were
        made, it redraws the variables that depend on them from the prior.
        """
        import xarray as xr
        from arviz_base import dict_to_dataset
        from pymc.backends import arviz as backend

        names = [variable.name for variable in self.model.free_RVs]
        coords, dims = dict(self.labels.coords), thawed(self.labels.dims)
        groups = {"posterior": dict_to_dataset({k: draws[k][None] for k in names}, coords=coords, dims=dims)}
        if self.labels.constant_data:
            constant = dict(self.labels.constant_data)
            groups["constant_data"] = dict_to_dataset(constant, coords=coords, dims=dims, sample_dims=[])
        container = getattr(backend, "InferenceData", None)
        return xr.DataTree.from_dict(groups) if container is None else container(**groups)
