"""Integrators of Hamilton's equations: discrete steps that are reversible and preserve volume."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from sahmc._support.platform import on_accelerator
from sahmc._support.pytree import strategy
from sahmc._support.types import Vector
from sahmc._support.validate import Given, require_known
from sahmc.hamiltonian.metrics import ConstantMetric
from sahmc.tilt.target import ChainState, TiltedTarget
from sahmc.tilt.tilts import Energy, Level

NumSteps = int | Int[Array, ""]
"""A number of steps; an int is known when the program is compiled, an array is not."""
C = TypeVar("C")
UNROLLED = 32
"""The bound on the number of steps below which a loop is unrolled on accelerators, which are slow at loops."""


Flow = Callable[..., tuple[ChainState, Vector, bool | Bool[Array, ""]]]
"""A map (state, momentum, number of steps) -> (state, momentum, whether every step was solved).

A last, optional argument is the maximum number of steps, if that is known when the program is compiled."""


class Integrator(ABC):
    """The interface of an integrator of Hamilton's equations."""

    name: ClassVar[str]
    """The name you pass to select it."""

    @property
    @abstractmethod
    def gradients(self) -> int:
        """The number of gradients per step."""

    @abstractmethod
    def flow(self, target: TiltedTarget, level: Level, metric: Any, step_size: Energy) -> Flow:
        """Return the map that follows the target at ``level`` for any number of steps of ``step_size``."""


class Splitting(Integrator):
    """An integrator of alternating kicks y - b eps grad and drifts x + a eps M^-1 y, symmetric in time.

    One step is kick b_0, drift a_1, kick b_1, ..., drift a_s, kick b_s = b_0. The force depends on the position alone,
    so the map is reversible and preserves volume for any force.
    """

    kicks: ClassVar[tuple[float, ...]]
    """The numbers b_0, ..., b_s."""
    drifts: ClassVar[tuple[float, ...]]
    """The numbers a_1, ..., a_s."""

    @property
    def gradients(self) -> int:
        """The number of gradients per step, one after each of the s drifts."""
        return len(self.drifts)

    def flow(self, target: TiltedTarget, level: Level, metric: ConstantMetric, step_size: Energy) -> Flow:
        """Return the map that takes many steps; the last kick of a step is merged with the first of the next."""
        kick = target.kick(level, step_size)

        def drift(a: float, position: Vector, momentum: Vector) -> ChainState:
            velocity = metric.velocity(momentum)
            return target.evaluate(position + step_size * (velocity if a == 1.0 else a * velocity))

        def step(position: Vector, momentum: Vector, last: float) -> tuple[ChainState, Vector]:
            """Take a step without its first kick, with ``last`` in place of the last b."""
            for a, b in zip(self.drifts, (*self.kicks[1:-1], last), strict=True):
                state = drift(a, position, momentum)
                position, momentum = state.position, momentum - (kick(state) if b == 1.0 else b * kick(state))
            return state, momentum

        def inner(_: NumSteps, carry: tuple[Vector, Vector]) -> tuple[Vector, Vector]:
            state, momentum = step(*carry, last=2 * self.kicks[0])  # includes the first kick of the next step
            return state.position, momentum

        def advance(
            state: ChainState, momentum: Vector, num_steps: NumSteps, most: int | None = None
        ) -> tuple[ChainState, Vector, bool]:
            # The loop carries only positions and momenta: energies are computed only if the force needs them.
            carry = state.position, momentum - self.kicks[0] * kick(state)
            most = num_steps if isinstance(num_steps, int) else most
            position, momentum = _repeat(inner, num_steps - 1, None if most is None else most - 1, carry)
            return *step(position, momentum, last=self.kicks[0]), True

        return advance


def _repeat(body: Callable[[NumSteps, C], C], count: NumSteps, most: int | None, carry: C) -> C:
    """Apply ``body`` to ``carry`` ``count`` times, in a loop, or unrolled where loops are slow.

    If ``count`` is known only at run time, the unrolled program always makes ``most`` applications and discards the
    surplus.
    """
    if most == 0:
        return carry
    if most is None or most >= UNROLLED or not on_accelerator():
        return jax.lax.fori_loop(0, count, body, carry)
    for i in range(most):
        new = body(i, carry)
        carry = new if isinstance(count, int) else jax.tree.map(partial(jnp.where, i < count), new, carry)
    return carry


@strategy
class Leapfrog(Splitting):
    """The leapfrog: half a kick, a drift, half a kick; second order, one gradient a step."""

    name: ClassVar[str] = "leapfrog"
    kicks: ClassVar[tuple[float, ...]] = (0.5, 0.5)
    drifts: ClassVar[tuple[float, ...]] = (1.0,)


@strategy
class MinimumNorm(Splitting):
    """The second-order integrator with two gradients a step and the smallest error constant (McLachlan 1995).

    It has kicks b, 1 - 2b, b around two half drifts. Use it if the acceptance probability limits the step size, as it
    does in many dimensions.
    """

    name: ClassVar[str] = "minimum_norm"
    kicks: ClassVar[tuple[float, ...]] = (0.1931833275037836, 0.6136333449924328, 0.1931833275037836)
    drifts: ClassVar[tuple[float, ...]] = (0.5, 0.5)


INTEGRATORS: dict[str, type[Splitting]] = {i.name: i for i in (Leapfrog, MinimumNorm)}
"""All integrators for a constant metric, by name."""


def splitting_integrator(integrator: Given) -> Splitting:
    """Return the integrator given as an object or by name; raise ``ValueError`` for anything else."""
    if isinstance(integrator, Splitting):
        return integrator
    require_known(integrator, INTEGRATORS, "integrator")
    return INTEGRATORS[integrator]()
