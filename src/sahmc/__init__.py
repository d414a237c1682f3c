"""Draws from multimodal posteriors: Stochastic Approximation Hamiltonian Monte Carlo on JAX."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sahmc._version import __version__ as __version__

if TYPE_CHECKING:
    from sahmc.algorithm import SAHMCState as SAHMCState
    from sahmc.algorithm import init as init
    from sahmc.algorithm import sahmc_step as sahmc_step
    from sahmc.hamiltonian.implicit import GeneralisedLeapfrog as GeneralisedLeapfrog
    from sahmc.hamiltonian.integrators import Leapfrog as Leapfrog
    from sahmc.hamiltonian.integrators import MinimumNorm as MinimumNorm
    from sahmc.hamiltonian.metrics import DenseMetric as DenseMetric
    from sahmc.hamiltonian.metrics import DiagonalMetric as DiagonalMetric
    from sahmc.hamiltonian.metrics import LowRankMetric as LowRankMetric
    from sahmc.hamiltonian.metrics import UnitMetric as UnitMetric
    from sahmc.hamiltonian.riemannian import SoftAbs as SoftAbs
    from sahmc.hamiltonian.riemannian import fisher_metric as fisher_metric
    from sahmc.interop.blackjax import blackjax_kernel as blackjax_kernel
    from sahmc.kernels import HMC as HMC
    from sahmc.kernels import NUTS as NUTS
    from sahmc.kernels import RMHMC as RMHMC
    from sahmc.kernels import RandomWalk as RandomWalk
    from sahmc.landscape.barrier import EnergyBarrier as EnergyBarrier
    from sahmc.landscape.barrier import energy_barrier as energy_barrier
    from sahmc.models.model import Model as Model
    from sahmc.models.numpyro import from_numpyro as from_numpyro
    from sahmc.models.pymc import from_pymc as from_pymc
    from sahmc.models.stan import from_stan as from_stan
    from sahmc.plots.figures import plot_barrier as plot_barrier
    from sahmc.plots.figures import plot_energy as plot_energy
    from sahmc.plots.figures import plot_marginal as plot_marginal
    from sahmc.plots.figures import plot_overview as plot_overview
    from sahmc.plots.figures import plot_pair as plot_pair
    from sahmc.plots.figures import plot_round_trips as plot_round_trips
    from sahmc.plots.figures import plot_theta as plot_theta
    from sahmc.plots.figures import plot_visits as plot_visits
    from sahmc.plots.report import write_report as write_report
    from sahmc.results.findings import Finding as Finding
    from sahmc.results.result import Result as Result
    from sahmc.run.checkpoint import resume as resume
    from sahmc.run.progress import Progress as Progress
    from sahmc.sampling import sample as sample
    from sahmc.tilt.gain import Gain as Gain
    from sahmc.tilt.partition import EnergyPartition as EnergyPartition
    from sahmc.tilt.partition import TemperatureLadder as TemperatureLadder
    from sahmc.tilt.target import TiltedTarget as TiltedTarget
    from sahmc.tilt.tilts import LinearTilt as LinearTilt
    from sahmc.tilt.tilts import NoTilt as NoTilt
    from sahmc.tilt.tilts import StepTilt as StepTilt
    from sahmc.tilt.tilts import TemperedTilt as TemperedTilt

# Names are fetched when first used, so that `sahmc --help` need not import JAX.
_HOME = {
    "sahmc.algorithm": ("SAHMCState", "init", "sahmc_step"),
    "sahmc.landscape.barrier": ("EnergyBarrier", "energy_barrier"),
    "sahmc.interop.blackjax": ("blackjax_kernel",),
    "sahmc.run.checkpoint": ("resume",),
    "sahmc.results.findings": ("Finding",),
    "sahmc.tilt.gain": ("Gain",),
    "sahmc.hamiltonian.implicit": ("GeneralisedLeapfrog",),
    "sahmc.hamiltonian.integrators": ("Leapfrog", "MinimumNorm"),
    "sahmc.hamiltonian.metrics": ("DenseMetric", "DiagonalMetric", "LowRankMetric", "UnitMetric"),
    "sahmc.hamiltonian.riemannian": ("SoftAbs", "fisher_metric"),
    "sahmc.kernels": ("HMC", "NUTS", "RMHMC", "RandomWalk"),
    "sahmc.models.model": ("Model",),
    "sahmc.models.numpyro": ("from_numpyro",),
    "sahmc.tilt.partition": ("EnergyPartition", "TemperatureLadder"),
    "sahmc.plots.figures": (
        "plot_barrier",
        "plot_energy",
        "plot_marginal",
        "plot_overview",
        "plot_pair",
        "plot_round_trips",
        "plot_theta",
        "plot_visits",
    ),
    "sahmc.run.progress": ("Progress",),
    "sahmc.plots.report": ("write_report",),
    "sahmc.models.pymc": ("from_pymc",),
    "sahmc.results.result": ("Result",),
    "sahmc.sampling": ("sample",),
    "sahmc.models.stan": ("from_stan",),
    "sahmc.tilt.target": ("TiltedTarget",),
    "sahmc.tilt.tilts": ("LinearTilt", "NoTilt", "StepTilt", "TemperedTilt"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}
__all__ = [*sorted(_MODULE), "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name == "numpyro":  # sahmc.numpyro.SAHMC
        return importlib.import_module("sahmc.models.numpyro")
    if name not in _MODULE:
        raise AttributeError(f"module 'sahmc' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
