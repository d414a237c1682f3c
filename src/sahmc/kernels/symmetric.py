"""Moves of a posterior whose modes have copies, between positions of which no two are copies."""

from __future__ import annotations

from typing import ClassVar

import jax
from jaxtyping import Array, Float, Key

from sahmc._support.pytree import strategy, updated
from sahmc.kernels.around import Around
from sahmc.kernels.base import Kernel, TransitionInfo
from sahmc.kernels.jump import Jump
from sahmc.landscape.fold import Fold
from sahmc.models.group import Move
from sahmc.tilt.target import ChainState, TiltedTarget


@strategy
class Symmetric(Around):
    """A move of ``kernel`` from a random copy of a position, and back into the domain of ``fold``.

    If x has the density that the domain cuts out of a symmetric one, a random copy of it has all of that; so has the
    end of the move, and its fold has the first again. That is exact for any kernel, whatever its metric.
    """

    kernel: Kernel
    fold: Fold
    name: ClassVar[str] = "symmetric"
    uses_gradient: ClassVar[bool] = True

    @property
    def uniforms(self) -> int | None:  # type: ignore[override]
        """As many uniform numbers as ``kernel`` takes."""
        return self.kernel.uniforms

    @property
    def shared(self) -> int:  # type: ignore[override]
        """As many shared uniform numbers as ``kernel`` takes."""
        return self.kernel.shared

    def refresh(self, uniforms: Float[Array, " shared"]) -> Symmetric:
        """Draw what the chains of ``kernel`` share in one move."""
        return updated(self, kernel=self.kernel.refresh(uniforms))

    def step_by(
        self,
        normal: Float[Array, " dim"],
        uniform: Float[Array, " uniforms"],
        rng_key: Key[Array, ""],
        state: ChainState,
        target: TiltedTarget,
    ) -> tuple[ChainState, TransitionInfo]:
        """Make a move from a random copy of the state, and return the copy in the domain of where it ends."""
        key_copy, key_kernel = jax.random.split(rng_key)
        copy = moved(state, self.fold.group.random(key_copy, state.position))
        end, info = self.kernel.step_by(normal, uniform, key_kernel, copy, target)
        return moved(end, self.fold.move(end.position)), info


def moved(state: ChainState, move: Move) -> ChainState:
    """Return a chain carried along by an element of the group, which leaves its energies as they are."""
    base = state.base
    if base is not None and base.grad is not None:
        base = base._replace(grad=move(base.grad))
    grad = None if state.grad is None else move(state.grad)
    return state._replace(position=move(state.position), grad=grad, base=base)


def among_copies(kernel: Kernel, fold: Fold | None) -> Kernel:
    """Return a kernel whose chains stay in the domain of a fold; the kernel itself if there is none."""
    if fold is None:
        return kernel
    if isinstance(kernel, Jump):
        return updated(kernel, kernel=Symmetric(kernel.kernel, fold), fold=fold)
    return Symmetric(kernel, fold)
