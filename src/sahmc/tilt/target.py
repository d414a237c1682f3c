"""The tilted target: all that a kernel sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from sahmc._support.pytree import strategy
from sahmc._support.traced import TracedFunction
from sahmc.models.convert import as_model
from sahmc.models.energy import BaseEnergy, trace_energy
from sahmc.models.model import Model
from sahmc.tilt.tilts import Energy, Level, Theta, Tilt

Vector = Float[Array, " dim"]


class ChainState(NamedTuple):
    """What the next step needs, the same for all kernels; untilted.

    ``energy`` is what the tilt acts on: U, or -log likelihood where the prior is the base measure. ``grad`` is None
    for kernels that need none.
    """

    position: Vector
    energy: Energy
    grad: Vector | None
    base: BaseEnergy | None

    @property
    def total_energy(self) -> Any:
        """U, the prior's share included; of one chain or of many."""
        return self.energy if self.base is None else self.energy + self.base.energy

    @property
    def total_grad(self) -> Any:
        """The gradient of U, the prior's share included."""
        if self.base is None or self.grad is None:
            return self.grad
        assert self.base.grad is not None
        return self.grad + self.base.grad


@strategy
class TiltedTarget:
    """exp(-base(x) - E(x) - Theta(E(x))): a log density, a tilt, theta, and a step size for each level."""

    energy_fn: TracedFunction
    tilt: Tilt
    theta: Float[Array, "*own regions"]
    step_scale: Float[Array, " levels"]

    @classmethod
    def build(
        cls, model: Model | Callable[[Any], Any], example: Vector, tilt: Tilt, gradient: bool = True
    ) -> TiltedTarget:
        """For a model of flat positions like ``example``: theta zero, and the tilt's own step sizes."""
        energy_fn = trace_energy(as_model(model), lambda flat: flat, example, gradient)
        return cls(energy_fn, tilt, jnp.zeros(tilt.num_regions, example.dtype), tilt.step_scale.astype(example.dtype))

    def with_theta(self, theta: Theta) -> TiltedTarget:
        return TiltedTarget(self.energy_fn, self.tilt, theta, self.step_scale)

    def evaluate(self, position: Vector) -> ChainState:
        energy, grad, base = self.energy_fn(position)
        return ChainState(position, energy, grad, base)

    def draw_level(self, uniform: Energy, state: ChainState) -> Level:
        return self.tilt.draw_level(uniform, self.theta, state.energy)

    def step_scale_at(self, level: Level) -> Energy:
        return self.step_scale[level].astype(self.theta.dtype)

    def potential(self, state: ChainState, level: Level) -> Energy:
        """What a trajectory at this level conserves."""
        return _plus_base(self.tilt.potential(self.theta, state.energy, level), state)

    def kick(self, level: Level, step_size: Energy) -> Callable[[ChainState], Vector]:
        """step_size times the gradient of ``potential``, prepared for a trajectory at this level."""
        size = self.tilt.kick_size(self.theta, level, step_size)

        def kick(state: ChainState) -> Any:
            assert state.grad is not None  # kernels that take trajectories ask for gradients
            tilted = size(state.energy) * state.grad
            if state.base is None:
                return tilted
            assert state.base.grad is not None
            return tilted + step_size * state.base.grad

        return kick

    def decision(self, state: ChainState, level: Level) -> Energy:
        """The tilted energy, on which a proposal is accepted or rejected."""
        return _plus_base(self.tilt.decision(self.theta, state.energy, level), state)

    def tilted_energy(self, state: ChainState) -> Energy:
        """-log of the tilted density, all levels together."""
        return _plus_base(state.energy + self.tilt.bias(self.theta, state.energy), state)


def _plus_base(energy: Energy, state: ChainState) -> Energy:
    return energy if state.base is None else energy + state.base.energy
