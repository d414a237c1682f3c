"""Mass matrices: K(y) = y' M^-1 y / 2, up to a constant.

A metric holds M^-1, which is an estimate of the covariance of the position.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sahmc.pytree import strategy
from sahmc.validate import require

Vector = Float[Array, " dim"]


class Metric(ABC):
    """The interface of a metric."""

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def from_covariance(cls, covariance: np.ndarray) -> Metric:
        """The metric for draws of this covariance: a vector of variances or, for ``dense``, a matrix."""

    def check_dim(self, dim: int) -> None:  # noqa: B027
        """Raise unless this metric fits positions of this dimension."""

    @abstractmethod
    def momentum(self, noise: Vector) -> Vector:
        """y ~ N(0, M), made of noise ~ N(0, I)."""

    @abstractmethod
    def velocity(self, momentum: Vector) -> Vector:
        """M^-1 y."""

    def kinetic_energy(self, momentum: Vector) -> Float[Array, ""]:
        return 0.5 * jnp.sum(momentum * self.velocity(momentum))


@strategy
class UnitMetric(Metric):
    """M = I."""

    name: ClassVar[str] = "unit"

    @classmethod
    def from_covariance(cls, covariance: np.ndarray) -> UnitMetric:
        return cls()

    def momentum(self, noise: Vector) -> Vector:
        return noise

    def velocity(self, momentum: Vector) -> Vector:
        return momentum


@strategy
class DiagonalMetric(Metric):
    """M^-1 = diag(inverse_mass)."""

    inverse_mass: Any
    name: ClassVar[str] = "diagonal"

    def __post_init__(self) -> None:
        values = np.asarray(self.inverse_mass, dtype=float)
        require(
            values.ndim == 1 and np.all(np.isfinite(values)) and np.all(values > 0),
            "a diagonal metric needs a vector of positive variances",
            values.tolist(),
            "pass the variances of the position, or metric='diagonal' to have them estimated",
        )
        object.__setattr__(self, "inverse_mass", jnp.asarray(values))

    @classmethod
    def from_covariance(cls, covariance: np.ndarray) -> DiagonalMetric:
        return cls(covariance if covariance.ndim == 1 else np.diag(covariance))

    def check_dim(self, dim: int) -> None:
        _check_dim(self.inverse_mass, dim)

    def momentum(self, noise: Vector) -> Vector:
        return noise / jnp.sqrt(jnp.asarray(self.inverse_mass, noise.dtype))

    def velocity(self, momentum: Vector) -> Vector:
        return jnp.asarray(self.inverse_mass, momentum.dtype) * momentum


@strategy
class DenseMetric(Metric):
    """M^-1 = inverse_mass, any symmetric positive definite matrix."""

    inverse_mass: Any
    name: ClassVar[str] = "dense"

    def __post_init__(self) -> None:
        values = np.asarray(self.inverse_mass, dtype=float)
        square = values.ndim == 2 and values.shape[0] == values.shape[1] and bool(np.all(np.isfinite(values)))
        smallest = np.linalg.eigvalsh(values).min() if square and np.allclose(values, values.T) else -np.inf
        require(
            smallest > 0,
            "a dense metric needs a symmetric positive definite matrix",
            values.tolist() if values.size <= 16 else f"shape {values.shape}, smallest eigenvalue {smallest:.3g}",
            "pass a covariance of the position, a little added to its diagonal, or metric='dense' to have it estimated",
        )
        object.__setattr__(self, "inverse_mass", jnp.asarray(values))

    @classmethod
    def from_covariance(cls, covariance: np.ndarray) -> DenseMetric:
        return cls(covariance)

    def check_dim(self, dim: int) -> None:
        _check_dim(self.inverse_mass, dim)

    def momentum(self, noise: Vector) -> Vector:
        """y = L'^-1 z with M^-1 = L L', so that y has covariance (L L')^-1 = M."""
        lower = jnp.linalg.cholesky(jnp.asarray(self.inverse_mass, noise.dtype))
        return jax.scipy.linalg.solve_triangular(lower, noise, lower=True, trans="T")

    def velocity(self, momentum: Vector) -> Vector:
        return jnp.asarray(self.inverse_mass, momentum.dtype) @ momentum


def _check_dim(inverse_mass: Any, dim: int) -> None:
    shape = np.shape(inverse_mass)
    require(
        shape[0] == dim,
        f"the metric must fit a position of dimension {dim}",
        f"an inverse mass of shape {shape}",
        f"pass one of size {dim}, or name the metric to have it estimated",
    )


METRICS: dict[str, type[Metric]] = {m.name: m for m in (UnitMetric, DiagonalMetric, DenseMetric)}
