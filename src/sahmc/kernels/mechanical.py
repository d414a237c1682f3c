"""The base class of kernels that follow Hamilton's equations: step size, metric and integrator."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from sahmc._support.pytree import updated
from sahmc._support.validate import Given
from sahmc.hamiltonian.integrators import Flow
from sahmc.hamiltonian.metrics import AUTO, METRICS, DenseMetric, DiagonalMetric, LadderMetric, Metric
from sahmc.hamiltonian.spread import Spread
from sahmc.kernels.base import Kernel
from sahmc.tilt.target import TiltedTarget
from sahmc.tilt.tilts import Energy, Level


class Mechanical(Kernel):
    """A kernel with a metric and an integrator.

    A metric given by name is still open; ``tuned`` estimates it from the spread of draws.
    """

    metric: Given
    """A ``Metric``, or the name of one while it is open."""
    integrator: Given
    """An ``Integrator`` for that metric."""
    uses_gradient: ClassVar[bool] = True

    def describe(self) -> dict[str, object]:
        """Return the settings of this kernel for display, with the names of its metric and integrator."""
        metric = self.metric if isinstance(self.metric, str) else self.metric.name
        return {**super().describe(), "metric": metric, "integrator": self.integrator.name}

    def check(self, dim: int) -> None:
        """Raise ``ValueError`` if the metric does not fit positions of this dimension."""
        if isinstance(self.metric, Metric):
            self.metric.check_dim(dim)

    @property
    def uses_spread(self) -> bool:
        """Whether the metric is still open."""
        return isinstance(self.metric, str)

    def tuned(self, step_size: ArrayLike, spread: Spread) -> Mechanical:
        """Return this kernel with the step size and the metric filled in, if they were left open."""
        metric = METRICS[self.metric].fit(spread) if isinstance(self.metric, str) else self.metric
        step_size = step_size if self.tunes_step_size else self.step_size
        return dataclasses.replace(self, step_size=step_size, metric=metric)  # type: ignore[type-var]

    def flow(self, target: TiltedTarget, level: Level, step_size: Energy) -> Flow:
        """Return the trajectory at this level, as a function of its start and number of steps."""
        return self.integrator.flow(target, level, self.metric.at_level(level), step_size)

    @property
    def may_be_dense(self) -> bool:
        """Whether both the metric and its kind are left open."""
        return isinstance(self.metric, str) and self.metric == AUTO

    def with_covariance(self, covariance: np.ndarray) -> Mechanical:
        """Return this kernel with a dense metric; ``covariance`` of the position is (dim, dim)."""
        return dataclasses.replace(self, metric=DenseMetric(covariance))  # type: ignore[type-var]

    def with_variances(self, variances: np.ndarray) -> Mechanical:
        """Return this kernel with these variances, (dim,) or (level, dim), if its metric is diagonal."""
        if not isinstance(self.metric, DiagonalMetric):
            return self
        values = jnp.asarray(variances, self.metric.inverse_mass.dtype)
        return updated(self, metric=LadderMetric(values) if values.ndim == 2 else DiagonalMetric(values))

    def step_size_at(self, target: TiltedTarget, level: Level, spread: Energy | float = 1.0) -> Energy:
        """Return the step size at a level, times ``spread``."""
        return jnp.asarray(self.step_size * target.step_scale_at(level) * spread, target.theta.dtype)
