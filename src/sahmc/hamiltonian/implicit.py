"""The generalised leapfrog, for position-dependent kinetic energies, and the iteration that solves its equations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from sahmc._support.pytree import strategy
from sahmc._support.types import Vector
from sahmc._support.validate import is_number, require, require_count
from sahmc.hamiltonian.integrators import Flow, Integrator, NumSteps
from sahmc.hamiltonian.riemannian import PointKinetic, PositionMetric
from sahmc.tilt.target import ChainState, TiltedTarget
from sahmc.tilt.tilts import Energy, Level

Scalar = Float[Array, ""]
"""A length, or a ratio of two."""
Solved = Bool[Array, ""]
"""Whether the equations of a step, or of all steps so far, were solved."""
RETURN_TOLERANCES = 10.0
"""The maximum distance, in tolerances, between the start of a step and the end of the step back."""


@strategy
class GeneralisedLeapfrog(Integrator):
    """Half a kick, a drift, half a kick; the first two are implicit and solved by fixed-point iteration.

    y_1/2 = y - eps/2 dH/dx(x, y_1/2);  x' = x + eps/2 (G(x)^-1 + G(x')^-1) y_1/2;  y' = y_1/2 - eps/2 dH/dx(x', y_1/2).

    If both equations are solved, the step is reversible and preserves volume. Every step is checked. The solutions
    must be accurate to ``tolerance``, in units in which position and momentum vary by about 1, and the step back must
    return to the start. Otherwise the step is not ``solved``. The decision does not correct the remaining error, so
    the tolerance must be small: None means 2e-5 in float32 and 1e-8 in float64.
    """

    tolerance: float | Array | None = None
    max_iterations: int | Int[Array, ""] = 30
    """The maximum number of iterations for one equation."""
    name: ClassVar[str] = "generalised_leapfrog"

    def __post_init__(self) -> None:
        size = self.tolerance
        ok = size is None or (is_number(size) and 0 < size < 1)
        require(ok, "tolerance must lie in (0, 1)", size, "leave it None")
        require_count(self.max_iterations, "max_iterations")

    @property
    def gradients(self) -> int:
        """The number of gradients per step: two, because each step is also reversed. Metric derivatives are extra."""
        return 2

    def flow(self, target: TiltedTarget, level: Level, metric: PositionMetric, step_size: Energy) -> Flow:
        """Return the map that takes many steps, checks each, and reports whether all were solved."""
        precision = float(jnp.finfo(step_size.dtype).eps)
        tolerance = max(precision ** (2 / 3), 1e-8) if self.tolerance is None else self.tolerance
        accuracy = Accuracy(tolerance, 8 * precision, precision, self.max_iterations)
        half = 0.5 * step_size
        step = ImplicitStep(target, metric, half, target.kick(level, half), accuracy)

        def advance(
            state: ChainState, momentum: Vector, num_steps: NumSteps, most: int | None = None
        ) -> tuple[ChainState, Vector, Solved]:
            start = state, momentum, jnp.ones((), bool)
            return jax.lax.fori_loop(0, num_steps, lambda _, carry: step.checked(*carry), start)

        return advance


@dataclass(frozen=True)
class ImplicitStep:
    """One step of the generalised leapfrog, prepared for a trajectory."""

    target: TiltedTarget
    metric: PositionMetric
    half: Energy
    """Half the step size."""
    kick: Callable[[ChainState], Vector]
    """Half the step size times the gradient of the potential."""
    accuracy: Accuracy

    def checked(self, state: ChainState, momentum: Vector, solved: Solved) -> tuple[ChainState, Vector, Solved]:
        """Take a step and the step back; the step is solved if both are and they return to the start.

        ``solved`` is whether all earlier steps were solved. Return the state, the momentum, and whether all steps so
        far were solved.
        """

        def turn(carry: tuple[ChainState, Vector], _: None) -> tuple[PyTree, PyTree]:
            new, new_momentum, found = self.take(*carry)
            return (new, -new_momentum), (new, new_momentum, found)

        _, (ends, momenta, found) = jax.lax.scan(turn, (state, momentum), None, 2)
        here = self.metric.at(self.target, state.position)
        off = here.size(ends.position[1] - state.position, momenta[1] + momentum)
        allowed = self.accuracy.tolerance + self.accuracy.rounding * here.size(state.position, momentum)
        new, new_momentum = jax.tree.map(lambda x: x[0], (ends, momenta))
        return new, new_momentum, solved & found.all() & (off <= RETURN_TOLERANCES * allowed)

    def take(self, state: ChainState, momentum: Vector) -> tuple[ChainState, Vector, Solved]:
        """Return the state and momentum after a kick, a drift and a kick, and whether both equations were solved."""
        here, slope = self._kinetic(state.position)
        kicked = momentum - self.kick(state)
        middle, solved_y = solve_fixed_point(
            lambda y: kicked - self.half * slope(y), kicked, lambda y: here.size(0 * y, y), self.accuracy
        )
        velocity = here.velocity(middle)
        drifted = state.position + self.half * velocity
        position, solved_x = solve_fixed_point(
            lambda x: drifted + self.half * self.metric.at(self.target, x).velocity(middle),
            drifted + self.half * velocity,
            lambda x: here.size(x, 0 * x),
            self.accuracy,
        )
        new = self.target.evaluate(position)
        new_slope = self._kinetic(position)[1]
        return new, middle - self.kick(new) - self.half * new_slope(middle), solved_y & solved_x

    def _kinetic(self, position: Vector) -> tuple[PointKinetic, Callable[[Vector], Vector]]:
        """Return the kinetic energy at a position, and its gradient in x as a function of momentum."""
        matrix, pull = jax.vjp(lambda x: self.metric.matrix(self.target, x), position)
        kinetic = PointKinetic.of(matrix)
        inverse = kinetic.inverse()

        def slope(momentum: Vector) -> Vector:
            velocity = inverse @ momentum
            return pull(0.5 * (inverse - jnp.outer(velocity, velocity)))[0]

        return kinetic, slope


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
