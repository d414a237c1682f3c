"""The idea of the paper: energies cut into regions, theta over them, and the weights that undo the tilt."""

from sahmc._support.registry import Registry

TILTS = Registry(
    {
        "tempered": "sahmc.tilt.tilts:TemperedTilt",
        "linear": "sahmc.tilt.tilts:LinearTilt",
        "step": "sahmc.tilt.tilts:StepTilt",
        "none": "sahmc.tilt.tilts:NoTilt",
    }
)
"""Every tilt by its name, the default first."""
