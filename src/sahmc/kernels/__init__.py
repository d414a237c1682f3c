"""The kernels, one file each. A new one is one more line here."""

from sahmc._support.registry import Registry

KERNELS = Registry(
    {
        "hmc": "sahmc.kernels.hmc:HMC",
        "nuts": "sahmc.kernels.nuts:NUTS",
        "rmhmc": "sahmc.kernels.rmhmc:RMHMC",
        "random_walk": "sahmc.kernels.random_walk:RandomWalk",
    }
)
"""Every kernel by its name, the default first."""
