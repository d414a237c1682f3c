"""The generalised leapfrog, for kinetic energies that depend on the position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from sahmc._support.pytree import strategy
from sahmc._support.validate import require, require_count
from sahmc.hamiltonian.integrators import Flow, Integrator
from sahmc.hamiltonian.riemannian import PointKinetic, PositionMetric
from sahmc.tilt.target import ChainState, TiltedTarget
from sahmc.tilt.tilts import Energy, Level

Vector = Float[Array, " dim"]
RETURN_TOLERANCES = 10.0
"""How far from where it began, in tolerances, a step may come back to."""


@strategy
class GeneralisedLeapfrog(Integrator):
    """Half a kick, a drift, half a kick; the first two implicit, solved by fixed-point iteration.

    y_1/2 = y - eps/2 dH/dx(x, y_1/2);  x' = x + eps/2 (G(x)^-1 + G(x')^-1) y_1/2;  y' = y_1/2 - eps/2 dH/dx(x', y_1/2).

    Where both equations are solved this is reversible and preserves volume. Every step is checked: the solutions must
    be known to ``tolerance``, in units in which position and momentum vary by about 1, and the step back must lead to
    where it began; otherwise the step is not ``solved``. What is left unsolved is not seen by the decision, so the
    tolerance must be small: None is 2e-5 in float32 and 1e-8 in float64.
    """

    tolerance: Any = None
    max_iterations: Any = 30
    name: ClassVar[str] = "generalised_leapfrog"

    def __post_init__(self) -> None:
        size = self.tolerance
        ok = size is None or (np.ndim(size) == 0 and 0 < size < 1)
        require(ok, "tolerance must lie in (0, 1)", size, "leave it None")
        require_count(self.max_iterations, "max_iterations")

    @property
    def gradients(self) -> int:
        """Two, since every step is also taken back. Derivatives of the metric come on top."""
        return 2

    def flow(self, target: TiltedTarget, level: Level, metric: PositionMetric, step_size: Energy) -> Flow:
        half = 0.5 * step_size
        kick = target.kick(level, half)
        precision = float(jnp.finfo(step_size.dtype).eps)
        tolerance, rounding = (
            max(precision ** (2 / 3), 1e-8) if self.tolerance is None else self.tolerance,
            8 * precision,
        )

        def prepare(position: Vector) -> tuple[PointKinetic, Callable[[Vector], Vector]]:
            """The kinetic energy at a position, and its gradient in x as a function of momentum."""
            matrix, pull = jax.vjp(lambda x: metric.matrix(target, x), position)
            kinetic = PointKinetic.of(matrix)
            inverse = kinetic.inverse()

            def gradient(momentum: Vector) -> Vector:
                velocity = inverse @ momentum
                return pull(0.5 * (inverse - jnp.outer(velocity, velocity)))[0]

            return kinetic, gradient

        def solve(function: Callable[[Vector], Vector], guess: Vector, size: Callable[[Vector], Energy]) -> Any:
            """The fixed point of a function, and whether it was reached.

            If changes shrink by a factor r the distance still to go is change r / (1 - r); where they do not shrink
            the search ends.
            """

            def to_go(change: Energy, ratio: Energy) -> Energy:
                return change * ratio / jnp.maximum(1.0 - ratio, precision)

            def reached(value: Vector, change: Energy, ratio: Energy) -> Any:
                floor = rounding * size(value)
                return (change <= floor) | ((ratio < 1.0) & (to_go(change, ratio) <= tolerance + floor))

            def more(carry: Any) -> Any:
                value, change, ratio, count = carry
                hopeful = (count < 2) | ((ratio < 1.0) & (count < self.max_iterations))
                return ~reached(value, change, ratio) & hopeful

            def iterate(carry: Any) -> Any:
                value, change, _, count = carry
                new = function(value)
                new_change = size(new - value)
                ratio = jnp.where(count > 0, new_change / change, 1.0)
                return new, new_change, ratio, count + 1

            far, one = jnp.asarray(jnp.finfo(guess.dtype).max, guess.dtype), jnp.ones((), guess.dtype)
            first = guess, far, one, jnp.zeros((), jnp.int32)
            value, change, ratio, _ = jax.lax.while_loop(more, iterate, first)
            return value, reached(value, change, ratio)

        def step(state: ChainState, momentum: Vector) -> tuple[ChainState, Vector, Bool[Array, ""]]:
            here, gradient = prepare(state.position)
            kicked = momentum - kick(state)
            middle, solved_y = solve(lambda y: kicked - half * gradient(y), kicked, lambda y: here.size(0 * y, y))
            velocity = here.velocity(middle)
            drifted = state.position + half * velocity
            position, solved_x = solve(
                lambda x: drifted + half * metric.at(target, x).velocity(middle),
                drifted + half * velocity,
                lambda x: here.size(x, 0 * x),
            )
            new = target.evaluate(position)
            new_gradient = prepare(position)[1]
            return new, middle - kick(new) - half * new_gradient(middle), solved_y & solved_x

        def checked(_: Any, carry: tuple[ChainState, Vector, Bool[Array, ""]]) -> Any:
            state, momentum, solved = carry

            def turn(carry: tuple[ChainState, Vector], _: Any) -> Any:
                new, new_momentum, found = step(*carry)
                return (new, -new_momentum), (new, new_momentum, found)

            _, (ends, momenta, found) = jax.lax.scan(turn, (state, momentum), None, 2)  # a step, and the step back
            here = metric.at(target, state.position)
            off = here.size(ends.position[1] - state.position, momenta[1] + momentum)
            returned = off <= RETURN_TOLERANCES * (tolerance + rounding * here.size(state.position, momentum))
            new, new_momentum = jax.tree.map(lambda x: x[0], (ends, momenta))
            return new, new_momentum, solved & found.all() & returned

        def advance(state: ChainState, momentum: Vector, num_steps: Any) -> Any:
            return jax.lax.fori_loop(0, num_steps, checked, (state, momentum, jnp.ones((), bool)))

        return advance
