"""The record of a run: immutable plain data, from which everything else is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from sahmc._support.frozen import Frozen
from sahmc._support.types import Position
from sahmc.models.model import Labels
from sahmc.results.warmup_record import WarmupRecord
from sahmc.tilt.partition import EnergyPartition, TemperatureLadder
from sahmc.tilt.tilts import TemperedTilt, Tilt

Count = Any
"""A number of events: an ``int``, or a scalar JAX array within the compiled loop."""


@dataclass(frozen=True)
class DrawRecord(Frozen):
    """The draws of the tilted density, with their weights; the first axes of arrays are (chain, draw)."""

    leaves: tuple[np.ndarray, ...]
    """The positions, or the named variables of a model, one array for each leaf."""
    structure: PyTreeDef
    """The pytree structure of the leaves."""
    energy: np.ndarray
    """The energy on which the tilt acts: U = -log density, or -log likelihood if the prior is separate."""
    log_density: np.ndarray
    """The log density, including the prior."""
    region: np.ndarray
    """The region of the tilt in which each draw was made: a subregion, the nearest node, or a level."""
    log_weight: np.ndarray
    """The log importance weights. The weights sum to 1 over all chains and draws, except those of the warm-up."""
    acceptance_rate: np.ndarray
    """The acceptance probability of the last move of each draw."""
    diverging: np.ndarray
    """Whether that move diverged."""
    tree_depth: np.ndarray | None = None
    """The number of doublings of the trajectory; None for kernels whose trajectories do not grow."""

    @property
    def values(self) -> Position:
        """The positions or variables in the user's structure."""
        return jax.tree.unflatten(self.structure, self.leaves)


class ThetaTrace(NamedTuple):
    """The history of theta and round trips; the first axis of all arrays is the moment."""

    moves: np.ndarray
    """The number of moves of the run so far."""
    theta: np.ndarray
    """The theta of each region, with an axis for chains before the last if each has its own."""
    desired: np.ndarray
    """The desired visiting frequencies in use."""
    round_trips: np.ndarray
    """The number of round trips of each chain so far."""
    drawing: np.ndarray
    """Whether the run was sampling, rather than adapting."""

    @classmethod
    def join(cls, *traces: ThetaTrace | None) -> ThetaTrace:
        """Return the moments of all traces in order; None stands for an empty trace."""
        return cls(*map(np.concatenate, zip(*(trace for trace in traces if trace is not None), strict=True)))


@dataclass(frozen=True)
class ThetaRecord(Frozen):
    """The learnt theta and related quantities, for each region of the tilt."""

    theta: np.ndarray
    """The final theta, with a leading chain axis if every chain has its own."""
    visits: np.ndarray
    """The number of visits while sampling, of the same shape."""
    desired: np.ndarray
    """The desired visiting frequencies."""
    step_size: np.ndarray
    """The step size at each level."""
    trace: ThetaTrace | None = None
    """The history of theta and round trips."""

    @property
    def swing(self) -> float:
        """The change of theta between neighbouring moments while sampling, in nats, without its additive constant.

        It is a root mean square over chains and visited regions, and 0 if theta was frozen. Above half a nat the draws
        are biased, because the weights assume that theta is almost at rest.
        """
        visited = self.visits.reshape(-1, self.visits.shape[-1]).any(axis=0)
        if self.trace is None or not visited.any() or self.trace.drawing.sum() < 2:
            return 0.0
        theta = self.trace.theta[self.trace.drawing][..., visited].astype(float)
        moved = np.diff(theta - theta.mean(axis=-1, keepdims=True), axis=0)
        return float(np.sqrt(np.mean(moved**2)))


class Counts(NamedTuple):
    """Counts over all chains and moves of a stage, including moves between kept draws."""

    gradients: Count
    """The number of gradient evaluations."""
    diverging: Count
    """The number of divergences."""
    failed: Count
    """The number of moves rejected because an implicit step did not converge or was not reversible."""
    deepest: Count
    """The number of trajectories that reached the maximum depth."""
    trajectories: Count
    """The number of moves with a trajectory: all except jumps."""
    jumps: Count
    """The number of attempted jumps between known modes."""
    jumps_accepted: Count
    """The number of accepted jumps."""
    cold: Count = 0
    """The number of trajectories at beta = 1; all of them if the tilt has no temperatures."""
    cold_diverging: Count = 0
    """The number of divergences among these."""


class ModeAssignment(NamedTuple):
    """The modes in the draws of a run, heaviest first, and the mode of each draw.

    Arrays have one entry for each mode, except ``label``.
    """

    minimum: np.ndarray
    """The lowest point found of each mode, (mode, dim)."""
    energy: np.ndarray
    """U = -log density at these points."""
    known: np.ndarray
    """Whether the warm-up knew the mode."""
    expected: np.ndarray
    """The mass the mode would have if all modes were Gaussian."""
    label: np.ndarray
    """The index of the mode of each draw, (chain, draw); -1 for the rest, draws that belong to no mode."""
    complete: bool = True
    """Whether the search ended because it found no new modes. If not, there may be more."""
    doubt: np.ndarray | None = None
    """The mass that may have been assigned to each mode, or withheld from it, by mistake; None if unknown."""
    copies: np.ndarray | None = None
    """The number of symmetric copies of each mode, itself included; None without symmetries."""
    lowest: tuple[np.ndarray, ...] | None = None
    """The lowest points as the user's positions or variables, (mode, ...) for each leaf of a draw."""

    def mass(self, weight: np.ndarray) -> np.ndarray:
        """Return the posterior probability of each mode, from the weights of the draws."""
        inside = self.label >= 0
        return np.bincount(self.label[inside], weight[inside], len(self.energy))

    def chains(self, cold: np.ndarray) -> np.ndarray:
        """Return the number of chains that visited each mode, by ``cold`` draws, those at beta = 1."""
        seen = np.zeros((len(self.label), len(self.energy)), bool)
        chain, draw = np.nonzero(cold & (self.label >= 0))
        seen[chain, self.label[chain, draw]] = True
        return seen.sum(axis=0)


class Rejuvenated(NamedTuple):
    """Draws after some plain transitions of a kernel, in a flat order."""

    values: Position
    """The positions or variables after the moves."""
    moved: np.ndarray
    """Whether each draw moved at all."""
    log_density: np.ndarray
    """The log density after the moves, including the prior."""


class Finding(NamedTuple):
    """A problem with a run."""

    code: str
    """The short name of the problem, for use in programs."""
    severity: str
    """The severity: "error" (do not trust the result) or "warning"."""
    sentence: str
    """The sentence that describes the problem."""
    number: float
    """The measured number."""
    advice: str
    """The sentence that says what to do."""

    def __str__(self) -> str:
        return f"{self.severity}: {self.sentence} {self.advice} [{self.code}]"


@dataclass(frozen=True)
class RunRecord(Frozen):
    """The record of a whole run."""

    draws: DrawRecord
    """The draws, with their weights."""
    learnt: ThetaRecord
    """The learnt theta, visits and step sizes."""
    counts: Counts
    """The counts over moves while sampling."""
    round_trips: np.ndarray
    """The number of trips of each chain from the bottom to the top and back while sampling."""
    num_gradients: int
    """The number of gradient evaluations in total, including the warm-up."""
    warmup: WarmupRecord
    """The findings and choices of the warm-up."""
    tilt: Tilt
    """The tilt, with its partition."""
    settings: Mapping[str, Any]
    """The arguments of the run, its seed, its duration, and versions."""
    labels: Labels = field(default_factory=Labels)
    """The dims, coords and data of the model, for ArviZ."""
    modes: ModeAssignment | None = None
    """The modes in the draws, if the run searched for them."""
    warmup_draws: DrawRecord | None = None
    """The draws of the adaptation, if you asked for them."""
    findings: tuple[Finding, ...] = ()
    """The findings, problems of the run with errors first."""
    bridge: tuple[float, float] | None = None
    """The log integral of the density and its standard error, by a bridge to a separate reference, if any."""
    prior_mass: tuple[float, float] | None = None
    """The log mass of the prior and its standard error, if measured because the ladder does not end in the prior."""

    @property
    def weight(self) -> np.ndarray:
        """The importance weights, which sum to 1 over all chains and draws."""
        return np.exp(self.draws.log_weight.astype(float))

    @property
    def cold(self) -> np.ndarray:
        """Whether each draw was made at beta = 1; true for all draws of a tilt without temperatures."""
        region = self.draws.region
        return region == 0 if isinstance(self.tilt, TemperedTilt) else np.ones(region.shape, bool)

    @property
    def partition(self) -> EnergyPartition | TemperatureLadder | None:
        """The partition of the tilt into regions; None without a tilt."""
        return getattr(self.tilt, "partition", None)

    @property
    def num_regions(self) -> int:
        """The number of regions, nodes or levels of the tilt, m of the paper."""
        return self.learnt.theta.shape[-1]
