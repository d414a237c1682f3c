"""Hamiltonian Monte Carlo."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from sahmc.hamiltonian.integrator import leapfrog
from sahmc.hamiltonian.metric import METRICS, Metric, UnitMetric
from sahmc.kernels.base import Kernel, TransitionInfo, conclude, draw_noise, require_step_size
from sahmc.pytree import static, strategy
from sahmc.target import ChainState, TiltedTarget
from sahmc.validate import require, require_count, require_known


@strategy
class HMC(Kernel):
    """Momentum, leapfrog steps, and the decision of the paper.

    ``step_size=None`` and a metric given by name ("diagonal", "dense") are found by a pilot run.
    ``num_integration_steps`` is the length of a trajectory; a pair (low, high) draws it uniformly for each move, the
    same for all chains. None, the default, makes each iteration of ``sample`` four moves of 1 to 4 steps: modes are
    found by climbing and descending, of which many short moves do more for the same gradients than one long move.
    Where only one mode is seen the moves are fewer and longer, up to one of 1 to 16 steps, as that mode demands.
    ``jitter`` spreads the step size uniformly by that fraction to either side.
    """

    step_size: Any = None
    num_integration_steps: int | tuple[int, int] | None = static(default=None)
    metric: Any = "diagonal"
    jitter: float | int = 0.3
    longest: Any = dataclasses.field(default=4, init=False)
    length: Any = dataclasses.field(default=None, init=False)
    name: ClassVar[str] = "hmc"
    uses_gradient: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_step_size(self.step_size)
        length = self.num_integration_steps
        low, high = self._bounds
        require_count(low, "num_integration_steps")
        require_count(high, "num_integration_steps")
        require(low <= high, "a random trajectory length is a pair (low, high)", length, "swap the two")
        require(0 <= self.jitter < 1, "jitter must lie in [0, 1)", self.jitter, "use 0.3, or 0 for a fixed step size")
        if not isinstance(self.metric, Metric):
            require_known(self.metric, METRICS, "metric")
            if self.metric == "unit":
                object.__setattr__(self, "metric", UnitMetric())

    def check(self, dim: int) -> None:
        if isinstance(self.metric, Metric):
            self.metric.check_dim(dim)

    @property
    def covariance_rank(self) -> int:
        return {"diagonal": 1, "dense": 2}[self.metric] if isinstance(self.metric, str) else 0

    def tuned(self, step_size: Any, covariance: np.ndarray) -> HMC:
        metric = METRICS[self.metric].from_covariance(covariance) if isinstance(self.metric, str) else self.metric
        return dataclasses.replace(self, step_size=step_size if self.tunes_step_size else self.step_size, metric=metric)

    def lengthened(self, quarter: float) -> HMC:
        if self.num_integration_steps is not None:
            return self
        new = jax.tree.map(lambda leaf: leaf, self)
        object.__setattr__(new, "longest", int(2 ** np.clip(np.round(np.log2(2 * quarter)), 2, 4)))
        return new

    @property
    def moves(self) -> int:
        """As many as make about ten gradients, where the length is open."""
        return 1 if self.num_integration_steps is not None else max(1, 20 // (1 + self.longest))

    @property
    def _bounds(self) -> tuple[Any, Any]:
        length = (1, self.longest) if self.num_integration_steps is None else self.num_integration_steps
        return length if isinstance(length, tuple) and len(length) == 2 else (length, length)

    def refresh(self, rng_key: Key[Array, ""]) -> HMC:
        low, high = self._bounds
        if isinstance(high, int) and low == high:
            return self
        new = jax.tree.map(lambda leaf: leaf, self)
        object.__setattr__(new, "length", jax.random.randint(rng_key, (), low, high + 1))
        return new

    def step(
        self, rng_key: Key[Array, ""], state: ChainState, target: TiltedTarget
    ) -> tuple[ChainState, TransitionInfo]:
        dtype = state.position.dtype
        noise, (u_level, u_jitter, u_accept) = draw_noise(rng_key, state.position, 3)
        level = target.draw_level(u_level, state)
        spread = 1.0 + self.jitter * (2.0 * u_jitter - 1.0)
        step_size = jnp.asarray(self.step_size * target.step_scale_at(level) * spread, dtype)
        num_steps = self._bounds[1] if self.length is None else self.length

        momentum = self.metric.momentum(noise)
        proposal, new_momentum = leapfrog(target, level, self.metric, state, momentum, step_size, num_steps)

        kinetic = self.metric.kinetic_energy(momentum), self.metric.kinetic_energy(new_momentum)
        return conclude(u_accept, target, level, state, proposal, kinetic=kinetic, n_steps=num_steps)
