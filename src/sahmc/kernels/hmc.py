"""Hamiltonian Monte Carlo."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from sahmc._support.pytree import converted, strategy, updated
from sahmc._support.validate import Given, is_number, require
from sahmc.hamiltonian.integrators import Leapfrog, splitting_integrator
from sahmc.hamiltonian.metrics import AUTO, constant_metric
from sahmc.kernels.base import TransitionInfo, checked_step_size, conclude
from sahmc.kernels.mechanical import Mechanical
from sahmc.kernels.trajectory_length import trajectory_length
from sahmc.tilt.target import ChainState, TiltedTarget
from sahmc.tilt.tilts import Energy

SMALL_STEPS, SMALLEST = 0.2, 0.03
"""The share of moves with a smaller step size where the step size is left open, and the smallest factor of it."""


@strategy
class HMC(Mechanical):
    """Hamiltonian Monte Carlo: momentum, leapfrog steps, and the accept/reject decision of the paper.

    A pilot run finds the step size if ``step_size=None``, and the metric if you give only its name ("auto",
    "diagonal", "dense", "low_rank"). "auto" is diagonal, or dense where coordinates are strongly correlated.

    ``num_integration_steps`` is the length of a trajectory. A pair (low, high) draws it uniformly for each move, the
    same for all chains. By default (None) an iteration of ``sample`` is four moves of 1 to 4 steps. Chains find modes
    by climbing and descending; many short moves do more of that than one long move of the same cost. If only one mode
    is seen, moves become fewer and longer as that mode requires, up to one move of 1 to 16 steps.

    ``jitter`` varies the step size uniformly by that fraction to either side.

    ``small_steps`` is the share of moves with a smaller step size, between 3 % of it and all of it, uniform in its
    logarithm. They go on where the posterior is narrower than elsewhere, as in the neck of a funnel. Moves of the usual
    step size are refused there for a long time. By default (None) the share is 0.2 if the step size is left open, and 0
    if ``step_size`` is given or ``jitter=0``. The warm-up of ``sample`` makes none of them.
    """

    step_size: Given = converted(checked_step_size, default=None)
    num_integration_steps: Given = converted(trajectory_length, default=None)
    """The length of a trajectory: a number, a pair or None, stored as a ``TrajectoryLength``."""
    metric: Given = converted(constant_metric, default=AUTO)
    """A ``ConstantMetric``, or the name of one while it is open."""
    jitter: float | int = 0.3
    integrator: Given = converted(splitting_integrator, default_factory=Leapfrog)
    """A ``Splitting`` integrator, or its name."""
    small_steps: Given = None
    """The share of moves with a smaller step size, a number once the kernel is built."""
    name: ClassVar[str] = "hmc"
    uniforms = 3
    shared = 1

    def __post_init__(self) -> None:
        ok = is_number(self.jitter) and 0 <= self.jitter < 1
        require(ok, "jitter must lie in [0, 1)", self.jitter, "use 0.3, or 0 for a fixed step size")
        if self.small_steps is None:
            is_open = self.tunes_step_size and self.jitter > 0
            object.__setattr__(self, "small_steps", SMALL_STEPS if is_open else 0.0)
        ok = is_number(self.small_steps) and 0 <= self.small_steps < 1
        require(ok, "small_steps must lie in [0, 1)", self.small_steps, "use 0.2, or 0 for none")
        object.__setattr__(self, "small_steps", float(self.small_steps))  # 0 and 0.0 are the same program

    @property
    def moves(self) -> int:
        """The number of moves in one iteration of ``sample``; shorter trajectories mean more moves."""
        return self.num_integration_steps.moves

    def describe(self) -> dict[str, object]:
        """Return the settings of this kernel for display, including the longest trajectory in steps."""
        return {**super().describe(), "longest_trajectory": int(self.num_integration_steps.num_steps)}

    def lengthened(self, quarter: float) -> HMC:
        """Return this kernel for a mode in which a quarter of the slowest period takes ``quarter`` steps."""
        return updated(self, num_integration_steps=self.num_integration_steps.lengthened(quarter))

    def with_small_steps(self, share: float) -> HMC:
        """Return this kernel with another share of moves with smaller steps."""
        return updated(self, small_steps=share)

    def refresh(self, uniforms: Float[Array, " shared"]) -> HMC:
        """Draw the length of the next trajectory, the same for all chains."""
        return updated(self, num_integration_steps=self.num_integration_steps.drawn(uniforms[0]))

    def factor(self, uniform: Energy) -> Energy:
        """Return the factor of the step size, drawn with a ``uniform`` number between 0 and 1.

        It does not depend on the position, so every move leaves the target invariant.
        """
        share = self.small_steps
        usual = 1.0 + self.jitter * (2.0 * (uniform - share) / (1.0 - share) - 1.0)
        small = SMALLEST ** (uniform / jnp.maximum(share, 1e-6))
        return jnp.where(uniform < share, small, usual)

    def step_by(
        self,
        normal: Float[Array, " dim"],
        uniform: Float[Array, " uniforms"],
        rng_key: Key[Array, ""],
        state: ChainState,
        target: TiltedTarget,
    ) -> tuple[ChainState, TransitionInfo]:
        """Draw y ~ N(0, M), follow a trajectory, and accept its end point with probability min(1, r)."""
        u_level, u_jitter, u_accept = uniform
        level = target.draw_level(u_level, state)
        step_size = self.step_size_at(target, level, self.factor(u_jitter))
        num_steps = self.num_integration_steps.num_steps

        metric = self.metric.at_level(level)
        before = metric.at(target, state.position)
        momentum = before.momentum(normal)
        follow, most = self.flow(target, level, step_size), self.num_integration_steps.most
        proposal, new_momentum, solved = follow(state, momentum, num_steps, most)

        after = metric.at(target, proposal.position)
        kinetic = before.kinetic_energy(momentum), after.kinetic_energy(new_momentum)
        gradients = num_steps * self.integrator.gradients
        return conclude(u_accept, target, level, state, proposal, kinetic=kinetic, solved=solved, n_steps=gradients)
