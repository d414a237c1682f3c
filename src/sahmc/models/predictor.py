"""What a model tells besides its density: how likely each observation is, and data that it makes by itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sahmc._support.validate import require

Variables = Mapping[str, Any]
"""Variables by name; the first axis of each array is that of draws."""


class PriorDraws(NamedTuple):
    """Draws of the prior, and the data that the model makes of each."""

    values: Variables
    """The variables of the model, by the names that they have in the posterior."""
    predictive: Variables
    """The data, by name."""


class Predictor(ABC):
    """The functions of a model by which it is checked and compared with others; ``draws`` are of equal weight."""

    @abstractmethod
    def log_likelihood(self, draws: Variables) -> dict[str, np.ndarray]:
        """Return the log likelihood of every observation under each draw, arrays (draw, ...) by name."""

    @abstractmethod
    def posterior_predictive(self, draws: Variables, seed: int) -> dict[str, np.ndarray]:
        """Return data that the model makes under each draw, arrays (draw, ...) by name."""

    @abstractmethod
    def prior(self, size: int, seed: int) -> PriorDraws:
        """Return ``size`` draws of the prior, and the data that the model makes of each."""


def require_observed(names: Any) -> None:
    """Raise ``ValueError`` unless a model has observed variables, which ``names`` are."""
    must = "log_likelihood and posterior_predictive need observed variables"
    require(names, must, "a model that has none, or only factors and potentials", "observe the data by name")
