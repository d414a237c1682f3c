"""Hamiltonian Monte Carlo."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import numpy as np
from jaxtyping import Array, Key

from sahmc._support.pytree import static, strategy
from sahmc._support.validate import require, require_count
from sahmc.hamiltonian.integrators import Leapfrog
from sahmc.kernels.base import TransitionInfo, conclude, draw_noise
from sahmc.kernels.mechanical import Mechanical
from sahmc.tilt.target import ChainState, TiltedTarget


@strategy
class HMC(Mechanical):
    """Momentum, leapfrog steps, and the decision of the paper.

    ``step_size=None`` and a metric given by name ("diagonal", "dense", "low_rank") are found by a pilot run.
    ``num_integration_steps`` is the length of a trajectory; a pair (low, high) draws it uniformly for each move, the
    same for all chains. None, the default, makes each iteration of ``sample`` four moves of 1 to 4 steps: modes are
    found by climbing and descending, of which many short moves do more for the same gradients than one long move.
    Where only one mode is seen the moves are fewer and longer, up to one of 1 to 16 steps, as that mode demands.
    ``jitter`` spreads the step size uniformly by that fraction to either side.
    """

    step_size: Any = None
    num_integration_steps: int | tuple[int, int] | None = static(default=None)
    metric: Any = "diagonal"
    jitter: float | int = 0.3
    integrator: Any = Leapfrog()
    longest: Any = dataclasses.field(default=4, init=False)
    length: Any = dataclasses.field(default=None, init=False)
    name: ClassVar[str] = "hmc"

    def __post_init__(self) -> None:
        self.check_parts()
        length = self.num_integration_steps
        low, high = self._bounds
        require_count(low, "num_integration_steps")
        require_count(high, "num_integration_steps")
        require(low <= high, "a random trajectory length is a pair (low, high)", length, "swap the two")
        require(0 <= self.jitter < 1, "jitter must lie in [0, 1)", self.jitter, "use 0.3, or 0 for a fixed step size")

    def lengthened(self, quarter: float) -> HMC:
        if self.num_integration_steps is not None:
            return self
        new = jax.tree.map(lambda leaf: leaf, self)
        object.__setattr__(new, "longest", int(2 ** np.clip(np.round(np.log2(2 * quarter)), 2, 4)))
        return new

    @property
    def moves(self) -> int:
        """As many as make about ten gradients, where the length is open."""
        return 1 if self.num_integration_steps is not None else max(1, 20 // (1 + self.longest))

    @property
    def _bounds(self) -> tuple[Any, Any]:
        length = (1, self.longest) if self.num_integration_steps is None else self.num_integration_steps
        return length if isinstance(length, tuple) and len(length) == 2 else (length, length)

    def refresh(self, rng_key: Key[Array, ""]) -> HMC:
        low, high = self._bounds
        if isinstance(high, int) and low == high:
            return self
        new = jax.tree.map(lambda leaf: leaf, self)
        object.__setattr__(new, "length", jax.random.randint(rng_key, (), low, high + 1))
        return new

    def step(
        self, rng_key: Key[Array, ""], state: ChainState, target: TiltedTarget
    ) -> tuple[ChainState, TransitionInfo]:
        noise, (u_level, u_jitter, u_accept) = draw_noise(rng_key, state.position, 3)
        level = target.draw_level(u_level, state)
        step_size = self.step_size_at(target, level, 1.0 + self.jitter * (2.0 * u_jitter - 1.0))
        num_steps = self._bounds[1] if self.length is None else self.length

        before = self.metric.at(target, state.position)
        momentum = before.momentum(noise)
        proposal, new_momentum, solved = self.flow(target, level, step_size)(state, momentum, num_steps)

        after = self.metric.at(target, proposal.position)
        kinetic = before.kinetic_energy(momentum), after.kinetic_energy(new_momentum)
        gradients = num_steps * self.integrator.gradients
        return conclude(u_accept, target, level, state, proposal, kinetic=kinetic, solved=solved, n_steps=gradients)
