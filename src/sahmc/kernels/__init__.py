"""The kernels, one file each. To add one, add a line here."""

from sahmc._support.registry import Registry

KERNELS = Registry(
    {
        "hmc": "sahmc.kernels.hmc:HMC",
        "nuts": "sahmc.kernels.nuts:NUTS",
        "rmhmc": "sahmc.kernels.rmhmc:RMHMC",
        "random_walk": "sahmc.kernels.random_walk:RandomWalk",
    }
)
"""All kernels by name, the default first."""
