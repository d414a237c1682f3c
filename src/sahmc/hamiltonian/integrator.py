"""The leapfrog."""

from __future__ import annotations

from typing import Any

import jax
from jaxtyping import Array, Float, Int

from sahmc.hamiltonian.metric import Metric
from sahmc.target import ChainState, TiltedTarget
from sahmc.tilt import Energy, Level

Vector = Float[Array, " dim"]


def leapfrog(
    target: TiltedTarget,
    level: Level,
    metric: Metric,
    state: ChainState,
    momentum: Vector,
    step_size: Energy,
    num_steps: Int[Array, ""] | int,
) -> tuple[ChainState, Vector]:
    """y - eps/2 grad; then ``num_steps`` of x + eps M^-1 y and y - eps grad, the last kick a half one.

    The force is that of the target at ``level``, a function of position alone, so the map is reversible and preserves
    volume whatever the force.
    """

    kick = target.kick(level, step_size)

    def drift(position: Vector, momentum: Vector) -> ChainState:
        return target.evaluate(position + step_size * metric.velocity(momentum))

    def drift_and_kick(_: Any, carry: tuple[Vector, Vector]) -> tuple[Vector, Vector]:
        position, momentum = carry
        state = drift(position, momentum)
        return state.position, momentum - kick(state)

    # Only positions and momenta are carried, so energies along the way are not computed unless the force needs them.
    momentum = momentum - 0.5 * kick(state)
    position, momentum = jax.lax.fori_loop(0, num_steps - 1, drift_and_kick, (state.position, momentum))
    state = drift(position, momentum)
    return state, momentum - 0.5 * kick(state)
