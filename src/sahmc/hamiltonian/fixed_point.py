"""Fixed points by iteration, to a tolerance."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

Vector = Float[Array, " dim"]
"""A point, or a difference of two."""
Scalar = Float[Array, ""]
"""A length, or a ratio of two."""


class Accuracy(NamedTuple):
    """The required accuracy of a fixed point."""

    tolerance: float | Scalar
    """The maximum distance from the fixed point at which the search ends."""
    rounding: float
    """The maximum relative change that counts as rounding error."""
    precision: float
    """The spacing of floating-point numbers around 1."""
    max_iterations: int | Int[Array, ""]


class Iterate(NamedTuple):
    """A point of the iteration."""

    value: Vector
    change: Scalar
    """The distance from the previous point."""
    ratio: Scalar
    """The ratio of this ``change`` to the previous one."""
    iterations: Int[Array, ""]


def solve_fixed_point(
    function: Callable[[Vector], Vector], guess: Vector, size: Callable[[Vector], Scalar], accuracy: Accuracy
) -> tuple[Vector, Bool[Array, ""]]:
    """Return the x with function(x) = x near ``guess``, and whether it was reached; ``size`` measures lengths.

    If changes shrink by a factor r, the remaining distance is change * r / (1 - r). If they do not shrink, the search
    ends.
    """

    def reached(now: Iterate) -> Bool[Array, ""]:
        floor = accuracy.rounding * size(now.value)
        to_go = now.change * now.ratio / jnp.maximum(1.0 - now.ratio, accuracy.precision)
        return (now.change <= floor) | ((now.ratio < 1.0) & (to_go <= accuracy.tolerance + floor))

    def unfinished(now: Iterate) -> Bool[Array, ""]:
        hopeful = (now.iterations < 2) | ((now.ratio < 1.0) & (now.iterations < accuracy.max_iterations))
        return ~reached(now) & hopeful

    def iterate(now: Iterate) -> Iterate:
        new = function(now.value)
        change = size(new - now.value)
        ratio = jnp.where(now.iterations > 0, change / now.change, 1.0)
        return Iterate(new, change, ratio, now.iterations + 1)

    far, one = jnp.asarray(jnp.finfo(guess.dtype).max, guess.dtype), jnp.ones((), guess.dtype)
    last = jax.lax.while_loop(unfinished, iterate, Iterate(guess, far, one, jnp.zeros((), jnp.int32)))
    return last.value, reached(last)
