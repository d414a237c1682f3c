"""Random-walk Metropolis: with a step tilt, the SAMC algorithm of section 2 of the paper."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key

from sahmc._support.pytree import converted, strategy
from sahmc._support.validate import Given, as_numbers, require
from sahmc.hamiltonian.spread import Spread
from sahmc.kernels.base import Kernel, TransitionInfo, checked_step_size, conclude
from sahmc.tilt.target import ChainState, TiltedTarget


def _checked_scale(scale: object) -> Float[Array, "*dim"] | None:
    """Return the scale as an array, or None if it is open; raise ``ValueError`` unless it is positive."""
    if scale is None:
        return None
    must = "scale must be a positive number, or a vector with one for each coordinate"
    values = as_numbers(scale, must, "pass standard deviations, or None")
    require(
        values.ndim <= 1 and np.all(np.isfinite(values)) and np.all(values > 0),
        must,
        values.tolist(),
        "pass standard deviations of the position, or None to have them estimated",
    )
    return jnp.asarray(values)


@strategy
class RandomWalk(Kernel):
    """Random-walk Metropolis, x* = x + step_size * scale * N(0, I).

    ``scale`` is a number, or one for each coordinate. The kernel uses no gradient, so it also runs on densities that
    have none. A pilot run finds ``step_size=None``, and ``scale=None`` with it. If you give a step size,
    ``scale=None`` is 1.
    """

    step_size: Given = converted(checked_step_size, default=None)
    scale: Given = converted(_checked_scale, default=None)
    """The scale: a number, one for each coordinate, or None while it is open."""
    name: ClassVar[str] = "random_walk"
    uniforms = 2
    uses_gradient: ClassVar[bool] = False

    @property
    def uses_spread(self) -> bool:
        """Whether ``scale`` is still open."""
        return self.scale is None and self.tunes_step_size

    def check(self, dim: int) -> None:
        """Raise ``ValueError`` unless ``scale`` fits positions of dimension ``dim``."""
        shape = np.shape(self.scale) if self.scale is not None else ()
        must = f"scale must have one number for each of the {dim} coordinates"
        require(shape in ((), (dim,)), must, f"a shape of {shape}", f"pass {dim} numbers, or a single one")

    def tuned(self, step_size: ArrayLike, spread: Spread) -> RandomWalk:
        """Return this kernel with the step size filled in, and ``scale`` from the standard deviations of the draws."""
        scale = jnp.sqrt(jnp.asarray(spread.variance())) if self.uses_spread else self.scale
        return dataclasses.replace(self, step_size=step_size if self.tunes_step_size else self.step_size, scale=scale)

    def step_by(
        self,
        normal: Float[Array, " dim"],
        uniform: Float[Array, " uniforms"],
        rng_key: Key[Array, ""],
        state: ChainState,
        target: TiltedTarget,
    ) -> tuple[ChainState, TransitionInfo]:
        """Draw x* and accept it with probability min(1, r)."""
        dtype = state.position.dtype
        u_level, u_accept = uniform
        level = target.draw_level(u_level, state)
        scale = 1.0 if self.scale is None else self.scale
        step = jnp.asarray(self.step_size * target.step_scale_at(level) * scale, dtype)
        proposal = target.evaluate(state.position + step * normal)
        return conclude(u_accept, target, level, state, proposal, divergence=jnp.inf)
