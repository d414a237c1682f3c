"""Riemannian manifold Hamiltonian Monte Carlo."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from jaxtyping import Array, Float

from sahmc._support.pytree import converted, strategy
from sahmc._support.types import Unravel
from sahmc._support.validate import Given, require
from sahmc.hamiltonian.implicit import GeneralisedLeapfrog
from sahmc.hamiltonian.riemannian import SoftAbs, position_metric
from sahmc.kernels.hmc import HMC


def _generalised_leapfrog(integrator: Given) -> GeneralisedLeapfrog:
    ok = isinstance(integrator, GeneralisedLeapfrog)
    require(ok, "RMHMC takes a GeneralisedLeapfrog", integrator, "leave it out")
    return integrator


@strategy
class RMHMC(HMC):
    """HMC with a position-dependent metric: steps are long where U is flat and short where it is steep.

    ``metric`` is a function of one position that returns G, a symmetric positive definite matrix over the flattened
    position. Or it is an object: ``SoftAbs()``, the default, uses the Hessian, and ``fisher_metric(residuals)`` the
    expected Fisher information. If an implicit step does not converge or is not reversible, the move is rejected and
    counted in ``num_failed`` of the result.

    The kinetic energy includes log|G|/2. The tilt acts on U alone, so theta and the weights mean the same as for any
    other kernel.
    """

    metric: Given = converted(position_metric, default_factory=SoftAbs)
    """The metric: a function of a position, "softabs" or a ``PositionMetric``; stored as the last of these."""
    integrator: Given = converted(_generalised_leapfrog, default_factory=GeneralisedLeapfrog)
    """A ``GeneralisedLeapfrog``."""
    small_steps: Given = 0.0
    """As for ``HMC``, but 0 by default: the metric shortens steps where that is needed."""
    name: ClassVar[str] = "rmhmc"

    def bound(self, unravel: Unravel, example: Float[Array, " dim"]) -> RMHMC:
        """Return this kernel for flat positions like ``example``; ``unravel`` restores the user's structure."""
        return dataclasses.replace(self, metric=self.metric.bound(unravel, example))

    def lengthened(self, quarter: float) -> RMHMC:
        """Return this kernel unchanged: in units of the metric, a quarter of a period is a few steps everywhere."""
        return self
