"""For tests and benchmarks, ours and yours: targets with known answers, and a check of exact invariance."""

from sahmc.testing.invariance import check_invariance, grid_sampler
from sahmc.testing.targets import SUITE, Target, eight_modes, mixture, sensor_network

__all__ = ["SUITE", "Target", "check_invariance", "eight_modes", "grid_sampler", "mixture", "sensor_network"]
