"""Jumps between known modes, mixed with the moves of another kernel."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from sahmc._support.pytree import strategy, updated
from sahmc.kernels.around import Around
from sahmc.kernels.base import Kernel, Proposal, TransitionInfo
from sahmc.kernels.decision import decide
from sahmc.modes.modes import Modes
from sahmc.modes.reference import Reference
from sahmc.modes.shifts import Shifts
from sahmc.symmetry.fold import Fold
from sahmc.tilt.target import ChainState, TiltedTarget
from sahmc.tilt.tilts import Energy, Level

JUMP_SHARE = 1 / 3
"""The share of moves that are jumps, once two modes are known."""
SHIFT_SHARE, FRESH_BESIDE_SHIFTS = 0.6, 0.03
"""The share of moves that are shifts or draws from the reference, and the share of the latter alone.

They apply if there are too many modes to list. The reference is then one Gaussian over all of them."""


@strategy
class Jump(Around):
    """The moves of ``kernel``, with occasional jumps to the corresponding point of another mode.

    Each position belongs to one mode, k. The jump draws another mode, k', and proposes x' = m' + L' L^-1 (x - m).
    Here m and L L' are the mean and covariance of a mode. The acceptance ratio is a product of three factors: the
    ratio of the tilted densities, |L'| / |L|, and the ratio of the probabilities of drawing k and k'. If x' does not
    belong to k' the jump is rejected, so that every jump is reversible. This is exact however poor the estimates of
    the modes are: poor ones only lower the acceptance probability.

    If there are too many modes to list, x' is the position shifted by one of the displacements ``shifts``, forwards
    or backwards.

    If modes have copies, the position is folded first and the jump is made in the domain of the fold. The proposal is
    then a random copy of its end point. This too is exact, whether or not the copies are true.

    If the ladder ends in a ``reference`` q, half of these moves propose a draw from q itself; if only one mode is
    known, all do. The ratio of the tilted densities is then divided by the ratio of q.
    """

    kernel: Kernel
    modes: Modes
    reference: Reference | None = None
    """The reference, which is the base measure of the target; None without one."""
    now: bool | Bool[Array, ""] = False
    """Whether the next move is a jump."""
    shifts: Shifts | None = None
    """The displacements by which chains jump if there are too many modes to list; None otherwise."""
    fresh: bool | Bool[Array, ""] = False
    """Whether that jump proposes a draw from the reference."""
    fold: Fold | None = None
    """The fold, if modes have copies. Jumps are made in its domain; those that leave it are rejected."""
    name: ClassVar[str] = "jump"
    uses_gradient: ClassVar[bool] = True

    def describe(self) -> dict[str, object]:
        """Return the settings of ``kernel`` for display, and that there are jumps."""
        return {**super().describe(), "jumps": True}

    @property
    def uniforms(self) -> int:  # type: ignore[override]
        """The number of uniform numbers: as many as ``kernel`` takes, and at least three for a jump."""
        return max(3, self.kernel.uniforms or 0)

    @property
    def shared(self) -> int:  # type: ignore[override]
        """The number of shared uniform numbers, one more than ``kernel`` takes."""
        return 1 + self.kernel.shared

    def refresh(self, uniforms: Float[Array, " shared"]) -> Jump:
        """Draw whether all chains or none try to jump in this move, and what chains share in a move of ``kernel``."""
        kernel, uniform, many = self.kernel.refresh(uniforms[1:]), uniforms[0], self.modes.num > 1
        if self.reference is None:
            return updated(self, kernel=kernel, now=(uniform < JUMP_SHARE) & many)
        jumps, drawn = (JUMP_SHARE, 0.5 * JUMP_SHARE) if self.shifts is None else (SHIFT_SHARE, FRESH_BESIDE_SHIFTS)
        now, fresh = uniform < jnp.where(many, jumps, drawn), uniform < drawn
        return updated(self, kernel=kernel, now=now, fresh=fresh)

    def step_by(
        self,
        normal: Float[Array, " dim"],
        uniform: Float[Array, " uniforms"],
        rng_key: Key[Array, ""],
        state: ChainState,
        target: TiltedTarget,
    ) -> tuple[ChainState, TransitionInfo]:
        """Make a jump if one was drawn, else a move of ``kernel``."""
        return jax.lax.cond(self.now, self._jump, self._move, normal, uniform, rng_key, state, target)

    def _move(
        self,
        normal: Float[Array, " dim"],
        uniform: Float[Array, " uniforms"],
        rng_key: Key[Array, ""],
        state: ChainState,
        target: TiltedTarget,
    ) -> tuple[ChainState, TransitionInfo]:
        """Make a move of ``kernel``, which may take fewer numbers than a jump."""
        state, info = self.kernel.step_by(normal, uniform[: self.kernel.uniforms], rng_key, state, target)
        none = Proposal(state.position, state.total_energy)
        return state, info._replace(proposal=none if info.proposal is None else info.proposal)

    def _jump(
        self,
        noise: Float[Array, " dim"],
        uniform: Float[Array, " uniforms"],
        rng_key: Key[Array, ""],
        state: ChainState,
        target: TiltedTarget,
    ) -> tuple[ChainState, TransitionInfo]:
        """Make a jump."""
        modes = self.modes
        u_mode, u_accept, u_level = uniform[:3]
        start = state.position if self.fold is None else self.fold(state.position)
        here = modes.nearest(start)
        there, log_chance, log_chance_back = self._draw_mode(u_mode, here)
        position = modes.carry(start, here, there)
        if self.shifts is not None:
            position = start + self.shifts.draw(u_mode)
        if self.reference is not None:
            position = jnp.where(self.fresh, self.reference.draw(u_mode, noise), position)
        copy = position if self.fold is None else self.fold.group.random(rng_key, position)(position)
        proposal = target.evaluate(copy)

        log_ratio, back = target.tilted_energy(state) - target.tilted_energy(proposal), jnp.ones((), bool)
        if self.shifts is None:
            log_ratio += modes.log_det[there] - modes.log_det[here] + log_chance_back - log_chance
            back = modes.nearest(position) == there
        if state.base is not None and proposal.base is not None and self.reference is not None:
            # the base measure is q, so it cancels and only the tilt of E remains
            without = target.tilted_energy(state) - target.tilted_energy(proposal)
            without += proposal.base.energy - state.base.energy
            log_ratio, back = jnp.where(self.fresh, without, log_ratio), back | self.fresh
        if self.fold is not None:
            back &= self.fold.inside(position)
        log_ratio = jnp.where(back & ~jnp.isnan(log_ratio), log_ratio, -jnp.inf)
        state, accepted = decide(u_accept, log_ratio, state, proposal)
        nothing = jnp.asarray(jnp.nan, state.position.dtype)
        return state, TransitionInfo(
            acceptance_rate=jnp.exp(jnp.minimum(log_ratio, 0.0)),
            mechanical_acceptance=nothing,
            is_accepted=accepted,
            energy_error=nothing,
            diverging=jnp.zeros((), bool),
            failed=jnp.zeros((), bool),
            n_steps=jnp.ones((), jnp.int32),
            tree_depth=jnp.zeros((), jnp.int32),
            level=target.draw_level(u_level, state),
            proposal=Proposal(proposal.position, proposal.total_energy),
        )

    def _draw_mode(self, uniform: Energy, here: Level) -> tuple[Level, Energy, Energy]:
        """Draw another mode, half of the time in proportion to weight and half of the time uniformly.

        Return its index, the log probability of drawing it from ``here``, and that of drawing ``here`` from it.
        """
        known = jnp.arange(len(self.modes.weight)) < self.modes.num
        share = jnp.where(known, 0.5 * self.modes.weight + 0.5 / self.modes.num, 0.0)
        others = jnp.where(jnp.arange(len(share)) == here, 0.0, share)
        up_to = jnp.cumsum(others)
        there = jnp.minimum(jnp.sum(up_to < uniform * up_to[-1]), self.modes.num - 1)
        total = jnp.sum(share)
        return there, jnp.log(share[there] / (total - share[here])), jnp.log(share[here] / (total - share[there]))
