"""What every kernel promises, and all that one needs to be written: this file is what a kernel of your own imports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from sahmc._support.noise import make_noise
from sahmc._support.pytree import converted as converted
from sahmc._support.pytree import strategy as strategy
from sahmc._support.types import Unravel
from sahmc._support.validate import MOST, is_number, require
from sahmc.hamiltonian.integrators import Flow
from sahmc.hamiltonian.spread import Spread as Spread
from sahmc.kernels.decision import DIVERGENCE, decide, is_diverging, log_accept_ratio
from sahmc.tilt.target import ChainState as ChainState
from sahmc.tilt.target import TiltedTarget as TiltedTarget
from sahmc.tilt.tilts import Energy, Level


class TransitionInfo(NamedTuple):
    """A report on one move, only for diagnosis; ArviZ's names."""

    acceptance_rate: Energy
    """The probability with which the proposal is accepted; of a tree, the mean over its leaves."""
    mechanical_acceptance: Energy
    """The number min(1, exp(-energy_error)), on which the step size is tuned; nan for a jump, without a trajectory."""
    is_accepted: Bool[Array, ""]
    energy_error: Energy
    """The error of the dynamics that was integrated; theta differs by hundreds between regions and must not enter."""
    diverging: Bool[Array, ""]
    """Whether ``energy_error`` is so large that the integrator has lost its way."""
    failed: Bool[Array, ""]
    """Whether an implicit step did not converge or does not reverse; the move is then rejected."""
    n_steps: Int[Array, ""]
    """The number of gradients spent."""
    tree_depth: Int[Array, ""]
    """The doublings of a trajectory that grows as a tree; 0 for others."""
    level: Level
    """The level of the tilt at which the move ran; of a jump, which has none, one drawn after it."""


class Kernel(ABC):
    """A transition that leaves exp(-U - Theta(U)) invariant while theta is fixed.

    A kernel that a user builds may leave its step size and its metric open; ``tuned`` closes them.
    """

    name: ClassVar[str]
    """The name by which a user asks for it."""
    uses_gradient: ClassVar[bool]
    """Whether states must hold the gradient of the energy."""
    rung_moves: ClassVar[int] = 16
    """The moves at one temperature of the climb, enough to settle; more temperatures are worth less than these."""
    max_tree_depth: int = 0
    """The largest ``tree_depth`` of a kernel whose trajectories grow; 0 for others."""
    uniforms: int | None = None
    """The number of uniform numbers that ``step_by`` takes; None for a kernel that has ``step`` alone."""
    shared: int = 0
    """The number of uniform numbers that ``refresh`` takes."""
    step_size: Any
    """A positive number, or None while it is open."""

    @property
    def tunes_step_size(self) -> bool:
        """Whether the step size is still open."""
        return self.step_size is None

    @property
    def moves(self) -> int:
        """The number of moves that make one iteration of ``sample``: for cheap moves, as many as cost ten gradients."""
        return 1

    @property
    def uses_spread(self) -> bool:
        """Whether ``tuned`` looks at how draws spread."""
        return False

    def describe(self) -> dict[str, Any]:
        """Return what a person would want to know of this kernel, as JSON can hold it."""
        return {"name": self.name, "moves": self.moves}

    def check(self, dim: int) -> None:  # noqa: B027
        """Raise ``ValueError`` if this kernel does not fit positions of this dimension."""

    def bound(self, unravel: Unravel, example: Float[Array, " dim"]) -> Kernel:
        """Return this kernel for flat positions like ``example``, which ``unravel`` gives the user's structure."""
        return self

    @abstractmethod
    def tuned(self, step_size: Any, spread: Spread) -> Kernel:
        """Return this kernel with everything that was left open filled in, and nothing else changed.

        ``spread`` is how draws spread within chains, from which a metric or a scale is made.
        """

    def lengthened(self, quarter: float) -> Kernel:
        """Return this kernel for trajectories of about ``quarter``, if their length was left open.

        ``quarter`` is the number of steps that a quarter of the slowest period takes.
        """
        return self

    @property
    def may_be_dense(self) -> bool:
        """Whether its metric is to become dense where coordinates are strongly correlated."""
        return False

    def with_covariance(self, covariance: np.ndarray) -> Kernel:
        """Return this kernel with a dense metric of this covariance of the position, (dim, dim), if it can have one."""
        return self

    def with_variances(self, variances: np.ndarray) -> Kernel:
        """Return this kernel with these variances in its metric, if that is diagonal and was left open.

        They are of the position, (dim,), or (level, dim) for each level of the ladder.
        """
        return self

    def flow(self, target: TiltedTarget, level: Level, step_size: Energy) -> Flow | None:
        """Return the deterministic part of a move, if it has one: what must be reversible and preserve volume."""
        return None

    def refresh(self, uniforms: Float[Array, " shared"]) -> Kernel:
        """Return this kernel with what all chains share in one move drawn anew, such as the length of trajectories.

        It is drawn by ``shared`` uniform numbers. With lengths of their own chains would wait for the longest.
        """
        return self

    def step(
        self, rng_key: Key[Array, ""], state: ChainState, target: TiltedTarget
    ) -> tuple[ChainState, TransitionInfo]:
        """Draw one transition of one chain; return its new state, and what happened.

        A kernel has this, or ``step_by`` and the number of ``uniforms``.
        """
        assert self.uniforms is not None, "a kernel has step, or step_by and uniforms"
        return self.step_by(*draw_noise(rng_key, state.position, self.uniforms), rng_key, state, target)

    def step_by(
        self,
        normal: Float[Array, " dim"],
        uniform: Float[Array, " uniforms"],
        rng_key: Key[Array, ""],
        state: ChainState,
        target: TiltedTarget,
    ) -> tuple[ChainState, TransitionInfo]:
        """Make one transition as ``step`` does, by numbers that were drawn for all chains at once.

        They are a ``normal`` number for each coordinate and some ``uniform`` ones on (0, 1); ``rng_key`` is for more.
        """
        return self.step(rng_key, state, target)


def conclude(
    uniform: Energy,
    target: TiltedTarget,
    level: Level,
    state: ChainState,
    proposal: ChainState,
    *,
    kinetic: tuple[Energy | float, Energy | float] = (0.0, 0.0),
    solved: Bool[Array, ""] | bool = True,
    n_steps: Int[Array, ""] | int = 0,
    divergence: float = DIVERGENCE,
) -> tuple[ChainState, TransitionInfo]:
    """Decide on the tilted energies, and report on the mechanical ones.

    ``kinetic`` energies are before and after; a kernel that proposes x* from x by a density q passes -log q(x* | x) and
    -log q(x | x*) there, up to what both share. A proposal at which a trajectory arrived by steps not ``solved`` is
    rejected. ``n_steps`` is the number of gradients spent; a mechanical error beyond ``divergence`` is reported as one.
    A kernel without a trajectory, for which a large error means no more than a rejection, passes ``jnp.inf``.
    """
    before, after = kinetic
    energy_error = target.potential(proposal, level) + after - target.potential(state, level) - before
    log_ratio = log_accept_ratio(target.decision(state, level) + before, target.decision(proposal, level) + after)
    solved = jnp.asarray(solved)
    log_ratio = jnp.where(solved, log_ratio, -jnp.inf)
    state, accepted = decide(uniform, log_ratio, state, proposal)
    return state, TransitionInfo(
        acceptance_rate=jnp.exp(jnp.minimum(log_ratio, 0.0)),
        mechanical_acceptance=jnp.where(solved, jnp.nan_to_num(jnp.exp(-jnp.maximum(energy_error, 0.0))), 0.0),
        is_accepted=accepted,
        energy_error=energy_error,
        diverging=solved & is_diverging(energy_error, divergence),
        failed=~solved,
        n_steps=jnp.asarray(n_steps, jnp.int32),
        tree_depth=jnp.zeros((), jnp.int32),
        level=level,
    )


def draw_noise(
    rng_key: Key[Array, ""], like: Float[Array, " dim"], uniforms: int
) -> tuple[Float[Array, " dim"], Float[Array, " uniforms"]]:
    """Draw z ~ N(0, I) in the shape of a position, and as many ``uniforms`` on (0, 1).

    They are those that a kernel with ``step_by`` is given for all chains at once.
    """
    noise = make_noise(rng_key, 1, like.shape[0], uniforms, 0, like.dtype, 0)
    normal, uniform = noise.of_chains(1, like.shape[0])
    return normal[0], uniform[0]


def checked_step_size(step_size: Any) -> Any:
    """Return a step size, a positive number or None to have it tuned; raise ``ValueError`` for anything else."""
    require(
        step_size is None or (is_number(step_size) and 0 < step_size < MOST),
        "step_size must be a positive number",
        step_size,
        "pass one, or None to have it tuned",
    )
    return step_size
