"""Gain sequences a_t of the stochastic approximation."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from sahmc._support.pytree import strategy
from sahmc._support.validate import MOST, is_number, require


@strategy
class Gain:
    """The gain sequence a_t = (t0 / max(t0, t))^power, t = 1, 2, ...

    The paper uses ``power=1``. The Robbins-Monro conditions are sum a_t = infinity, and sum a_t^zeta < infinity for
    some zeta in (1, 2). They hold exactly for 1/2 < power <= 1; any other power raises ``ValueError``.
    """

    t0: float | int
    """The time up to which the gain is 1."""
    power: float | int = 1.0
    """The exponent of the decrease after ``t0``."""

    def __post_init__(self) -> None:
        require(
            is_number(self.t0) and 1 <= self.t0 <= MOST,
            f"gain t0 must be at least 1 and at most {MOST:,}",
            self.t0,
            "pass Gain(t0=...) with a t0 of a tenth of tune or so",
        )
        require(
            is_number(self.power) and 0.5 < self.power <= 1,
            "gain power must lie in (1/2, 1], or it breaks the Robbins-Monro conditions",
            self.power,
            "use power=1, the paper's gain, or a value such as 0.75",
        )

    def __call__(self, t: Array | int) -> Float[Array, ""]:
        """Return a_t at time ``t``, which starts at 1 and need not be an integer."""
        t0 = jnp.asarray(self.t0, jnp.result_type(float))
        return (t0 / jnp.maximum(t0, t)) ** self.power
