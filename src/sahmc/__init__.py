"""Draws from multimodal posteriors: Stochastic Approximation Hamiltonian Monte Carlo on JAX."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sahmc.algorithm import SAHMCState as SAHMCState
    from sahmc.algorithm import init as init
    from sahmc.algorithm import sahmc_step as sahmc_step
    from sahmc.barrier import EnergyBarrier as EnergyBarrier
    from sahmc.barrier import energy_barrier as energy_barrier
    from sahmc.blackjax import blackjax_kernel as blackjax_kernel
    from sahmc.checkpoint import resume as resume
    from sahmc.findings import Finding as Finding
    from sahmc.gain import Gain as Gain
    from sahmc.hamiltonian.implicit import GeneralisedLeapfrog as GeneralisedLeapfrog
    from sahmc.hamiltonian.integrator import Leapfrog as Leapfrog
    from sahmc.hamiltonian.integrator import MinimumNorm as MinimumNorm
    from sahmc.hamiltonian.metric import DenseMetric as DenseMetric
    from sahmc.hamiltonian.metric import DiagonalMetric as DiagonalMetric
    from sahmc.hamiltonian.metric import LowRankMetric as LowRankMetric
    from sahmc.hamiltonian.metric import UnitMetric as UnitMetric
    from sahmc.hamiltonian.riemannian import SoftAbs as SoftAbs
    from sahmc.hamiltonian.riemannian import fisher_metric as fisher_metric
    from sahmc.kernels import HMC as HMC
    from sahmc.kernels import NUTS as NUTS
    from sahmc.kernels import RMHMC as RMHMC
    from sahmc.kernels import RandomWalk as RandomWalk
    from sahmc.model import Model as Model
    from sahmc.numpyro import from_numpyro as from_numpyro
    from sahmc.partition import EnergyPartition as EnergyPartition
    from sahmc.partition import TemperatureLadder as TemperatureLadder
    from sahmc.plots import plot_barrier as plot_barrier
    from sahmc.plots import plot_energy as plot_energy
    from sahmc.plots import plot_marginal as plot_marginal
    from sahmc.plots import plot_overview as plot_overview
    from sahmc.plots import plot_pair as plot_pair
    from sahmc.plots import plot_round_trips as plot_round_trips
    from sahmc.plots import plot_theta as plot_theta
    from sahmc.plots import plot_visits as plot_visits
    from sahmc.progress import Progress as Progress
    from sahmc.pymc import from_pymc as from_pymc
    from sahmc.report import write_report as write_report
    from sahmc.result import Result as Result
    from sahmc.sampling import sample as sample
    from sahmc.stan import from_stan as from_stan
    from sahmc.target import TiltedTarget as TiltedTarget
    from sahmc.tilt import LinearTilt as LinearTilt
    from sahmc.tilt import NoTilt as NoTilt
    from sahmc.tilt import StepTilt as StepTilt
    from sahmc.tilt import TemperedTilt as TemperedTilt

__version__ = "0.1.0"

# Names are fetched when first used, so that `sahmc --help` need not import JAX.
_HOME = {
    "sahmc.algorithm": ("SAHMCState", "init", "sahmc_step"),
    "sahmc.barrier": ("EnergyBarrier", "energy_barrier"),
    "sahmc.blackjax": ("blackjax_kernel",),
    "sahmc.checkpoint": ("resume",),
    "sahmc.findings": ("Finding",),
    "sahmc.gain": ("Gain",),
    "sahmc.hamiltonian.implicit": ("GeneralisedLeapfrog",),
    "sahmc.hamiltonian.integrator": ("Leapfrog", "MinimumNorm"),
    "sahmc.hamiltonian.metric": ("DenseMetric", "DiagonalMetric", "LowRankMetric", "UnitMetric"),
    "sahmc.hamiltonian.riemannian": ("SoftAbs", "fisher_metric"),
    "sahmc.kernels": ("HMC", "NUTS", "RMHMC", "RandomWalk"),
    "sahmc.model": ("Model",),
    "sahmc.numpyro": ("from_numpyro",),
    "sahmc.partition": ("EnergyPartition", "TemperatureLadder"),
    "sahmc.plots": (
        "plot_barrier",
        "plot_energy",
        "plot_marginal",
        "plot_overview",
        "plot_pair",
        "plot_round_trips",
        "plot_theta",
        "plot_visits",
    ),
    "sahmc.progress": ("Progress",),
    "sahmc.report": ("write_report",),
    "sahmc.pymc": ("from_pymc",),
    "sahmc.result": ("Result",),
    "sahmc.sampling": ("sample",),
    "sahmc.stan": ("from_stan",),
    "sahmc.target": ("TiltedTarget",),
    "sahmc.tilt": ("LinearTilt", "NoTilt", "StepTilt", "TemperedTilt"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}
__all__ = [*sorted(_MODULE), "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name == "numpyro":  # sahmc.numpyro.SAHMC
        return importlib.import_module("sahmc.numpyro")
    if name not in _MODULE:
        raise AttributeError(f"module 'sahmc' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
