"""The tilted target: all that a kernel sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sahmc._support.pytree import strategy
from sahmc._support.traced import Program, trace
from sahmc._support.validate import require
from sahmc.models.model import Model, as_model
from sahmc.models.positions import View
from sahmc.tilt.tilts import Energy, Level, Theta, Tilt

Vector = Float[Array, " dim"]


class Base(NamedTuple):
    """The prior's share of the energy, on which the tilt does not act."""

    energy: Energy
    grad: Any


class ChainState(NamedTuple):
    """What the next step needs, the same for all kernels; untilted.

    ``energy`` is what the tilt acts on: U, or -log likelihood where the prior is the base measure. ``grad`` is None
    for kernels that need none.
    """

    position: Vector
    energy: Energy
    grad: Vector | None
    base: Base | None

    @property
    def total_energy(self) -> Any:
        """U, the prior's share included; of one chain or of many."""
        return self.energy if self.base is None else self.energy + self.base.energy


@strategy
class TiltedTarget:
    """exp(-base(x) - E(x) - Theta(E(x))): a log density, a tilt, theta, and a step size for each level."""

    program: Program
    tilt: Tilt
    theta: Float[Array, "*own regions"]
    step_scale: Float[Array, " levels"]

    @classmethod
    def build(
        cls, model: Model | Callable[[Any], Any], example: Vector, tilt: Tilt, gradient: bool = True
    ) -> TiltedTarget:
        """For a model of flat positions like ``example``: theta zero, and the tilt's own step sizes."""
        program = energy_program(as_model(model), lambda flat: flat, example, gradient)
        return cls(program, tilt, jnp.zeros(tilt.num_regions, example.dtype), tilt.step_scale.astype(example.dtype))

    def with_theta(self, theta: Theta) -> TiltedTarget:
        return TiltedTarget(self.program, self.tilt, theta, self.step_scale)

    def evaluate(self, position: Vector) -> ChainState:
        energy, grad, base = self.program(position)
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
            return tilted if state.base is None else tilted + step_size * state.base.grad

        return kick

    def decision(self, state: ChainState, level: Level) -> Energy:
        """The tilted energy, on which a proposal is accepted or rejected."""
        return _plus_base(self.tilt.decision(self.theta, state.energy, level), state)

    def tilted_energy(self, state: ChainState) -> Energy:
        """-log of the tilted density, all levels together."""
        return _plus_base(state.energy + self.tilt.bias(self.theta, state.energy), state)


def _plus_base(energy: Energy, state: ChainState) -> Energy:
    return energy if state.base is None else energy + state.base.energy


def energy_program(model: Model, unravel: Callable[[Vector], Any], example: Vector, gradient: bool) -> Program:
    """E, its gradient, and the prior's (``Base``) as one program of a flat position; the model is called once."""

    def energy_of(log_density: Callable[[Any], Any], gradient: bool) -> Callable[[Vector], Any]:
        def energy(flat: Vector) -> Any:
            value = jnp.asarray(log_density(unravel(flat)))
            require(
                value.shape == () and jnp.issubdtype(value.dtype, jnp.floating),
                "a log density must return one real number",
                f"an array of shape {value.shape} and type {value.dtype} from a position of dimension {flat.size}",
                "sum over data and coordinates; the function is given one position, never a batch of chains",
            )
            return -value.astype(flat.dtype)

        def bounded(flat: Vector) -> Any:
            """A log density of +inf is an overflow far out, not a place to stay."""
            value, grad = jax.value_and_grad(energy)(flat) if gradient else (energy(flat), None)
            return jnp.where(value == -jnp.inf, jnp.inf, value), grad

        return bounded

    def energies(flat: Vector, gradient: bool = gradient) -> Any:
        if model.log_likelihood is not None and model.log_prior is not None:
            likelihood, prior = (energy_of(fn, gradient) for fn in (model.log_likelihood, model.log_prior))
            return (*likelihood(flat), Base(*prior(flat)))
        assert model.log_density is not None
        return (*energy_of(model.log_density, gradient)(flat), None)

    try:
        return _traced(energies, example, "a log density")
    except Exception as error:
        if gradient and _works(lambda flat: energies(flat, gradient=False), example):
            raise ValueError(
                f"a log density must have a gradient; JAX cannot take that of this one: {str(error).splitlines()[0]} "
                "To fix it, write loops with lax.scan or fori_loop of a fixed length in place of lax.while_loop and "
                'give callbacks a jax.custom_vjp; or pass kernel="random_walk", which needs none.'
            ) from error
        raise


def _works(fn: Callable[[Vector], Any], example: Vector) -> bool:
    try:
        jax.eval_shape(fn, example)
    except Exception:
        return False
    return True


def keep_program(keep: Callable[[Any], Any], view: View, example: Vector) -> Program:
    """What is kept of a flat position."""
    kept = _traced(lambda flat: jax.tree.map(jnp.asarray, keep(view(flat))), example, "keep")
    require(kept.returns.num_leaves, "keep must return arrays", "none", "return what you want to look at")
    return kept


UNTRACED = (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError)


def _traced(fn: Callable[[Vector], Any], example: Vector, what: str) -> Program:
    try:
        return trace(fn, example)
    except jax.errors.NonConcreteBooleanIndexError as error:
        raise ValueError(
            f"{what} must be made of arrays whose shapes do not depend on values; got one that picks elements by a "
            "condition. To fix it, use jnp.where(condition, value, 0.0) in place of value[condition]."
        ) from error
    except UNTRACED as error:
        raise ValueError(
            f"{what} must be a JAX function of traced arrays; got one that turned its argument into a plain number, "
            "boolean, shape or NumPy array. To fix it, use jax.numpy in place of numpy and jnp.where in place of if."
        ) from error
