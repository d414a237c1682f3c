"""Pointwise log likelihoods and simulated data, from the generated quantities of a Stan program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sahmc._support.validate import require
from sahmc.models.predictor import Predictor, PriorDraws, Variables

LOG_LIK, REPLICATED = "log_lik", "_rep"
"""The name of the log likelihoods, and the suffix of names of simulated data, as is usual in Stan."""


@dataclass(frozen=True)
class StanPredictor(Predictor):
    """The generated quantities of a Stan program with a conventional name: ``log_lik`` and ``y_rep``."""

    def log_likelihood(self, draws: Variables) -> dict[str, np.ndarray]:
        """Return ``log_lik``, named after the data if there is only one, and ``log_lik_y``, named y."""
        names = {name: name.removeprefix(f"{LOG_LIK}_") for name in draws if name.startswith(f"{LOG_LIK}_")}
        data = list(replicated(draws))
        if LOG_LIK in draws:
            names[LOG_LIK] = data[0] if len(data) == 1 else LOG_LIK
        require(
            names,
            "log_likelihood=True needs a generated quantity log_lik",
            ", ".join(draws),
            "write: generated quantities { vector[N] log_lik; ... }",
        )
        return {own: np.asarray(draws[name]) for name, own in names.items()}

    def posterior_predictive(self, draws: Variables, seed: int) -> dict[str, np.ndarray]:
        """Return generated quantities such as ``y_rep``, named y; the random seed is that of ``from_stan`` instead."""
        names = replicated(draws)
        require(
            names,
            "posterior_predictive=True needs a generated quantity whose name ends in _rep",
            ", ".join(draws),
            "write: generated quantities { array[N] real y_rep = normal_rng(...); }",
        )
        return {own: np.asarray(draws[name]) for own, name in names.items()}

    def prior(self, size: int, seed: int) -> PriorDraws:
        """Raise ``ValueError``: Stan does not separate prior and likelihood."""
        raise ValueError(
            "prior=True needs a model that tells prior from likelihood; got a Stan program. To fix it, sample the same "
            "program without its likelihood, and take the posterior of that for the prior."
        )


def replicated(names: Iterable[str]) -> dict[str, str]:
    """Return the names of simulated data, such as y_rep, by those of the data, such as y."""
    return {name.removesuffix(REPLICATED): name for name in names if name.endswith(REPLICATED)}
