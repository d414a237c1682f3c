"""Tilts: ways to turn the vector theta into a function Theta of the energy; chains sample exp(-U - Theta(U)).

Every tilt describes a draw: ``bias`` is its log weight Theta(U), and ``membership`` a probability over the regions.

It also describes a move. ``draw_level`` draws a level before it. ``potential`` is the energy that drives the
trajectory, and ``kick_size`` its derivative in U times the step size. ``decision`` is the energy that decides whether
the end point is accepted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from sahmc._support.pytree import converted, strategy
from sahmc._support.validate import require
from sahmc.tilt.partition import EnergyPartition, TemperatureLadder

Theta = Float[Array, " regions"]
"""One number for each region."""
Thetas = Float[Array, "*own regions"]
"""A theta shared by all chains or, with a leading axis, one for each."""
Visited = Bool[Array, " regions"]
"""Whether each region was visited."""
Energy = Float[Array, ""]
"""A real number of one chain: an energy, or a number that is added to or compared with energies."""
Level = Int[Array, ""]
"""The index of a region or level, from 0."""


Place = Level | int
"""The index of a region, as a traced or a plain integer."""
Flag = Bool[Array, ""]
"""Whether something holds for one chain."""


class Tilt(ABC):
    """The interface of a tilt. By default no level is drawn before a move, and -grad U drives it.

    A subclass is a ``strategy``; ``converted`` checks its fields. What must hold:

    - ``membership`` is the derivative of ``bias`` in theta. A tilt that learns nothing has one region, whose theta
      stays 0.
    - ``kick_size`` belongs to ``potential``, which may be any function of U: the decision makes moves exact. The nearer
      it is to ``decision``, the more are accepted.
    - If levels are drawn, that and the ``decision`` at each leave exp(-``tilted``) invariant: see ``TemperedTilt``.
    """

    name: ClassVar[str]
    """The name you pass to select it."""
    partition_type: ClassVar[type | None] = None
    """The class of ``partition``; None for a tilt without one, which ``Result.load`` makes without arguments."""

    @property
    @abstractmethod
    def num_regions(self) -> int:
        """The number of regions, nodes or levels, m."""

    @property
    def step_scale(self) -> Float[Array, " levels"]:
        """The step size of each level that can be drawn before a move, as a multiple of the kernel's."""
        return jnp.ones(1)

    @abstractmethod
    def bias(self, theta: Theta, energy: Energy) -> Energy:
        """Return Theta(U), the log weight of a draw."""

    @abstractmethod
    def membership(self, theta: Theta, energy: Energy) -> Theta:
        """Return e, the membership of a draw: a probability over the regions."""

    @abstractmethod
    def region(self, theta: Theta, energy: Energy, level: Level) -> Level:
        """Return the region, node or level in which a draw is counted; ``level`` is that of the preceding move."""

    def draw_level(self, uniform: Energy, theta: Theta, energy: Energy) -> Level:
        """Draw the level of the next move from a ``uniform`` number between 0 and 1; always 0 by default."""
        return jnp.zeros((), jnp.int32)

    def at_ends(self, theta: Theta, energy: Energy, region: Level, bottom: Place, top: Place) -> tuple[Flag, Flag]:
        """Return whether a chain counted in ``region`` is at the ``bottom``, and whether it is at the ``top``."""
        return region <= bottom, (region >= top) & (top > bottom)

    def potential(self, theta: Theta, energy: Energy, level: Level) -> Energy:
        """Return the energy that drives a trajectory at this level; U by default."""
        return energy

    def kick_size(self, theta: Theta, level: Level, step_size: Energy) -> Callable[[Energy], Energy]:
        """Return the function U -> step_size * derivative of ``potential`` in U, made once for each trajectory."""
        return lambda energy: step_size

    def decision(self, theta: Theta, energy: Energy, level: Level) -> Energy:
        """Return the energy that decides whether the end point of a move is accepted; U + Theta(U) by default."""
        return self.tilted(theta, energy)

    def tilted(self, theta: Theta, energy: Energy) -> Energy:
        """Return U + Theta(U), -log of the tilted density up to a constant."""
        return energy + self.bias(theta, energy)

    def log_normaliser(self, theta: Theta, desired: Theta, visited: Visited) -> Energy:
        """Return log sum_i pi_i exp(theta_i), the log of the mean weight of draws if theta were exact.

        Divide weights by this mean to compare them under different theta. The sum leaves out regions that were never
        visited: theta falls there without bound and raises the others.
        """
        return jax.nn.logsumexp(jnp.where(visited, theta + jnp.log(desired), -jnp.inf))

    def log_weight(self, theta: Theta, energy: Energy, desired: Theta, visited: Visited) -> Energy:
        """Return Theta(U) - ``log_normaliser``, comparable between times and chains with different theta."""
        return self.bias(theta, energy) - self.log_normaliser(theta, desired, visited)

    def log_omega(self, theta: Thetas, frequency: Thetas) -> Thetas:
        """Return log omega_i up to a common constant, from theta and the visiting frequency of each region."""
        return theta + jnp.log(frequency)


def _of(kind: type) -> Callable[[Any], Any]:
    """Return a function that checks the type of a partition."""

    def checked(partition: Any) -> Any:
        must, todo = f"the partition of this tilt must be of type {kind.__name__}", "pass one, or the name of the tilt"
        require(isinstance(partition, kind), must, partition, todo)
        return partition

    return checked


@strategy
class NoTilt(Tilt):
    """No tilt, Theta = 0: plain HMC."""

    name: ClassVar[str] = "none"

    @property
    def num_regions(self) -> int:
        """The number of regions: one, the whole space."""
        return 1

    def bias(self, theta: Theta, energy: Energy) -> Energy:
        """Return Theta(U) = 0."""
        return jnp.zeros_like(energy)

    def membership(self, theta: Theta, energy: Energy) -> Theta:
        """Return 1 for the one region."""
        return jnp.ones_like(theta)

    def region(self, theta: Theta, energy: Energy, level: Level) -> Level:
        """Return 0, the number of the one region."""
        return jnp.zeros((), jnp.int32)


@strategy
class StepTilt(Tilt):
    """The paper's tilt: Theta(U) = theta_J(U), constant on each subregion.

    theta_i -> C + log omega_i - log(pi_i + nu).
    """

    partition: EnergyPartition = converted(_of(EnergyPartition))
    name: ClassVar[str] = "step"
    partition_type: ClassVar[type | None] = EnergyPartition

    @property
    def num_regions(self) -> int:
        """The number of subregions, one more than the number of edges."""
        return self.partition.edges.shape[-1] + 1

    def bias(self, theta: Theta, energy: Energy) -> Energy:
        """Return theta_J(U)."""
        return theta[self.partition.region(energy)]

    def membership(self, theta: Theta, energy: Energy) -> Theta:
        """Return e with e_i = 1 for i = J(U), else 0."""
        return jax.nn.one_hot(self.partition.region(energy), self.num_regions, dtype=theta.dtype)

    def region(self, theta: Theta, energy: Energy, level: Level) -> Level:
        """Return J(U)."""
        return self.partition.region(energy)


@strategy
class LinearTilt(Tilt):
    """A tilt that interpolates theta linearly between nodes u_1 < ... < u_m and is constant outside.

    The trajectory follows the flattened force -clip(1 + Theta'(U), 0, 1) grad U. This is minus the gradient of
    ``potential``, a function of U, so the leapfrog stays reversible and preserves volume. The decision, by
    U + Theta(U), makes the move exact. Without the clip the chain freezes while the gain is large.
    """

    partition: EnergyPartition = converted(_of(EnergyPartition))
    name: ClassVar[str] = "linear"
    partition_type: ClassVar[type | None] = EnergyPartition

    def __post_init__(self) -> None:
        nodes = self.partition.edges.shape[0]
        require(nodes >= 2, "a linear tilt needs at least two nodes", nodes, "pass a partition with more edges")

    @property
    def num_regions(self) -> int:
        """The number of nodes."""
        return self.partition.edges.shape[-1]

    def _nodes(self, theta: Theta) -> Theta:
        return jnp.asarray(self.partition.edges, theta.dtype)

    def _bends(self, theta: Theta) -> Theta:
        """Return the change of clip(1 + Theta', 0, 1) at each node; it is 1 below the first and above the last."""
        slopes = jnp.clip(1.0 + jnp.diff(theta) / jnp.diff(self._nodes(theta)), 0.0, 1.0)
        return jnp.diff(slopes, prepend=1.0, append=1.0)

    def bias(self, theta: Theta, energy: Energy) -> Energy:
        """Return Theta(U) = (1 - f) theta_i + f theta_{i+1}, where U = (1 - f) u_i + f u_{i+1}."""
        return jnp.interp(energy, self._nodes(theta), theta)

    def membership(self, theta: Theta, energy: Energy) -> Theta:
        """Return the interpolation weights (1 - f, f) on the two nodes around U."""
        nodes = self._nodes(theta)
        rise = jnp.clip((energy - nodes[:-1]) / jnp.diff(nodes), 0.0, 1.0)
        one = jnp.ones(1, theta.dtype)
        return jnp.concatenate([one, rise]) - jnp.concatenate([rise, 0.0 * one])

    def region(self, theta: Theta, energy: Energy, level: Level) -> Level:
        """Return the index of the node nearest to U."""
        nodes = self._nodes(theta)
        return jnp.sum(energy > 0.5 * (nodes[1:] + nodes[:-1]), dtype=jnp.int32)

    def potential(self, theta: Theta, energy: Energy, level: Level) -> Energy:
        """Return the integral of clip(1 + Theta'(U), 0, 1) over U, the potential energy of the trajectory."""
        above = jnp.maximum(energy - self._nodes(theta), 0.0)
        return energy + jnp.sum(self._bends(theta) * above)

    def kick_size(self, theta: Theta, level: Level, step_size: Energy) -> Callable[[Energy], Energy]:
        """Return the function U -> step_size * clip(1 + Theta'(U), 0, 1)."""
        slopes = jnp.concatenate([jnp.ones(1, theta.dtype), 1.0 + jnp.cumsum(self._bends(theta))])
        return lambda energy: step_size * slopes[self.partition.region(energy)]


@strategy
class TemperedTilt(Tilt):
    """The tilt exp(-U - Theta(U)) = sum_i exp(-beta_i U - theta_i). theta_i -> C + log Z(beta_i) - log pi_i.

    Before a move, a level i is drawn from the responsibilities p(i | U). The move is then ordinary HMC on
    exp(-beta_i U), with the step size of that level. This is a Gibbs step on (x, i), so it is exact for any theta.

    At beta = 0, the prior, U has no effect. A position of zero likelihood, U = inf, belongs to that level alone.
    """

    partition: TemperatureLadder = converted(_of(TemperatureLadder))
    name: ClassVar[str] = "tempered"
    partition_type: ClassVar[type | None] = TemperatureLadder

    @property
    def num_regions(self) -> int:
        """The number of levels."""
        return self.partition.betas.shape[-1]

    @property
    def step_scale(self) -> Float[Array, " levels"]:
        """The width of a Gaussian well at each level, relative to beta = 1."""
        return self.partition.step_scale

    def _betas(self, theta: Thetas) -> Theta:
        return jnp.asarray(self.partition.betas, theta.dtype)

    def _excess(self, energy: Energy) -> Energy:
        """Return U minus the reference energy; the other methods write U for this."""
        return energy - jnp.asarray(self.partition.reference, energy.dtype)

    def _share(self, theta: Theta, energy: Energy) -> Theta:
        """Return the unnormalised responsibilities exp(-beta_i U - theta_i)."""
        logits = -_times(self._betas(theta), self._excess(energy)) - theta
        return jnp.exp(logits - jnp.max(logits))

    def bias(self, theta: Theta, energy: Energy) -> Energy:
        """Return Theta(U) = -log sum_i exp((1 - beta_i) U - theta_i)."""
        return -jax.nn.logsumexp(_times(1.0 - self._betas(theta), self._excess(energy)) - theta)

    def tilted(self, theta: Theta, energy: Energy) -> Energy:
        """Return -log sum_i exp(-beta_i U - theta_i)."""
        return -jax.nn.logsumexp(-_times(self._betas(theta), self._excess(energy)) - theta)

    def membership(self, theta: Theta, energy: Energy) -> Theta:
        """Return the responsibilities p(i | U)."""
        share = self._share(theta, energy)
        return share / jnp.sum(share)

    def region(self, theta: Theta, energy: Energy, level: Level) -> Level:
        """Return the level of the preceding move."""
        return level

    def at_ends(self, theta: Theta, energy: Energy, region: Level, bottom: Place, top: Place) -> tuple[Flag, Flag]:
        """Return whether a chain is at the bottom and at the top of the ladder, by its level and its energy.

        Levels are redrawn before each move, and in few dimensions even the ends of the ladder overlap. So a chain
        counts as at one end only if its energy is more likely there than at the other.
        """
        logits = -_times(self._betas(theta), self._excess(energy)) - theta
        colder = logits[bottom] >= logits[top]
        return (region <= bottom) & colder, (region >= top) & (top > bottom) & ~colder

    def draw_level(self, uniform: Energy, theta: Theta, energy: Energy) -> Level:
        """Draw a level from the responsibilities p(i | U)."""
        share = self._share(theta, energy)
        up_to = jnp.tri(share.shape[0], dtype=share.dtype) @ share  # a running sum; this form compiles best
        return jnp.sum(up_to[:-1] < uniform * up_to[-1], dtype=jnp.int32)

    def potential(self, theta: Theta, energy: Energy, level: Level) -> Energy:
        """Return beta_i U at level i."""
        return _times(self._betas(theta)[level], self._excess(energy))

    def kick_size(self, theta: Theta, level: Level, step_size: Energy) -> Callable[[Energy], Energy]:
        """Return the function U -> step_size * beta_i at level i."""
        kick = step_size * self._betas(theta)[level]
        return lambda energy: kick

    def decision(self, theta: Theta, energy: Energy, level: Level) -> Energy:
        """Return beta_i U at level i, the same as ``potential``."""
        return self.potential(theta, energy, level)

    def log_normaliser(self, theta: Theta, desired: Theta, visited: Visited) -> Energy:
        """Return theta_1 + log pi_1; the first level is the posterior."""
        return theta[0] + jnp.log(desired[0])

    def log_omega(self, theta: Thetas, frequency: Thetas) -> Thetas:
        """Return log Z(beta_i) up to a common constant."""
        return theta + jnp.log(frequency) - self._betas(theta) * jnp.asarray(self.partition.reference, theta.dtype)


def _times(factor: Array, energy: Energy) -> Array:
    """Return factor * U; 0 if the factor is 0, even if U is infinite."""
    return jnp.where(factor == 0.0, 0.0, factor * energy)
