"""Tools for tests and benchmarks, ours and yours: targets with known answers, and the contract of a kernel."""

from sahmc.testing.invariance import check_invariance, grid_sampler
from sahmc.testing.kernel import Check, check_kernel
from sahmc.testing.targets import EVIDENCE, RAW, SUITE, EvidenceTarget, Target, eight_modes, mixture, sensor_network

__all__ = [
    "EVIDENCE",
    "RAW",
    "SUITE",
    "Check",
    "EvidenceTarget",
    "Target",
    "check_invariance",
    "check_kernel",
    "eight_modes",
    "grid_sampler",
    "mixture",
    "sensor_network",
]
