"""Metrics that follow the position: G(x) in place of M (Girolami and Calderhead 2011)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from sahmc._support.pytree import static, strategy, updated
from sahmc._support.traced import trace
from sahmc._support.validate import require
from sahmc.hamiltonian.metrics import Kinetic, Metric
from sahmc.tilt.target import TiltedTarget

Vector = Float[Array, " dim"]
Matrix = Float[Array, "dim dim"]


@strategy
class PointKinetic(Kinetic):
    """K(y) = y' G^-1 y / 2 + log|G| / 2 where G = L L'. The second term belongs to the density of y given x."""

    lower: Any

    @classmethod
    def of(cls, matrix: Matrix) -> PointKinetic:
        return cls(jnp.linalg.cholesky(matrix))

    def momentum(self, noise: Vector) -> Vector:
        return self.lower @ noise

    def velocity(self, momentum: Vector) -> Vector:
        return jax.scipy.linalg.cho_solve((self.lower, True), momentum)

    def kinetic_energy(self, momentum: Vector) -> Float[Array, ""]:
        half_log_det = jnp.sum(jnp.log(jnp.diagonal(self.lower)))
        return 0.5 * jnp.sum(momentum * self.velocity(momentum)) + half_log_det

    def inverse(self) -> Matrix:
        return jax.scipy.linalg.cho_solve((self.lower, True), jnp.eye(len(self.lower), dtype=self.lower.dtype))

    def size(self, position: Vector, momentum: Vector) -> Float[Array, ""]:
        """Largest entry of L' x and L^-1 y, which are of the order of 1 for a change of position and a momentum."""
        whitened = jax.scipy.linalg.solve_triangular(self.lower, momentum, lower=True)
        return jnp.max(jnp.abs(jnp.concatenate([self.lower.T @ position, whitened])))


class PositionMetric(Metric):
    """The interface."""

    @abstractmethod
    def matrix(self, target: TiltedTarget, position: Vector) -> Matrix:
        """G(x), symmetric and positive definite."""

    def at(self, target: TiltedTarget, position: Vector) -> PointKinetic:
        return PointKinetic.of(self.matrix(target, position))

    def bound(self, unravel: Callable[[Any], Any], example: Vector) -> PositionMetric:
        """This metric for flat positions like ``example``, the user's function called with the user's structure."""
        return self


@strategy
class SoftAbs(PositionMetric):
    """The Hessian of U with its eigenvalues l made positive: l coth(alpha l) (Betancourt 2013).

    That is the absolute value where that is large and 1/alpha where it is small. Costs third derivatives.
    """

    alpha: Any = 1.0
    name: ClassVar[str] = "softabs"

    def __post_init__(self) -> None:
        ok = np.ndim(self.alpha) == 0 and 0 < self.alpha < np.inf
        require(ok, "alpha must be a positive number", self.alpha, "pass 1 / the least eigenvalue that matters")

    def matrix(self, target: TiltedTarget, position: Vector) -> Matrix:
        hessian = jax.jacfwd(lambda x: target.evaluate(x).total_grad)(position)
        return softabs(0.5 * (hessian + hessian.T), jnp.asarray(self.alpha, position.dtype))


@strategy
class MetricFunction(PositionMetric):
    """G(x) as the user gives it."""

    function: Any = static()
    traced: Any = None
    name: ClassVar[str] = "function"

    def matrix(self, target: TiltedTarget, position: Vector) -> Matrix:
        return (self.function if self.traced is None else self.traced)(position)

    def bound(self, unravel: Callable[[Any], Any], example: Vector) -> MetricFunction:
        dim = example.shape[0]
        traced = trace(lambda flat: jnp.asarray(self.function(unravel(flat)), flat.dtype), example)
        value = np.asarray(traced(example), float)
        square = value.shape == (dim, dim) and bool(np.isfinite(value).all()) and np.allclose(value, value.T, rtol=1e-3)
        smallest = np.linalg.eigvalsh(value).min() if square else np.nan
        require(
            smallest > 0,
            f"a metric must be a symmetric positive definite matrix of shape ({dim}, {dim}) at the start",
            f"shape {value.shape}, smallest eigenvalue {smallest:.3g}",
            "return the expected Hessian of -log density, a little added to its diagonal, or use metric='softabs'",
        )
        return updated(self, function=None, traced=traced)  # all that depends on the user's function is traced


def fisher_metric(residuals: Any, precision: Any = 0.0) -> MetricFunction:
    """G(x) = J'J + P: the expected Fisher information of data whose standardised residuals r(x) have Jacobian J, and
    the prior's ``precision`` P (a number, a vector or a matrix).

    Exact for Gaussian data, r = (data - prediction) / sd. For others take a transform of the prediction that makes the
    variance 1: 2 arcsin(sqrt(p)) for a Bernoulli probability p, 2 sqrt(rate) for a Poisson rate.
    """
    require(callable(residuals), "residuals must be a function of a position", residuals, "pass one")
    added = jnp.asarray(precision)

    def metric_fn(position: Any) -> Any:
        flat, unravel = ravel_pytree(position)
        jacobian = jax.jacfwd(lambda x: jnp.ravel(residuals(unravel(x))))(flat)
        prior = added if added.ndim == 2 else added * jnp.eye(flat.size)
        return jacobian.T @ jacobian + prior.astype(flat.dtype)

    return MetricFunction(metric_fn)


def position_metric(metric: Any) -> PositionMetric:
    """Return the metric that an object, a function of the position or "softabs" stands for; raise for anything else."""
    if callable(metric):
        return MetricFunction(metric)
    metric = SoftAbs() if metric == SoftAbs.name else metric
    require(
        isinstance(metric, PositionMetric),
        "metric must be a function of the position, 'softabs' or a metric object",
        metric,
        "pass a function that returns G(x), or use HMC for a metric that is the same everywhere",
    )
    return metric


@jax.custom_jvp
def softabs(matrix: Matrix, alpha: Float[Array, ""]) -> Matrix:
    """Q diag(l coth(alpha l)) Q' for a symmetric matrix Q diag(l) Q'."""
    return _softabs(matrix, alpha)[0]


@softabs.defjvp
def _softabs_jvp(primals: Any, tangents: Any) -> Any:
    """Q (D o Q' dA Q) Q', D the divided differences of l coth(alpha l): finite where eigenvalues meet, unlike the
    derivatives of the eigenvectors.
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
    eigenvalues, vectors = jnp.linalg.eigh(matrix)
    x = alpha * eigenvalues
    small = jnp.abs(x) < 1e-2
    safe = jnp.where(small, 1.0, x)
    mapped = jnp.where(small, 1.0 + x * x / 3.0, safe / jnp.tanh(safe)) / alpha
    return (vectors * mapped) @ vectors.T, (eigenvalues, vectors, mapped)


def _slope(x: Vector) -> Vector:
    """d/dx (x coth x) = coth x - x / sinh^2 x."""
    small = jnp.abs(x) < 1e-2
    safe = jnp.where(small, 1.0, jnp.clip(x, -40.0, 40.0))
    return jnp.where(small, 2.0 * x / 3.0, 1.0 / jnp.tanh(safe) - safe / jnp.sinh(safe) ** 2)
