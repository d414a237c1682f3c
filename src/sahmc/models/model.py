"""A posterior: its log density, the starts of its chains, and the names of its variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from sahmc._support.frozen import Frozen
from sahmc._support.types import Position, PositionFn
from sahmc._support.validate import require, require_flag, require_function
from sahmc.models.predictor import Predictor

NO_DATA = "the model has no observed data and no factor or potential, so draws are of its prior alone"
"""The warning about a model without data."""


@dataclass(frozen=True)
class Labels(Frozen):
    """Labels of the variables, for tables and ArviZ: named dimensions, and the observed data."""

    coords: Mapping[str, Any] = field(default_factory=dict)
    """The coordinates along each dimension, by name of the dimension."""
    dims: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The names of the dimensions of each variable, by name of the variable."""
    observed_data: Mapping[str, Any] = field(default_factory=dict)
    """The observed values, by name."""
    constant_data: Mapping[str, Any] = field(default_factory=dict)
    """Other data that the model uses, such as covariates, by name."""

    def __post_init__(self) -> None:
        coords = {name: np.asarray(values) for name, values in self.coords.items()}
        object.__setattr__(self, "coords", coords)
        super().__post_init__()


@dataclass(frozen=True)
class Model:
    """A posterior, given by its log density at unconstrained positions, which can be any pytree of float arrays.

    Pass either ``log_density``, or ``log_likelihood`` and ``log_prior`` separately, which sum to it up to a constant.
    If they are separate, the tilt acts on the likelihood, and the prior is the base measure. The hottest level can then
    be the prior itself, and ``Result.log_evidence`` is known.

    ``log_density``, ``log_likelihood``, ``log_prior``
        Functions of one position, written with ``jax.numpy``. ``log_prior`` need not be normalised. For
        ``sample_many``, the first two also take the data.
    ``start``
        A function from a JAX key to a random starting position, such as a draw from the prior. A model with ``start``
        needs no ``initvals``.
    ``draw_prior``
        A function from a JAX key to a draw from the prior, if ``start`` does something else. Chains with absurdly
        improbable starts start from such draws instead.
    ``constrain``, ``unconstrain``
        A function from a position to a dict of named variables, which the draws then consist of; and its inverse, from
        such variables in ``initvals`` to a position. The log density must include the Jacobian.
    ``prior_normalised``
        Whether exp(log_prior) is known to integrate to 1. If not, and the ladder does not end in the prior, its mass is
        estimated, which adds to the error of ``Result.log_evidence``.
    ``labels``
        Names of dimensions, their coordinates, and data, for ArviZ.
    ``predictor``
        An object that computes the likelihood of each observation and simulates data, for ``Result.to_datatree``. The
        functions below create it.

    ``from_numpyro``, ``from_pymc`` and ``from_stan`` convert models of those libraries into a ``Model``.
    """

    log_likelihood: Callable[..., Any] | None = None
    log_prior: PositionFn | None = None
    start: Callable[[jax.Array], Position] | None = None
    log_density: Callable[..., Any] | None = None
    constrain: PositionFn | None = None
    unconstrain: Callable[[Mapping[str, Any]], Position] | None = None
    labels: Labels = field(default_factory=Labels)
    prior_normalised: bool = False
    predictor: Predictor | None = None
    draw_prior: Callable[[jax.Array], Position] | None = None

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
        must = "labels must be Labels(coords=..., dims=...)"
        require(isinstance(self.labels, Labels), must, self.labels, "leave them out, or pass Labels")
        require_flag(self.prior_normalised, "prior_normalised")
        ok = self.predictor is None or isinstance(self.predictor, Predictor)
        require(ok, "predictor must be a Predictor, or None", self.predictor, "leave it out")
        for name in (*given, "start", "draw_prior", "constrain", "unconstrain"):
            of = "a key" if name in ("start", "draw_prior") else "a position"
            require_function(getattr(self, name), name, of)

    @property
    def has_prior(self) -> bool:
        """Whether prior and likelihood are given separately."""
        return self.log_prior is not None
