"""Mass matrices: K(y) = y' M^-1 y / 2, up to a constant.

A constant metric holds M^-1, an estimate of the covariance of the position.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from sahmc._support.platform import placed
from sahmc._support.pytree import converted, strategy, updated
from sahmc._support.types import Vector
from sahmc._support.validate import Given, as_numbers, require, require_known
from sahmc.hamiltonian.spread import Spread

RANK = 8
"""The maximum number of directions in an estimated low-rank metric."""


class Kinetic(ABC):
    """The kinetic energy at one position."""

    @abstractmethod
    def momentum(self, noise: Vector) -> Vector:
        """Return y ~ N(0, M), made from noise ~ N(0, I)."""

    @abstractmethod
    def velocity(self, momentum: Vector) -> Vector:
        """Return M^-1 y."""

    def kinetic_energy(self, momentum: Vector) -> Float[Array, ""]:
        """Return K(y) = y' M^-1 y / 2."""
        return 0.5 * jnp.sum(momentum * self.velocity(momentum))


class Metric(ABC):
    """The metric of a kernel: a kinetic energy for every position."""

    name: ClassVar[str]
    """The name you pass to select it."""

    @abstractmethod
    def at(self, target: Any, position: Vector) -> Kinetic:
        """Return the kinetic energy at a position."""

    def at_level(self, level: Int[Array, ""]) -> Metric:
        """Return the metric at a level of the ladder: this metric, unless each level has its own."""
        return self

    def check_dim(self, dim: int) -> None:  # noqa: B027
        """Raise ``ValueError`` unless this metric fits positions of this dimension."""


class ConstantMetric(Metric, Kinetic):
    """A metric that is the same everywhere."""

    @classmethod
    @abstractmethod
    def fit(cls, spread: Spread) -> ConstantMetric:
        """Return the metric estimated from a spread of draws."""

    def at(self, target: Any, position: Vector) -> Kinetic:
        """Return the metric itself, whatever the position."""
        return self


@strategy
class UnitMetric(ConstantMetric):
    """The unit metric, M = I."""

    name: ClassVar[str] = "unit"

    @classmethod
    def fit(cls, spread: Spread) -> UnitMetric:
        """Return the unit metric, whatever the spread."""
        return cls()

    def momentum(self, noise: Vector) -> Vector:
        """Return y = z, the noise itself."""
        return noise

    def velocity(self, momentum: Vector) -> Vector:
        """Return M^-1 y = y."""
        return momentum


def _variances(inverse_mass: object) -> Vector:
    must = "a diagonal metric needs a vector of positive variances"
    todo = "pass the variances of the position, or metric='diagonal' to have them estimated"
    values = as_numbers(inverse_mass, must, todo)
    require(values.ndim == 1 and np.all(np.isfinite(values)) and np.all(values > 0), must, values.tolist(), todo)
    held = jnp.finfo(jnp.result_type(float))
    return placed(np.clip(values, float(held.tiny), float(held.max)))


@strategy
class DiagonalMetric(ConstantMetric):
    """The diagonal metric, M^-1 = diag(inverse_mass)."""

    inverse_mass: Given = converted(_variances)
    """The variances of the position, held as one array."""
    name: ClassVar[str] = "diagonal"

    @classmethod
    def fit(cls, spread: Spread) -> DiagonalMetric:
        """Return the metric with the variances of the draws."""
        return cls(spread.variance())

    def check_dim(self, dim: int) -> None:
        """Raise ``ValueError`` unless there is a variance for each of ``dim`` coordinates."""
        _check_dim(self.inverse_mass, dim)

    def momentum(self, noise: Vector) -> Vector:
        """Return y_i = z_i / sqrt(v_i), where v_i are the variances."""
        return noise / jnp.sqrt(jnp.asarray(self.inverse_mass, noise.dtype))

    def velocity(self, momentum: Vector) -> Vector:
        """Return v_i y_i."""
        return jnp.asarray(self.inverse_mass, momentum.dtype) * momentum


@strategy
class LadderMetric(Metric):
    """A separate diagonal metric for every level of a ladder, made by the warm-up."""

    inverse_mass: Float[Array, "levels dim"]
    """The variances of the position at each level."""
    name: ClassVar[str] = "diagonal, by level"

    def at_level(self, level: Int[Array, ""]) -> DiagonalMetric:
        """Return the metric of a level."""
        return updated(DiagonalMetric([1.0]), inverse_mass=self.inverse_mass[level])

    def at(self, target: Any, position: Vector) -> Kinetic:
        """Raise ``TypeError``, because without a level there is no metric."""
        raise TypeError("a metric by level is asked for that of a level first")


def _covariance(inverse_mass: object) -> Float[Array, "dim dim"]:
    must = "a dense metric needs a symmetric positive definite matrix"
    todo = "pass a covariance of the position, a little added to its diagonal, or metric='dense' to have it estimated"
    values = as_numbers(inverse_mass, must, todo)
    square = values.ndim == 2 and values.shape[0] == values.shape[1] and bool(np.all(np.isfinite(values)))
    smallest = _least_correlation(values) if square and np.allclose(values, values.T) else -np.inf
    require(
        smallest > 0,
        must,
        values.tolist() if values.size <= 16 else f"shape {values.shape}, smallest eigenvalue {smallest:.3g}",
        todo,
    )
    return jnp.asarray(values)


def _least_correlation(covariance: np.ndarray) -> float:
    """Return the smallest eigenvalue of the correlation matrix of a covariance matrix.

    The eigenvalue of the covariance itself would be lost to rounding if units differ by ten orders of magnitude.
    """
    variance = np.diag(covariance)
    if not (variance > 0).all():
        return float(variance.min(initial=-np.inf))
    width = np.sqrt(variance)
    return float(np.linalg.eigvalsh(covariance / width / width[:, None]).min(initial=np.inf))


@strategy
class DenseMetric(ConstantMetric):
    """The dense metric, M^-1 = inverse_mass, any symmetric positive definite matrix."""

    inverse_mass: Given = converted(_covariance)
    """The covariance of the position, held as one array."""
    name: ClassVar[str] = "dense"

    @classmethod
    def fit(cls, spread: Spread) -> DenseMetric:
        """Return the metric with the covariance of the draws."""
        return cls(spread.covariance())

    def check_dim(self, dim: int) -> None:
        """Raise ``ValueError`` unless the matrix has ``dim`` rows."""
        _check_dim(self.inverse_mass, dim)

    def momentum(self, noise: Vector) -> Vector:
        """Return y = L'^-1 z with M^-1 = L L', so that y has covariance (L L')^-1 = M."""
        lower = jnp.linalg.cholesky(jnp.asarray(self.inverse_mass, noise.dtype))
        return jax.scipy.linalg.solve_triangular(lower, noise, lower=True, trans="T")

    def velocity(self, momentum: Vector) -> Vector:
        """Return M^-1 y."""
        return jnp.matmul(jnp.asarray(self.inverse_mass, momentum.dtype), momentum, precision="highest")


def _floats(values: object) -> Float[Array, "*any"]:
    must = "a low-rank metric needs positive scales (dim,) and values (rank,), and vectors (dim, rank)"
    return jnp.asarray(as_numbers(values, must, "pass these three, or metric='low_rank' to have them estimated"))


@strategy
class LowRankMetric(ConstantMetric):
    """The metric M^-1 = S (I + V (diag(values) - I) V') S, with S = diag(scale) and a few orthonormal columns V.

    It holds the variances of the coordinates and of a few other directions. It costs d times the number of those
    directions, where a dense metric costs d squared. Columns of zeros with the value 1 have no effect.
    """

    scale: Given = converted(_floats)
    """The standard deviations of the coordinates apart from those directions, (dim,)."""
    vectors: Given = converted(_floats)
    """The directions, as columns of V, (dim, rank)."""
    values: Given = converted(_floats)
    """The variances along them in units of ``scale``, (rank,)."""
    name: ClassVar[str] = "low_rank"

    def __post_init__(self) -> None:
        scale, vectors, values = (np.asarray(part, float) for part in (self.scale, self.vectors, self.values))
        shapes = scale.shape, vectors.shape, values.shape
        fit = scale.ndim == 1 and values.ndim == 1 and vectors.shape == scale.shape + values.shape
        positive = fit and all(np.isfinite(part).all() and (part > 0).all() for part in (scale, values))
        require(
            positive,
            "a low-rank metric needs positive scales (dim,) and values (rank,), and vectors (dim, rank)",
            f"shapes {shapes}" if not fit else "a scale or value that is not positive",
            "pass these three, or metric='low_rank' to have them estimated",
        )
        gram = vectors.T @ vectors
        require(
            np.allclose(gram, np.diag(np.diag(gram)), atol=1e-5)
            and np.all(np.isclose(np.diag(gram), 1, atol=1e-5) | (np.isclose(np.diag(gram), 0) & (values == 1))),
            "the vectors of a low-rank metric must be orthonormal, or zero with the value 1",
            f"products {np.round(gram, 3).tolist() if gram.size <= 16 else 'of other vectors'}",
            "take those of a singular value decomposition",
        )

    @classmethod
    def fit(cls, spread: Spread) -> LowRankMetric:
        """Return the metric with the variances of the draws and of the directions that stand out."""
        vectors, values, rest = spread.directions(min(RANK, spread.rows.shape[1]))
        return cls(np.sqrt(spread.variance() * rest), vectors, values / rest)

    def check_dim(self, dim: int) -> None:
        """Raise ``ValueError`` unless there is a scale for each of ``dim`` coordinates."""
        _check_dim(self.scale, dim)

    def _stretched(self, vector: Vector, by: Float[Array, " rank"]) -> Vector:
        """Return (I + V (diag(by) - I) V') vector."""
        columns = jnp.asarray(self.vectors, vector.dtype)
        along = jnp.asarray(by - 1.0, vector.dtype) * jnp.matmul(columns.T, vector, precision="highest")
        return vector + jnp.matmul(columns, along, precision="highest")

    def momentum(self, noise: Vector) -> Vector:
        """Return y = S^-1 (I + V (diag(values^-1/2) - I) V') z."""
        return self._stretched(noise, self.values**-0.5) / jnp.asarray(self.scale, noise.dtype)

    def velocity(self, momentum: Vector) -> Vector:
        """Return M^-1 y = S (I + V (diag(values) - I) V') S y."""
        scale = jnp.asarray(self.scale, momentum.dtype)
        return scale * self._stretched(scale * momentum, self.values)


def _check_dim(inverse_mass: Float[Array, "*any"], dim: int) -> None:
    shape = np.shape(inverse_mass)
    require(
        shape[0] == dim,
        f"the metric must fit a position of dimension {dim}",
        f"an inverse mass of shape {shape}",
        f"pass one of size {dim}, or name the metric to have it estimated",
    )


AUTO = "auto"
"""The name for a diagonal metric that becomes dense where coordinates are strongly correlated."""
METRICS: dict[str, type[ConstantMetric]] = {
    AUTO: DiagonalMetric,
    **{m.name: m for m in (UnitMetric, DiagonalMetric, DenseMetric, LowRankMetric)},
}
"""All constant metrics by name."""


def constant_metric(metric: Given) -> ConstantMetric | str:
    """Return the metric, or its name if it has yet to be estimated; raise ``ValueError`` for anything else."""
    if isinstance(metric, ConstantMetric):
        return metric
    require_known(metric, METRICS, "metric")
    return UnitMetric() if metric == UnitMetric.name else metric
