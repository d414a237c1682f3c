"""The idea of the paper: energy regions, a theta for each, and the importance weights that undo the tilt."""

from sahmc._support.registry import Registry

TILTS = Registry(
    {
        "tempered": "sahmc.tilt.tilts:TemperedTilt",
        "linear": "sahmc.tilt.tilts:LinearTilt",
        "step": "sahmc.tilt.tilts:StepTilt",
        "none": "sahmc.tilt.tilts:NoTilt",
    }
)
"""All tilts by name, the default first."""
