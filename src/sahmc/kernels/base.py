"""What every kernel promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Array, Bool, Float, Int, Key

from sahmc.decision import DIVERGENCE, decide, is_diverging, log_accept_ratio
from sahmc.target import ChainState, TiltedTarget
from sahmc.tilt import Energy, Level
from sahmc.validate import require


class TransitionInfo(NamedTuple):
    """Only for diagnosis; ArviZ's names."""

    acceptance_rate: Energy
    """Probability of the decision."""
    mechanical_acceptance: Energy
    """min(1, exp(-energy_error)): what the step size is tuned on; nan for a move without a trajectory, a jump."""
    is_accepted: Bool[Array, ""]
    energy_error: Energy
    """Of the dynamics that was integrated; theta differs by hundreds between regions and must not enter."""
    diverging: Bool[Array, ""]
    n_steps: Int[Array, ""]
    """Gradients spent."""
    level: Level


class Kernel(ABC):
    """Leaves exp(-U - Theta(U)) invariant while theta is fixed.

    A kernel that a user builds may leave its step size and its metric open; ``tuned`` closes them.
    """

    name: ClassVar[str]
    uses_gradient: ClassVar[bool]
    step_size: Any

    @property
    def tunes_step_size(self) -> bool:
        return self.step_size is None

    @property
    def moves(self) -> int:
        """Moves that make one iteration of ``sample``."""
        return 1

    @property
    def covariance_rank(self) -> int:
        """What ``tuned`` wants to know of the position's covariance: 0 nothing, 1 variances, 2 the matrix."""
        return 0

    def check(self, dim: int) -> None:  # noqa: B027
        """Raise a ValueError if this kernel does not fit positions of this dimension."""

    @abstractmethod
    def tuned(self, step_size: Any, covariance: np.ndarray) -> Kernel:
        """This kernel with everything that was left open filled in, and nothing else changed."""

    def lengthened(self, quarter: float) -> Kernel:
        """This kernel for trajectories of about ``quarter``, the time that a quarter of the slowest period takes.

        Only where the length was left open.
        """
        return self

    def refresh(self, rng_key: Key[Array, ""]) -> Kernel:
        """What all chains share in one move, drawn anew: chains of different length would wait for the longest."""
        return self

    @abstractmethod
    def step(
        self, rng_key: Key[Array, ""], state: ChainState, target: TiltedTarget
    ) -> tuple[ChainState, TransitionInfo]:
        """One transition of one chain."""


def conclude(
    uniform: Energy,
    target: TiltedTarget,
    level: Level,
    state: ChainState,
    proposal: ChainState,
    *,
    kinetic: tuple[Any, Any] = (0.0, 0.0),
    n_steps: Any = 0,
    divergence: float = DIVERGENCE,
) -> tuple[ChainState, TransitionInfo]:
    """Decide on the tilted energies, and report on the mechanical ones. ``kinetic`` energies are before and after."""
    before, after = kinetic
    energy_error = target.potential(proposal, level) + after - target.potential(state, level) - before
    log_ratio = log_accept_ratio(target.decision(state, level) + before, target.decision(proposal, level) + after)
    state, accepted = decide(uniform, log_ratio, state, proposal)
    return state, TransitionInfo(
        acceptance_rate=jnp.exp(jnp.minimum(log_ratio, 0.0)),
        mechanical_acceptance=jnp.nan_to_num(jnp.exp(-jnp.maximum(energy_error, 0.0))),
        is_accepted=accepted,
        energy_error=energy_error,
        diverging=is_diverging(energy_error, divergence),
        n_steps=jnp.asarray(n_steps, jnp.int32),
        level=level,
    )


def draw_noise(rng_key: Key[Array, ""], like: Float[Array, " dim"], uniforms: int) -> tuple[Any, Any]:
    """N(0, I) in the shape of a position, and uniforms, by one call: making bits is a large part of a cheap step."""
    dim = like.shape[0]
    normal = jax.random.normal(rng_key, (dim + uniforms,), like.dtype)
    return normal[:dim], ndtr(normal[dim:])


def require_step_size(step_size: Any) -> None:
    require(
        step_size is None or (np.ndim(step_size) == 0 and 0 < step_size < np.inf),
        "step_size must be a positive number",
        step_size,
        "pass one, or None to have it tuned",
    )
