"""Riemannian manifold Hamiltonian Monte Carlo."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from jaxtyping import Array, Float

from sahmc._support.pytree import converted, strategy
from sahmc._support.types import Unravel
from sahmc._support.validate import require
from sahmc.hamiltonian.implicit import GeneralisedLeapfrog
from sahmc.hamiltonian.riemannian import SoftAbs, position_metric
from sahmc.kernels.hmc import HMC


def _generalised_leapfrog(integrator: Any) -> GeneralisedLeapfrog:
    require(
        isinstance(integrator, GeneralisedLeapfrog), "RMHMC takes a GeneralisedLeapfrog", integrator, "leave it out"
    )
    return integrator


@strategy
class RMHMC(HMC):
    """HMC whose metric follows the position: steps are long where U is flat and short where it is steep.

    ``metric`` is a function of one position that returns G, a symmetric positive definite matrix over the flattened
    position; or an object: ``SoftAbs()``, the default, takes it from the Hessian, ``fisher_metric(residuals)`` from the
    expected Fisher information. An implicit step that does not converge or does not reverse rejects the move, and is
    counted in ``num_failed`` of the result.

    The kinetic energy holds log|G|/2; the energy on which the tilt acts is U alone, so theta and the weights mean the
    same as for any other kernel.
    """

    metric: Any = converted(position_metric, default_factory=SoftAbs)
    """A function of a position, "softabs" or a ``PositionMetric``, as which it is held."""
    integrator: Any = converted(_generalised_leapfrog, default_factory=GeneralisedLeapfrog)
    """A ``GeneralisedLeapfrog``."""
    name: ClassVar[str] = "rmhmc"

    def bound(self, unravel: Unravel, example: Float[Array, " dim"]) -> RMHMC:
        """Return this kernel for flat positions like ``example``, which ``unravel`` gives the user's structure."""
        return dataclasses.replace(self, metric=self.metric.bound(unravel, example))

    def lengthened(self, quarter: float) -> RMHMC:
        """Return this kernel as it is: in units of the metric a quarter of a period is a few steps everywhere."""
        return self
