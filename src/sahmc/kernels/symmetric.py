"""Moves to the symmetric copies of a position."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from sahmc._support.pytree import strategy, updated
from sahmc.kernels.around import Around
from sahmc.kernels.base import Kernel, TransitionInfo
from sahmc.kernels.decision import decide
from sahmc.kernels.jump import Jump
from sahmc.symmetry.fold import Fold
from sahmc.symmetry.group import Group
from sahmc.tilt.target import ChainState, TiltedTarget

COPY_SHARE = 0.25
"""The share of moves that start from a random copy."""


@strategy
class Symmetric(Around):
    """The moves of ``kernel``, some of them from a random copy of the position, made by an element of ``group``.

    The copy is a proposal like any other: it is accepted by the ratio of the tilted densities. Half of the time the
    inverse of the element is used, so that the reverse move is equally likely. This is exact for any maps. One that
    is not a symmetry of the density only lowers the acceptance probability.
    """

    kernel: Kernel
    group: Group
    now: bool | Bool[Array, ""] = False
    """Whether the next move starts from a random copy."""
    name: ClassVar[str] = "symmetric"
    uses_gradient: ClassVar[bool] = True

    @property
    def uniforms(self) -> int | None:  # type: ignore[override]
        """The number of uniform numbers that ``kernel`` takes."""
        return self.kernel.uniforms

    @property
    def shared(self) -> int:  # type: ignore[override]
        """The number of shared uniform numbers, one more than ``kernel`` takes."""
        return 1 + self.kernel.shared

    def refresh(self, uniforms: Float[Array, " shared"]) -> Symmetric:
        """Draw whether all chains or none try a copy in this move, and what chains share in a move of ``kernel``."""
        return updated(self, kernel=self.kernel.refresh(uniforms[1:]), now=uniforms[0] < COPY_SHARE)

    def step_by(
        self,
        normal: Float[Array, " dim"],
        uniform: Float[Array, " uniforms"],
        rng_key: Key[Array, ""],
        state: ChainState,
        target: TiltedTarget,
    ) -> tuple[ChainState, TransitionInfo]:
        """Try a random copy if one is due, then make a move of ``kernel``."""
        key_copy, key_kernel = jax.random.split(rng_key)
        state = jax.lax.cond(self.now, self._copy, lambda key, state, target: state, key_copy, state, target)
        end, info = self.kernel.step_by(normal, uniform, key_kernel, state, target)
        return end, info._replace(n_steps=info.n_steps + jnp.asarray(self.now, info.n_steps.dtype))

    def _copy(self, rng_key: Key[Array, ""], state: ChainState, target: TiltedTarget) -> ChainState:
        """Return a random copy of the state if it is accepted, else the state itself."""
        key_group, key_inverse, key_accept = jax.random.split(rng_key, 3)
        move = self.group.random(key_group, state.position)
        back = jax.random.bernoulli(key_inverse)
        proposal = target.evaluate(jnp.where(back, move.inverse()(state.position), move(state.position)))
        log_ratio = target.tilted_energy(state) - target.tilted_energy(proposal)
        log_ratio = jnp.where(jnp.isnan(log_ratio), -jnp.inf, log_ratio)
        return decide(jax.random.uniform(key_accept, dtype=state.position.dtype), log_ratio, state, proposal)[0]


def among_copies(kernel: Kernel, fold: Fold | None, given: Group | None = None) -> Kernel:
    """Return a kernel whose chains visit the copies known to a fold; without any, the kernel itself.

    ``given`` is the group of symmetries to use even if no mode has copies.
    """
    group = given if fold is None else fold.group
    if group is None:
        return kernel
    if isinstance(kernel, Jump):
        return updated(kernel, kernel=Symmetric(kernel.kernel, group), fold=fold)
    return Symmetric(kernel, group)
