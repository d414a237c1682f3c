"""Ways downhill: energies of many points, and descent from them."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sahmc._support.traced import TracedFunction


class Descent(NamedTuple):
    """Points on their way down, each with its own step size."""

    position: Float[Array, "points dim"]
    energy: Float[Array, " points"]
    grad: Float[Array, "points dim"]
    velocity: Float[Array, "points dim"]
    size: Float[Array, " points"]


@jax.jit
def energies(energy_fn: TracedFunction, points: Float[Array, "points dim"]) -> tuple[Any, Any]:
    """-log density and its gradient, the prior's included."""
    energy, grad, base = jax.vmap(energy_fn)(points)
    if base is None:
        return energy, grad
    return energy + base.energy, None if grad is None else grad + base.grad


@jax.jit
def start_descent(energy_fn: TracedFunction, points: Float[Array, "points dim"]) -> Descent:
    size = jnp.full(len(points), 0.1, points.dtype)
    energy, grad = energies(energy_fn, points)
    return Descent(points, energy, grad, jnp.zeros_like(points), size)


@jax.jit
def roll_down(energy_fn: TracedFunction, descent: Descent, scale: Any, steps: Any) -> Descent:
    """Gradient descent with momentum, in units of ``scale``.

    A step that would raise the energy is taken back, its momentum dropped and its size halved.
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
