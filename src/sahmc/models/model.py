"""A posterior: its log density, where chains start, and what its variables are called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sahmc._support.frozen import Frozen
from sahmc._support.validate import require, require_function


@dataclass(frozen=True)
class Labels(Frozen):
    """What ArviZ is told of the variables: named dimensions, and the data the posterior is of."""

    coords: Mapping[str, Any] = field(default_factory=dict)
    """The coordinates along each dimension, by its name."""
    dims: Mapping[str, Any] = field(default_factory=dict)
    """The names of the dimensions of each variable, by its name."""
    observed_data: Mapping[str, Any] = field(default_factory=dict)
    constant_data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """A posterior, by its log density on unconstrained positions, any pytree of float arrays.

    Either ``log_density``, or ``log_likelihood`` and ``log_prior`` apart, which sum to it up to a constant. With these
    the tilt acts on the likelihood and the prior is the base measure, so that the hottest level can be the prior
    itself and ``Result.log_evidence`` is known. ``log_prior`` need not be normalised.

    ``start``
        draws a position where a chain may begin, from a key: of the prior, say. Then ``initvals`` are not needed.
    ``constrain``, ``unconstrain``
        a position as a dict of named variables, which draws then are; and such variables as a position, for
        ``initvals``. The log density includes the Jacobian.
    ``labels``
        coords and dims of the variables, and data, for ArviZ.

    ``from_numpyro``, ``from_pymc`` and ``from_stan`` make one of a model written elsewhere.
    """

    log_likelihood: Callable[[Any], Any] | None = None
    log_prior: Callable[[Any], Any] | None = None
    start: Callable[[Any], Any] | None = None
    log_density: Callable[[Any], Any] | None = None
    constrain: Callable[[Any], Any] | None = None
    unconstrain: Callable[[Any], Any] | None = None
    labels: Labels = field(default_factory=Labels)

    def __post_init__(self) -> None:
        apart = self.log_likelihood is not None and self.log_prior is not None
        whole = self.log_likelihood is None and self.log_prior is None and self.log_density is not None
        given = [n for n in ("log_density", "log_likelihood", "log_prior") if getattr(self, n) is not None]
        require(
            whole or (apart and self.log_density is None),
            "a Model needs log_density, or both log_likelihood and log_prior",
            ", ".join(given) or "neither",
            "write Model(log_likelihood=..., log_prior=...) or Model(log_density=...)",
        )
        for name in (*given, "start", "constrain", "unconstrain"):
            require_function(getattr(self, name), name, "a key" if name == "start" else "a position")

    @property
    def has_prior(self) -> bool:
        """Whether prior and likelihood are known apart."""
        return self.log_prior is not None
