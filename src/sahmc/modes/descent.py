"""Gradient descent from many points at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from sahmc._support.compiled import compiled
from sahmc._support.traced import TracedFunction
from sahmc.models.evaluation import energies

DESCENTS_AT_ONCE = 96
"""The number of points in a batch of descents, fixed so that one compiled program serves all."""
ABSURD_NATS = 1000.0
"""The minimum height in nats that counts as absurd, or twenty for each dimension if that is more."""


class Descent(NamedTuple):
    """Points during their descent, with energies and gradients."""

    position: Float[Array, "points dim"]
    energy: Float[Array, " points"]
    grad: Float[Array, "points dim"]
    velocity: Float[Array, "points dim"]
    """The last step of each point, part of which is added to the next."""
    size: Float[Array, " points"]
    """The step size of each point."""


@compiled
def start_descent(energy_fn: TracedFunction, points: Float[Array, "points dim"]) -> Descent:
    """Return points at rest, from which ``roll_down`` continues."""
    size = jnp.full(len(points), 0.1, points.dtype)
    energy, grad = energies(energy_fn, points)
    return Descent(points, energy, grad, jnp.zeros_like(points), size)


@compiled
def roll_down(
    energy_fn: TracedFunction, descent: Descent, scale: Float[Array, "points dim"], steps: Int[Array, ""] | int
) -> Descent:
    """Take ``steps`` steps of gradient descent with momentum, in units of ``scale``, lengths for each point.

    A step that would raise the energy is undone; the point loses its momentum and halves its step size.
    """

    def body(_: Any, now: Descent) -> Descent:
        velocity = 0.9 * now.velocity - now.size[:, None] * now.grad * scale**2
        position = now.position + velocity
        energy, grad = energies(energy_fn, position)
        down = Descent(position, energy, grad, velocity, 1.1 * now.size)
        back = now._replace(velocity=jnp.zeros_like(velocity), size=0.5 * now.size)
        better = down.energy <= now.energy
        return Descent(
            *(jnp.where(better if a.ndim == 1 else better[:, None], a, b) for a, b in zip(down, back, strict=True))
        )

    return jax.lax.fori_loop(0, steps, body, descent)


def absurd_height(dim: int) -> float:
    """Return the height in nats above other points at which a point of this dimension cannot be a posterior draw."""
    return max(ABSURD_NATS, 20.0 * dim)
