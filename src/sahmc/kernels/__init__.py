"""The kernels, one file each; a new one is one more line here."""

from sahmc.kernels.base import Kernel, TransitionInfo
from sahmc.kernels.hmc import HMC
from sahmc.kernels.jump import Jump
from sahmc.kernels.nuts import NUTS
from sahmc.kernels.random_walk import RandomWalk
from sahmc.kernels.rmhmc import RMHMC

KERNELS: dict[str, type[Kernel]] = {k.name: k for k in (HMC, NUTS, RMHMC, RandomWalk)}

__all__ = ["HMC", "KERNELS", "NUTS", "RMHMC", "Jump", "Kernel", "RandomWalk", "TransitionInfo"]
