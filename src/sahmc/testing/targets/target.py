"""The class of targets with known answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from sahmc._support.types import Position, PositionFn
from sahmc._support.validate import require
from sahmc.models.model import Model
from sahmc.tilt.importance import Expectation


@runtime_checkable
class HasExpectation(Protocol):
    """The part of a result that this module needs: posterior means."""

    def expectation(self, fn: PositionFn | None = None) -> Expectation:
        """Return the posterior mean of ``fn`` of a position and its standard error."""


def _one_mode(position: Position) -> jax.Array:
    """Return 0, the number of the only mode."""
    return jnp.zeros((), int)


@dataclass(frozen=True)
class Target:
    """A log density, a start in one of its modes, and the correct answers.

    ``mean`` and ``variance`` are those of each coordinate, None if unknown. ``mode`` maps a position to the index of
    its mode; ``masses`` are the posterior probabilities of the modes. ``error`` is the standard error of these answers
    if they come from a long run. ``model`` is the same density with separate prior and likelihood. ``log_normaliser``
    is the log integral of the density, None if unknown.
    """

    name: str
    log_density: PositionFn
    """The log density at one position, up to a constant."""
    start: np.ndarray
    mean: np.ndarray | None
    variance: np.ndarray | None
    mode: PositionFn = _one_mode
    masses: np.ndarray = field(default_factory=lambda: np.ones(1))
    error: float = 0.0
    model: Model | None = None
    log_normaliser: float | None = None

    def indicators(self, position: Position) -> jax.Array:
        """Return 1 for the mode of a position and 0 for the others; the expectation is ``masses``."""
        return jax.nn.one_hot(self.mode(position), len(self.masses))

    def answers(self, position: Position) -> jax.Array:
        """Return the functions with known expectations, ``truth``, at a position.

        These are the coordinates, if their means are known, and the indicators, if there are several modes.
        """
        if self.mean is None:
            return self.indicators(position)
        return position if len(self.masses) == 1 else jnp.concatenate([position, self.indicators(position)])

    @property
    def truth(self) -> np.ndarray:
        """The expectation of ``answers``."""
        if self.mean is None:
            return self.masses
        return self.mean if len(self.masses) == 1 else np.concatenate([self.mean, self.masses])

    def worst_z(self, result: HasExpectation | Expectation) -> float:
        """Return the largest error of a run, in units of the combined standard error of run and truth.

        ``result`` may also be the expectation of ``answers``.
        """
        must, todo = "result must be the result of a run, or an expectation", "pass what sahmc.sample returned"
        require(isinstance(result, (Expectation, HasExpectation)), must, result, todo)
        found = result if isinstance(result, Expectation) else result.expectation(self.answers)
        error = np.hypot(found.mcse, self.error)
        off = np.abs(found.mean - self.truth)
        return float(np.max(np.where(off > 1e-6, off / np.maximum(error, 1e-12), 0.0)))


def nearest(centres: ArrayLike) -> PositionFn:
    """Return the function that maps a position to the index of the nearest of ``centres`` (centre, dim)."""
    points = jnp.asarray(centres)
    return lambda x: jnp.argmin(jnp.sum((x - points) ** 2, axis=-1))
