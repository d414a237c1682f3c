"""Type aliases for positions, as vectors and in the user's structure, and for functions of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from jaxtyping import Array, Float, PyTree

Vector = Float[Array, " dim"]
"""A flat position, a momentum, a velocity or a gradient of one chain."""
Position: TypeAlias = PyTree
"""A position in the user's structure: any pytree of float arrays."""
PositionFn = Callable[[Position], PyTree]
"""A function of one position, written with ``jax.numpy``: a log density, or a quantity of interest."""
Unravel = Callable[[Array], Position]
"""The map from a flat vector back to the user's structure."""
