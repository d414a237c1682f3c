"""How the vector theta becomes a function Theta of the energy: exp(-U - Theta(U)) is what is sampled.

Every tilt answers the same questions. About a draw: ``bias``, its log weight Theta(U); ``membership``, where it is
(sums to 1). About a move: ``draw_level``, what is drawn before it; ``potential``, the energy that drives the
trajectory; ``kick_size``, the derivative of that in U, times the step size; ``decision``, the energy on which the end
point is accepted or rejected.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from sahmc._support.pytree import strategy
from sahmc._support.validate import require
from sahmc.tilt.partition import EnergyPartition, TemperatureLadder

Theta = Float[Array, " regions"]
Energy = Float[Array, ""]
Level = Int[Array, ""]


class Tilt(ABC):
    """The interface, and what most tilts share: nothing is drawn before a move, -grad U drives it."""

    name: ClassVar[str]
    partition_type: ClassVar[type | None] = None
    """What ``partition`` must be; None for a tilt that has none."""

    @property
    @abstractmethod
    def num_regions(self) -> int:
        """m."""

    @property
    def step_scale(self) -> Float[Array, " levels"]:
        """A step size for each level that can be drawn before a move, as a multiple of the kernel's."""
        return jnp.ones(1)

    @abstractmethod
    def bias(self, theta: Theta, energy: Energy) -> Energy:
        """Theta(U): the log weight of a draw."""

    @abstractmethod
    def membership(self, theta: Theta, energy: Energy) -> Theta:
        """e: where a draw is, a probability over the regions."""

    @abstractmethod
    def region(self, theta: Theta, energy: Energy, level: Level) -> Level:
        """The one region, node or level to which a draw is counted."""

    def draw_level(self, uniform: Energy, theta: Theta, energy: Energy) -> Level:
        return jnp.zeros((), jnp.int32)

    def potential(self, theta: Theta, energy: Energy, level: Level) -> Energy:
        return energy

    def kick_size(self, theta: Theta, level: Level, step_size: Energy) -> Callable[[Energy], Energy]:
        """step_size times the derivative of ``potential``: a function of the energy, prepared once for a trajectory."""
        return lambda energy: step_size

    def decision(self, theta: Theta, energy: Energy, level: Level) -> Energy:
        return energy + self.bias(theta, energy)

    def log_normaliser(self, theta: Theta, desired: Theta, visited: Array) -> Energy:
        """log of the mean weight a draw would have were theta exact: weights of different theta compare after it.

        Sum over visited regions of pi_i exp(theta_i). Regions never visited are left out, because theta falls there
        without bound and lifts the others.
        """
        return jax.nn.logsumexp(jnp.where(visited, theta + jnp.log(desired), -jnp.inf))

    def log_weight(self, theta: Theta, energy: Energy, desired: Theta, visited: Array) -> Energy:
        """Theta(U), less what makes weights under different theta (of other times, of other chains) comparable."""
        return self.bias(theta, energy) - self.log_normaliser(theta, desired, visited)

    def log_omega(self, theta: Float[Array, "*own regions"], frequency: Float[Array, "*own regions"]) -> Any:
        """log omega_i up to one constant, from theta and how often each region is visited under it."""
        return theta + jnp.log(frequency)


@strategy
class NoTilt(Tilt):
    """Theta = 0: plain HMC."""

    name: ClassVar[str] = "none"

    @property
    def num_regions(self) -> int:
        return 1

    def bias(self, theta: Theta, energy: Energy) -> Energy:
        return jnp.zeros_like(energy)

    def membership(self, theta: Theta, energy: Energy) -> Theta:
        return jnp.ones_like(theta)

    def region(self, theta: Theta, energy: Energy, level: Level) -> Level:
        return jnp.zeros((), jnp.int32)


@strategy
class StepTilt(Tilt):
    """The paper's: Theta(U) = theta_J(U), constant on each subregion. theta_i -> C + log omega_i - log(pi_i + nu)."""

    partition: EnergyPartition
    name: ClassVar[str] = "step"
    partition_type: ClassVar[type | None] = EnergyPartition

    @property
    def num_regions(self) -> int:
        return self.partition.edges.shape[-1] + 1

    def bias(self, theta: Theta, energy: Energy) -> Energy:
        return theta[self.partition.region(energy)]

    def membership(self, theta: Theta, energy: Energy) -> Theta:
        return jax.nn.one_hot(self.partition.region(energy), self.num_regions, dtype=theta.dtype)

    def region(self, theta: Theta, energy: Energy, level: Level) -> Level:
        return self.partition.region(energy)


@strategy
class LinearTilt(Tilt):
    """Theta interpolates theta linearly between nodes u_1 < ... < u_m and is constant outside.

    The trajectory follows the flattened force -clip(1 + Theta'(U), 0, 1) grad U. That is the gradient of a function
    of U, ``potential``, so the leapfrog stays reversible and volume preserving, and the decision, on U + Theta(U),
    makes the move exact. Without the clip the chain freezes while the gain is large.
    """

    partition: EnergyPartition
    name: ClassVar[str] = "linear"
    partition_type: ClassVar[type | None] = EnergyPartition

    def __post_init__(self) -> None:
        nodes = self.partition.edges.shape[0]
        require(nodes >= 2, "a linear tilt needs at least two nodes", nodes, "pass a partition with more edges")

    @property
    def num_regions(self) -> int:
        return self.partition.edges.shape[-1]

    def _nodes(self, theta: Theta) -> Theta:
        return jnp.asarray(self.partition.edges, theta.dtype)

    def _bends(self, theta: Theta) -> Theta:
        """By how much clip(1 + Theta', 0, 1) changes at each node; it is 1 below the first and above the last."""
        slopes = jnp.clip(1.0 + jnp.diff(theta) / jnp.diff(self._nodes(theta)), 0.0, 1.0)
        return jnp.diff(slopes, prepend=1.0, append=1.0)

    def bias(self, theta: Theta, energy: Energy) -> Energy:
        return jnp.interp(energy, self._nodes(theta), theta)

    def membership(self, theta: Theta, energy: Energy) -> Theta:
        """Two hat weights (1 - f, f) on the nodes around U."""
        nodes = self._nodes(theta)
        rise = jnp.clip((energy - nodes[:-1]) / jnp.diff(nodes), 0.0, 1.0)
        one = jnp.ones(1, theta.dtype)
        return jnp.concatenate([one, rise]) - jnp.concatenate([rise, 0.0 * one])

    def region(self, theta: Theta, energy: Energy, level: Level) -> Level:
        nodes = self._nodes(theta)
        return jnp.sum(energy > 0.5 * (nodes[1:] + nodes[:-1]), dtype=jnp.int32)

    def potential(self, theta: Theta, energy: Energy, level: Level) -> Energy:
        """The integral of the force scale: the energy the trajectory conserves."""
        above = jnp.maximum(energy - self._nodes(theta), 0.0)
        return energy + jnp.sum(self._bends(theta) * above)

    def kick_size(self, theta: Theta, level: Level, step_size: Energy) -> Callable[[Energy], Energy]:
        slopes = jnp.concatenate([jnp.ones(1, theta.dtype), 1.0 + jnp.cumsum(self._bends(theta))])
        return lambda energy: step_size * slopes[self.partition.region(energy)]


@strategy
class TemperedTilt(Tilt):
    """exp(-U - Theta(U)) = sum_i exp(-beta_i U - theta_i). theta_i -> C + log Z(beta_i) - log pi_i.

    Before a move a level i is drawn from the responsibilities p(i | U); the move is then ordinary HMC at
    exp(-beta_i U), with a step size of its own. That is a Gibbs step on (x, i), so it is exact for any theta.
    """

    partition: TemperatureLadder
    name: ClassVar[str] = "tempered"
    partition_type: ClassVar[type | None] = TemperatureLadder

    @property
    def num_regions(self) -> int:
        return self.partition.betas.shape[-1]

    @property
    def step_scale(self) -> Float[Array, " levels"]:
        return self.partition.step_scale

    def _betas(self, theta: Theta) -> Theta:
        return jnp.asarray(self.partition.betas, theta.dtype)

    def _excess(self, energy: Energy) -> Energy:
        return energy - jnp.asarray(self.partition.reference, energy.dtype)

    def _share(self, theta: Theta, energy: Energy) -> Theta:
        """The responsibilities, not yet normalised."""
        logits = -self._betas(theta) * self._excess(energy) - theta
        return jnp.exp(logits - jnp.max(logits))

    def bias(self, theta: Theta, energy: Energy) -> Energy:
        return -jax.nn.logsumexp((1.0 - self._betas(theta)) * self._excess(energy) - theta)

    def membership(self, theta: Theta, energy: Energy) -> Theta:
        share = self._share(theta, energy)
        return share / jnp.sum(share)

    def region(self, theta: Theta, energy: Energy, level: Level) -> Level:
        return level

    def draw_level(self, uniform: Energy, theta: Theta, energy: Energy) -> Level:
        share = self._share(theta, energy)
        up_to = jnp.tri(share.shape[0], dtype=share.dtype) @ share  # a running sum, as the product that compiles best
        return jnp.sum(up_to[:-1] < uniform * up_to[-1], dtype=jnp.int32)

    def potential(self, theta: Theta, energy: Energy, level: Level) -> Energy:
        return self._betas(theta)[level] * self._excess(energy)

    def kick_size(self, theta: Theta, level: Level, step_size: Energy) -> Callable[[Energy], Energy]:
        kick = step_size * self._betas(theta)[level]
        return lambda energy: kick

    def decision(self, theta: Theta, energy: Energy, level: Level) -> Energy:
        return self.potential(theta, energy, level)

    def log_normaliser(self, theta: Theta, desired: Theta, visited: Array) -> Energy:
        return theta[0] + jnp.log(desired[0])

    def log_omega(self, theta: Float[Array, "*own regions"], frequency: Float[Array, "*own regions"]) -> Any:
        """log Z(beta_i) up to one constant."""
        return theta + jnp.log(frequency) - self._betas(theta) * jnp.asarray(self.partition.reference, theta.dtype)
