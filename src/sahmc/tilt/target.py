"""The tilted target, which is all that a kernel sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sahmc._support.pytree import strategy
from sahmc._support.traced import TracedFunction
from sahmc._support.types import PositionFn
from sahmc._support.validate import require, require_flag
from sahmc.models.convert import as_model
from sahmc.models.energy import BaseEnergy, trace_energy
from sahmc.models.model import Model
from sahmc.tilt.tilts import Energy, Level, Theta, Tilt

Vector = Float[Array, " dim"]
"""A position, a momentum or a gradient of one chain."""


class ChainState(NamedTuple):
    """The state of a chain, the same for all kernels; its energies and gradients are untilted.

    ``energy`` is the energy on which the tilt acts: U, or -log likelihood if the prior is the base measure. ``grad``
    is None for kernels without gradients.
    """

    position: Vector
    energy: Energy
    grad: Vector | None
    base: BaseEnergy | None
    """The prior's energy and gradient, if the prior is the base measure."""

    @property
    def total_energy(self) -> Float[Array | np.ndarray, "*chains"]:
        """The energy U of one or many chains, including the prior."""
        return self.energy if self.base is None else self.energy + self.base.energy

    @property
    def total_grad(self) -> Float[Array | np.ndarray, "*chains dim"] | None:
        """The gradient of U, including the prior."""
        if self.base is None or self.grad is None:
            return self.grad
        assert self.base.grad is not None
        return self.grad + self.base.grad


@strategy
class TiltedTarget:
    """The density exp(-base(x) - E(x) - Theta(E(x))): its energy, a tilt, theta, and a step size for each level."""

    energy_fn: TracedFunction
    """E, its gradient, and the base measure's energy and gradient, as one program of a flat position."""
    tilt: Tilt
    theta: Float[Array, "*own regions"]
    """The theta in use: shared by all chains or, with a leading axis, one for each."""
    step_scale: Float[Array, " levels"]
    """The step size of each level, as a multiple of the kernel's."""

    @classmethod
    def build(cls, model: Model | PositionFn, example: Vector, tilt: Tilt, gradient: bool = True) -> TiltedTarget:
        """Build the target of a model of flat positions like ``example``, with zero theta and the tilt's step sizes.

        Pass ``gradient=False`` for kernels without gradients.
        """
        shape, kind = np.shape(example), getattr(example, "dtype", None)
        ok = len(shape) == 1 and shape[0] > 0 and kind in (np.float32, np.float64)
        require(ok, "example must be a vector of floats", f"shape {shape}, dtype {kind}", "pass jnp.zeros(dim)")
        require(isinstance(tilt, Tilt), "tilt must be a tilt object", tilt, "pass sahmc.NoTilt(), say")
        require_flag(gradient, "gradient")
        energy_fn = trace_energy(as_model(model), lambda flat: flat, example, gradient)
        return cls(energy_fn, tilt, jnp.zeros(tilt.num_regions, example.dtype), tilt.step_scale.astype(example.dtype))

    def with_theta(self, theta: Theta) -> TiltedTarget:
        """Return this target with another theta."""
        return TiltedTarget(self.energy_fn, self.tilt, theta, self.step_scale)

    def evaluate(self, position: Vector) -> ChainState:
        """Return the state of a chain at a position: energy and gradient, with those of the prior."""
        wanted = self.energy_fn.argument
        have: Any = getattr(position, "shape", None), getattr(position, "dtype", None)
        ok = (
            have[0] == wanted.shape
            and jnp.issubdtype(have[1], np.floating)
            and jnp.result_type(position) == wanted.dtype
        )
        must = f"a position must be an array of shape {wanted.shape} and dtype {wanted.dtype}"
        require(ok, must, f"shape {have[0]}, dtype {have[1]}", "pass one like the example that build was given")
        energy, grad, base = self.energy_fn(position)
        return ChainState(position, energy, grad, base)

    def draw_level(self, uniform: Energy, state: ChainState) -> Level:
        """Draw the level at which a move runs, from a ``uniform`` number between 0 and 1."""
        return self.tilt.draw_level(uniform, self.theta, state.energy)

    def step_scale_at(self, level: Level) -> Energy:
        """Return the step size of a level, as a multiple of the kernel's."""
        return self.step_scale[level].astype(self.theta.dtype)

    def potential(self, state: ChainState, level: Level) -> Energy:
        """Return the potential energy of a trajectory at this level."""
        return _plus_base(self.tilt.potential(self.theta, state.energy, level), state)

    def kick(self, level: Level, step_size: Energy) -> Callable[[ChainState], Vector]:
        """Return the function x -> step_size * gradient of ``potential``, for trajectories at this level."""
        size = self.tilt.kick_size(self.theta, level, step_size)

        def kick(state: ChainState) -> Vector:
            assert state.grad is not None  # kernels that take trajectories ask for gradients
            factor = size(state.energy)
            tilted = jnp.where(factor == 0.0, 0.0, factor * state.grad)  # no force at beta = 0, even where it is nan
            if state.base is None:
                return tilted
            assert state.base.grad is not None
            return tilted + step_size * state.base.grad

        return kick

    def decision(self, state: ChainState, level: Level) -> Energy:
        """Return the tilted energy, which decides whether a proposal is accepted."""
        return _plus_base(self.tilt.decision(self.theta, state.energy, level), state)

    def tilted_energy(self, state: ChainState) -> Energy:
        """Return base(x) + E(x) + Theta(E(x)), -log of the tilted density over all levels."""
        return _plus_base(self.tilt.tilted(self.theta, state.energy), state)


def _plus_base(energy: Energy, state: ChainState) -> Energy:
    return energy if state.base is None else energy + state.base.energy


def require_target(target: Any) -> None:
    """Raise ``ValueError`` unless this is a tilted target."""
    todo = "pass sahmc.TiltedTarget.build(model, example, tilt)"
    require(isinstance(target, TiltedTarget), "target must be a TiltedTarget", type(target).__name__, todo)
