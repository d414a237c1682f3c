"""The predictive functions of a model: the likelihood of each observation, and simulated data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sized
from typing import NamedTuple

import numpy as np

from sahmc._support.validate import require

Variables = Mapping[str, np.ndarray]
"""The variables by name; the first axis of each array is that of draws."""


class PriorDraws(NamedTuple):
    """Draws from the prior, and data simulated from each."""

    values: Variables
    """The variables of the model, by their names in the posterior."""
    predictive: Variables
    """The data, by name."""


class Predictor(ABC):
    """The functions for model checking and comparison; ``draws`` are of equal weight."""

    @abstractmethod
    def log_likelihood(self, draws: Variables) -> dict[str, np.ndarray]:
        """Return the log likelihood of every observation under each draw, arrays (draw, ...) by name."""

    @abstractmethod
    def posterior_predictive(self, draws: Variables, seed: int) -> dict[str, np.ndarray]:
        """Return data simulated by the model under each draw, arrays (draw, ...) by name."""

    @abstractmethod
    def prior(self, size: int, seed: int) -> PriorDraws:
        """Return ``size`` draws from the prior, and data simulated from each."""


def require_observed(names: Sized) -> None:
    """Raise ``ValueError`` unless a model has observed variables; ``names`` lists them."""
    must = "log_likelihood and posterior_predictive need observed variables"
    require(names, must, "a model that has none, or only factors and potentials", "observe the data by name")
