"""The interface of a kernel. To write your own, this is the only file you need to import."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, Key

from sahmc._support.noise import make_noise
from sahmc._support.pytree import converted as converted
from sahmc._support.pytree import strategy as strategy
from sahmc._support.types import Unravel
from sahmc._support.validate import MOST, Given, is_number, require
from sahmc.hamiltonian.integrators import Flow
from sahmc.hamiltonian.spread import Spread as Spread
from sahmc.kernels.decision import DIVERGENCE, decide, is_diverging, log_accept_ratio
from sahmc.tilt.target import ChainState as ChainState
from sahmc.tilt.target import TiltedTarget as TiltedTarget
from sahmc.tilt.tilts import Energy, Level


class Proposal(NamedTuple):
    """What a move proposed."""

    position: Float[Array, " dim"]
    energy: Float[Array | np.ndarray, ""]
    """The energy U there, including the prior's share."""


class TransitionInfo(NamedTuple):
    """Diagnostics of one move; sampling does not depend on them. Names follow ArviZ."""

    acceptance_rate: Energy
    """The acceptance probability of the proposal; for a tree, the mean over its leaves."""
    mechanical_acceptance: Energy
    """The number min(1, exp(-energy_error)), which tunes the step size; nan for a jump, which has no trajectory."""
    is_accepted: Bool[Array, ""]
    energy_error: Energy
    """The energy error of the integrated dynamics. Theta is left out: it differs by hundreds between regions."""
    diverging: Bool[Array, ""]
    """Whether ``energy_error`` is so large that the trajectory diverged."""
    failed: Bool[Array, ""]
    """Whether an implicit step did not converge or is not reversible; the move is then rejected."""
    n_steps: Int[Array, ""]
    """The number of gradient evaluations."""
    tree_depth: Int[Array, ""]
    """The number of doublings of a trajectory that grows as a tree; 0 for other kernels."""
    level: Level
    """The level of the tilt at which the move ran. A jump runs at no level, so one is drawn after it."""
    proposal: Proposal | None = None
    """The proposal, whether or not it was accepted; None if the kernel reports none."""


class Kernel(ABC):
    """A transition that leaves exp(-U - Theta(U)) invariant while theta is fixed.

    You may leave the step size and the metric of a kernel open; the warm-up fills them in with ``tuned``.
    """

    name: ClassVar[str]
    """The name you pass to select it."""
    uses_gradient: ClassVar[bool]
    """Whether states must hold the gradient of the energy."""
    rung_moves: ClassVar[int] = 16
    """The number of moves at one temperature of the climb, enough to settle there.

    Spending these moves on more temperatures instead gains less.
    """
    max_tree_depth: int = 0
    """The maximum ``tree_depth`` of a kernel whose trajectories grow; 0 for other kernels."""
    uniforms: int | None = None
    """The number of uniform random numbers that ``step_by`` takes; None for a kernel that has only ``step``."""
    shared: int = 0
    """The number of uniform random numbers that ``refresh`` takes."""
    step_size: Given
    """The step size, a positive number; None while it is open."""

    @property
    def tunes_step_size(self) -> bool:
        """Whether the step size is still open."""
        return self.step_size is None

    @property
    def moves(self) -> int:
        """The number of moves in one iteration of ``sample``; cheap moves are grouped to about ten gradients."""
        return 1

    @property
    def uses_spread(self) -> bool:
        """Whether ``tuned`` needs the spread of draws."""
        return False

    def describe(self) -> dict[str, object]:
        """Return the settings of this kernel for display, in a form that fits JSON."""
        return {"name": self.name, "moves": self.moves}

    def check(self, dim: int) -> None:  # noqa: B027
        """Raise ``ValueError`` if this kernel does not fit positions of this dimension."""

    def bound(self, unravel: Unravel, example: Float[Array, " dim"]) -> Kernel:
        """Return this kernel for flat positions like ``example``; ``unravel`` restores the user's structure."""
        return self

    @abstractmethod
    def tuned(self, step_size: ArrayLike, spread: Spread) -> Kernel:
        """Return this kernel with all open settings filled in, and nothing else changed.

        ``spread`` is the spread of draws within chains; a metric or a scale is estimated from it.
        """

    def lengthened(self, quarter: float) -> Kernel:
        """Return this kernel with trajectories of about ``quarter`` steps, if their length was left open.

        ``quarter`` is a quarter of the slowest period, in steps.
        """
        return self

    @property
    def may_be_dense(self) -> bool:
        """Whether the metric should become dense where coordinates are strongly correlated."""
        return False

    def with_covariance(self, covariance: np.ndarray) -> Kernel:
        """Return this kernel with a dense metric, if it can have one; ``covariance`` is that of the position."""
        return self

    def with_small_steps(self, share: float) -> Kernel:
        """Return this kernel with this share of moves with smaller steps, if it makes such moves."""
        return self

    def with_variances(self, variances: np.ndarray) -> Kernel:
        """Return this kernel with these variances in its metric, if that is diagonal and was left open.

        They are variances of the position: (dim,), or (level, dim) with a row for each level of the ladder.
        """
        return self

    def flow(self, target: TiltedTarget, level: Level, step_size: Energy) -> Flow | None:
        """Return the deterministic part of a move, which must be reversible and preserve volume; None without one."""
        return None

    def refresh(self, uniforms: Float[Array, " shared"]) -> Kernel:
        """Return this kernel with new random values for what all chains share in one move, such as trajectory length.

        It takes ``shared`` uniform numbers. If every chain had a length of its own, all would wait for the longest.
        """
        return self

    def step(
        self, rng_key: Key[Array, ""], state: ChainState, target: TiltedTarget
    ) -> tuple[ChainState, TransitionInfo]:
        """Draw one transition of one chain; return the new state and its diagnostics.

        A kernel implements this method, or both ``step_by`` and ``uniforms``.
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
        """Make one transition as ``step`` does, from random numbers that were drawn for all chains at once.

        There is one ``normal`` number for each coordinate, and there are ``uniforms`` numbers on (0, 1). Draw any
        further numbers from ``rng_key``.
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
    """Accept or reject by the tilted energies, and report the mechanical ones.

    ``kinetic`` holds the kinetic energies before and after. A kernel with a proposal density q passes -log q(x* | x)
    and -log q(x | x*) instead, up to a common constant. A proposal is rejected if any step towards it was not
    ``solved``. ``n_steps`` is the number of gradient evaluations. A mechanical error above ``divergence`` is reported
    as a divergence. A kernel without a trajectory passes ``jnp.inf``: for it a large error is merely a rejection.
    """
    before, after = kinetic
    energy_error = target.potential(proposal, level) + after - target.potential(state, level) - before
    log_ratio = log_accept_ratio(target.decision(state, level) + before, target.decision(proposal, level) + after)
    solved, proposed = jnp.asarray(solved), Proposal(proposal.position, proposal.total_energy)
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
        proposal=proposed,
    )


def draw_noise(
    rng_key: Key[Array, ""], like: Float[Array, " dim"], uniforms: int
) -> tuple[Float[Array, " dim"], Float[Array, " uniforms"]]:
    """Draw z ~ N(0, I) in the shape of a position, and ``uniforms`` numbers on (0, 1).

    A kernel with ``step_by`` receives the same numbers, drawn for all chains at once.
    """
    noise = make_noise(rng_key, 1, like.shape[0], uniforms, 0, like.dtype, 0)
    normal, uniform = noise.of_chains(1, like.shape[0])
    return normal[0], uniform[0]


def checked_step_size(step_size: Given) -> Given:
    """Return the step size: a positive number, or None to have it tuned. Raise ``ValueError`` for anything else."""
    require(
        step_size is None or (is_number(step_size) and 0 < step_size < MOST),
        "step_size must be a positive number",
        step_size,
        "pass one, or None to have it tuned",
    )
    return step_size
