"""Log densities with known answers, and the suite of them that every release must pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sahmc.testing.targets.evidence import EVIDENCE, EvidenceTarget
from sahmc.testing.targets.one_mode import banana, funnel, gaussian, hierarchical_logistic, wall
from sahmc.testing.targets.paper import eight_modes, mixture, sensor_network
from sahmc.testing.targets.raw import RAW
from sahmc.testing.targets.several_modes import student_mixture, two_widths
from sahmc.testing.targets.target import Target, nearest

__all__ = [
    "EVIDENCE",
    "RAW",
    "SUITE",
    "EvidenceTarget",
    "Target",
    "banana",
    "eight_modes",
    "funnel",
    "gaussian",
    "hierarchical_logistic",
    "mixture",
    "nearest",
    "sensor_network",
    "student_mixture",
    "two_widths",
    "wall",
]

SUITE: dict[str, Callable[[], Target]] = {
    "mixture-1": lambda: mixture(-6.0, 4.0),
    "mixture-2": lambda: mixture(-8.0, 6.0),
    **{f"eight-modes-{dim}": partial(eight_modes, dim) for dim in (3, 5, 7, 9, 11, 21, 50)},
    "sensor-network": sensor_network,
    **{
        f"two-widths-{dim}-{ratio}-{start}": partial(two_widths, dim, ratio, start)
        for dim in (2, 5, 10)
        for ratio in (0.7, 0.5, 0.3)
        for start in ("narrow", "wide")
    },
    "student-mixture": student_mixture,
    "banana": banana,
    "funnel": funnel,
    **{f"gaussian-{dim}": partial(gaussian, dim) for dim in (2, 10, 100)},
    "logistic": hierarchical_logistic,
    "wall": wall,
}
"""All targets of the suite by name; each is built when called."""
