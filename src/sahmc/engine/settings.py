"""The arguments of ``sample`` that decide which draws are made, and their defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `sahmc --help` shows the defaults, and must not wait for NumPy or JAX
    import numpy as np

    from sahmc._support.types import PositionFn
    from sahmc._support.validate import Given
    from sahmc.kernels.base import Kernel
    from sahmc.tilt.gain import Gain
    from sahmc.tilt.partition import EnergyPartition, TemperatureLadder
    from sahmc.tilt.tilts import Tilt


@dataclass(frozen=True)
class Settings:
    """How to draw, as the user asked; ``sample`` describes each argument, and ``make_plan`` checks them.

    A run in a folder keeps its settings, so that it can be resumed.
    """

    draws: int | np.integer = 1000
    tune: int | np.integer = 1000
    chains: int | np.integer = 32
    target_accept: float = 0.8
    kernel: str | Kernel = "hmc"
    tilt: str | Tilt = "tempered"
    partition: EnergyPartition | TemperatureLadder | None = None
    gain: Gain | float | int | None = None
    desired: Given = None
    theta: Given = "shared"
    adapt: Given = "tune"
    thin: int | np.integer = 1
    jumps: Given = True
    reference: Given = True
    symmetries: Given = "auto"
    keep: PositionFn | None = None
    save_warmup: bool = False
