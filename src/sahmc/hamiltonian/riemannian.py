"""Position-dependent metrics: G(x) in place of M (Girolami and Calderhead 2011)."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from sahmc._support.pytree import static, strategy, updated
from sahmc._support.traced import TracedFunction, trace
from sahmc._support.types import Position, PositionFn, Unravel, Vector
from sahmc._support.validate import MOST, Given, as_array, is_number, require
from sahmc.hamiltonian.metrics import Kinetic, Metric
from sahmc.tilt.target import TiltedTarget

Matrix = Float[Array, "dim dim"]
"""A matrix with a row and a column for each coordinate of a position."""
Point = tuple[Matrix, Float[Array, ""]]
"""The arguments of ``softabs``, or their tangents."""


@strategy
class PointKinetic(Kinetic):
    """The kinetic energy K(y) = y' G^-1 y / 2 + log|G| / 2, G = L L'; the second term normalises p(y | x)."""

    lower: Matrix
    """The Cholesky factor L of G at one position."""

    @classmethod
    def of(cls, matrix: Matrix) -> PointKinetic:
        """Return the kinetic energy of G, a symmetric positive definite matrix."""
        return cls(jnp.linalg.cholesky(matrix))

    def momentum(self, noise: Vector) -> Vector:
        """Return y = L z ~ N(0, G), made from noise z ~ N(0, I)."""
        return self.lower @ noise

    def velocity(self, momentum: Vector) -> Vector:
        """Return G^-1 y."""
        return jax.scipy.linalg.cho_solve((self.lower, True), momentum)

    def kinetic_energy(self, momentum: Vector) -> Float[Array, ""]:
        """Return K(y) = y' G^-1 y / 2 + log|G| / 2."""
        half_log_det = jnp.sum(jnp.log(jnp.diagonal(self.lower)))
        return 0.5 * jnp.sum(momentum * self.velocity(momentum)) + half_log_det

    def inverse(self) -> Matrix:
        """Return G^-1."""
        return jax.scipy.linalg.cho_solve((self.lower, True), jnp.eye(len(self.lower), dtype=self.lower.dtype))

    def size(self, position: Vector, momentum: Vector) -> Float[Array, ""]:
        """Return the largest absolute entry of L' x and L^-1 y.

        For a typical change of position x and momentum y, these are of order 1.
        """
        whitened = jax.scipy.linalg.solve_triangular(self.lower, momentum, lower=True)
        return jnp.max(jnp.abs(jnp.concatenate([self.lower.T @ position, whitened])))


class PositionMetric(Metric):
    """The interface of a position-dependent metric G(x)."""

    @abstractmethod
    def matrix(self, target: TiltedTarget, position: Vector) -> Matrix:
        """Return G(x), symmetric and positive definite."""

    def at(self, target: TiltedTarget, position: Vector) -> PointKinetic:
        """Return the kinetic energy of G(x)."""
        return PointKinetic.of(self.matrix(target, position))

    def bound(self, unravel: Unravel, example: Vector) -> PositionMetric:
        """Return this metric for flat positions like ``example``.

        ``unravel`` restores the structure that the user's function expects.
        """
        return self


@strategy
class SoftAbs(PositionMetric):
    """The Hessian of U with its eigenvalues l made positive: l coth(alpha l) (Betancourt 2013).

    This is about the absolute value of l for large l and 1/alpha for small l. It requires third derivatives.
    """

    alpha: float | int | Array = 1.0
    """The inverse of the smallest eigenvalue that matters."""
    name: ClassVar[str] = "softabs"

    def __post_init__(self) -> None:
        ok = is_number(self.alpha) and 0 < self.alpha < MOST
        require(ok, "alpha must be a positive number", self.alpha, "pass 1 / the least eigenvalue that matters")

    def matrix(self, target: TiltedTarget, position: Vector) -> Matrix:
        """Return G(x) = Q diag(l coth(alpha l)) Q', where Q diag(l) Q' is the Hessian of U."""
        hessian = jax.jacfwd(lambda x: target.evaluate(x).total_grad)(position)
        return softabs(0.5 * (hessian + hessian.T), jnp.asarray(self.alpha, position.dtype))


@strategy
class MetricFunction(PositionMetric):
    """A metric G(x) given by the user."""

    function: Given = static()
    """The user's function of a position; None once it is traced."""
    traced: TracedFunction | None = None
    """The same function, traced for flat positions."""
    name: ClassVar[str] = "function"

    def matrix(self, target: TiltedTarget, position: Vector) -> Matrix:
        """Return G(x), the user's function of the position."""
        return (self.function if self.traced is None else self.traced)(position)

    def bound(self, unravel: Unravel, example: Vector) -> MetricFunction:
        """Return this metric with its function traced; raise ``ValueError`` if G at ``example`` is invalid."""
        dim = example.shape[0]
        assert self.function is not None
        given = self.function(unravel(example))
        must = f"a metric must be a symmetric positive definite matrix of shape ({dim}, {dim}) at the start"
        require(hasattr(given, "shape"), must, type(given).__name__, "return an array, made with jax.numpy")
        traced = trace(lambda flat: jnp.asarray(self.function(unravel(flat)), flat.dtype), example)
        value = np.asarray(traced(example), float)
        square = value.shape == (dim, dim) and bool(np.isfinite(value).all()) and np.allclose(value, value.T, rtol=1e-3)
        smallest = np.linalg.eigvalsh(value).min() if square else np.nan
        require(
            smallest > 0,
            must,
            f"shape {value.shape}, smallest eigenvalue {smallest:.3g}",
            "return the expected Hessian of -log density, a little added to its diagonal, or use metric='softabs'",
        )
        return updated(self, function=None, traced=traced)  # the trace replaces the user's function


def fisher_metric(residuals: PositionFn, precision: Given = 0.0) -> MetricFunction:
    """Return the metric G(x) = J'J + P, the expected Fisher information plus the precision of the prior.

    ``residuals`` is a function r(x) that returns the standardised residuals of the data; J is its Jacobian.
    ``precision`` is P: a number, a vector or a matrix.

    J'J is exact for Gaussian data, with r = (data - prediction) / sd. For other data use a variance-stabilising
    transform of the prediction: 2 arcsin(sqrt(p)) for a Bernoulli probability p, 2 sqrt(rate) for a Poisson rate.
    """
    require(callable(residuals), "residuals must be a function of a position", residuals, "pass one")
    must, todo = "precision must be a number, a vector or a matrix", "pass 1 / the variance of the prior"
    added = as_array(precision, must, todo)
    require(added.ndim <= 2, must, f"shape {added.shape}", todo)

    def metric_fn(position: Position) -> Matrix:
        flat, unravel = ravel_pytree(position)
        jacobian = jax.jacfwd(lambda x: jnp.ravel(residuals(unravel(x))))(flat)
        prior = added if added.ndim == 2 else added * jnp.eye(flat.size)
        return jacobian.T @ jacobian + prior.astype(flat.dtype)

    return MetricFunction(metric_fn)


def position_metric(metric: Given) -> PositionMetric:
    """Return the metric given as an object, a function of the position or "softabs"; raise for anything else."""
    if callable(metric):
        return MetricFunction(metric)
    metric = SoftAbs() if isinstance(metric, str) and metric == SoftAbs.name else metric
    require(
        isinstance(metric, PositionMetric),
        "metric must be a function of the position, 'softabs' or a metric object",
        metric,
        "pass a function that returns G(x), or use HMC for a metric that is the same everywhere",
    )
    return metric


@jax.custom_jvp
def softabs(matrix: Matrix, alpha: Float[Array, ""]) -> Matrix:
    """Return Q diag(l coth(alpha l)) Q' for a symmetric matrix Q diag(l) Q'."""
    return _softabs(matrix, alpha)[0]


@softabs.defjvp
def _softabs_jvp(
    primals: tuple[Matrix, Float[Array, ""]], tangents: tuple[Matrix, Float[Array, ""]]
) -> tuple[Matrix, Matrix]:
    """Return the value and its derivative Q (D o Q' dA Q) Q', where D holds divided differences of l coth(alpha l).

    Unlike the derivatives of the eigenvectors, this is finite where eigenvalues coincide.
    """
    matrix, alpha = primals
    value, (eigenvalues, vectors, mapped) = _softabs(matrix, alpha)
    gap = eigenvalues[:, None] - eigenvalues
    close = jnp.abs(gap) <= 1e-3 * (1.0 / alpha + jnp.abs(eigenvalues[:, None]) + jnp.abs(eigenvalues))
    slope = _slope(alpha * eigenvalues)
    ratio = (mapped[:, None] - mapped) / jnp.where(close, 1.0, gap)
    divided = jnp.where(close, 0.5 * (slope[:, None] + slope), ratio)
    return value, vectors @ (divided * (vectors.T @ tangents[0] @ vectors)) @ vectors.T


def _softabs(matrix: Matrix, alpha: Float[Array, ""]) -> tuple[Matrix, tuple[Vector, Matrix, Vector]]:
    """Return Q diag(l coth(alpha l)) Q', and the eigenvalues l, the vectors Q and l coth(alpha l)."""
    eigenvalues, vectors = jnp.linalg.eigh(matrix)
    x = alpha * eigenvalues
    small = jnp.abs(x) < 1e-2
    safe = jnp.where(small, 1.0, x)
    mapped = jnp.where(small, 1.0 + x * x / 3.0, safe / jnp.tanh(safe)) / alpha
    return (vectors * mapped) @ vectors.T, (eigenvalues, vectors, mapped)


def _slope(x: Vector) -> Vector:
    """Return d/dx (x coth x) = coth x - x / sinh^2 x."""
    small = jnp.abs(x) < 1e-2
    safe = jnp.where(small, 1.0, jnp.clip(x, -40.0, 40.0))
    return jnp.where(small, 2.0 * x / 3.0, 1.0 / jnp.tanh(safe) - safe / jnp.sinh(safe) ** 2)
