"""A posterior whose prior and likelihood are known apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Model:
    """log posterior = log_prior(position) + log_likelihood(position) + constant.

    The tilt then acts on the likelihood and the prior is the base measure, so that the hottest level can be the prior
    itself and ``Result.log_evidence`` is known. ``log_prior`` need not be normalised.

    ``sample_prior``, a function of a key, draws a position from the prior; chains start there if no ``initvals``
    are given.
    """

    log_likelihood: Callable[[Any], Any]
    log_prior: Callable[[Any], Any]
    sample_prior: Callable[[Any], Any] | None = None
