"""Type aliases for user-supplied pytrees and functions of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import jax
from jaxtyping import PyTree

Position: TypeAlias = PyTree
"""A position in the user's structure: any pytree of float arrays."""
PositionFn = Callable[[Position], PyTree]
"""A function of one position, written with ``jax.numpy``: a log density, or a quantity of interest."""
Unravel = Callable[[jax.Array], Position]
"""The map from a flat vector back to the user's structure."""
