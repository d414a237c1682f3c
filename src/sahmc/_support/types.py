"""Names for what users pass, of which no more can be said than that it is a pytree, or a function of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

Position = Any
"""A position in the user's structure: any pytree of float arrays."""
PositionFn = Callable[[Position], Any]
"""A function of one position, written with ``jax.numpy``: a log density, or a quantity of interest."""
Unravel = Callable[[jax.Array], Position]
"""The map from a flat vector back to the user's structure."""
