"""The record of a run: plain data that nothing can change, from which everything else is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from sahmc._support.frozen import Frozen
from sahmc.models.model import Labels
from sahmc.results.warmup_record import WarmupRecord
from sahmc.tilt.partition import EnergyPartition, TemperatureLadder
from sahmc.tilt.tilts import TemperedTilt, Tilt


@dataclass(frozen=True)
class DrawRecord(Frozen):
    """The draws of the tilted density, with their weights; arrays lead with (chain, draw)."""

    leaves: tuple[np.ndarray, ...]
    """The positions, or the variables of a model that names them, leaf by leaf."""
    structure: PyTreeDef
    """The pytree that the leaves belong to."""
    energy: np.ndarray
    """The energy on which the tilt acts: U = -log density, or -log likelihood where the prior is apart."""
    log_density: np.ndarray
    """The log density, the prior included."""
    region: np.ndarray
    """The region of the tilt in which each draw was made: a subregion, the nearest node, or a level."""
    log_weight: np.ndarray
    """The logs of the importance weights, which sum to 1 over all chains and draws, but for those of the warm-up."""
    acceptance_rate: np.ndarray
    """The probability with which the last move of each draw was accepted."""
    diverging: np.ndarray
    """Whether that move diverged."""
    tree_depth: np.ndarray | None = None
    """The doublings of the trajectory; None for kernels whose trajectories do not grow."""

    @property
    def values(self) -> Any:
        """The positions or variables in the user's structure."""
        return jax.tree.unflatten(self.structure, self.leaves)


class ThetaTrace(NamedTuple):
    """theta and round trips at some moments of a run, the leading axis of all arrays."""

    moves: np.ndarray
    """The number of moves of the run made by then."""
    theta: np.ndarray
    """theta of each region, with an axis for chains before the last if each has its own."""
    desired: np.ndarray
    """The desired visiting frequencies in force."""
    round_trips: np.ndarray
    """The round trips that each chain had made."""
    drawing: np.ndarray
    """Whether draws were being made."""

    @classmethod
    def join(cls, *traces: ThetaTrace | None) -> ThetaTrace:
        """Return the moments of all traces, one after the other; None stands for no moments."""
        return cls(*map(np.concatenate, zip(*(trace for trace in traces if trace is not None), strict=True)))


@dataclass(frozen=True)
class ThetaRecord(Frozen):
    """theta and what belongs to it, for each region of the tilt."""

    theta: np.ndarray
    """theta at the end of the run, with a leading chain axis where every chain has its own."""
    visits: np.ndarray
    """The visits while draws were made, of the same shape."""
    desired: np.ndarray
    """The desired visiting frequencies."""
    step_size: np.ndarray
    """The step size at each level."""
    trace: ThetaTrace | None = None
    """theta and round trips at some moments of the run."""

    @property
    def swing(self) -> float:
        """The nats by which theta moved between neighbouring moments while draws were made, its constant apart.

        That is a root mean square over chains and visited regions; 0 where theta was frozen. Draws are off where it is
        more than half a nat, since weights hold for a theta that is as good as at rest.
        """
        visited = self.visits.reshape(-1, self.visits.shape[-1]).any(axis=0)
        if self.trace is None or not visited.any() or self.trace.drawing.sum() < 2:
            return 0.0
        theta = self.trace.theta[self.trace.drawing][..., visited].astype(float)
        moved = np.diff(theta - theta.mean(axis=-1, keepdims=True), axis=0)
        return float(np.sqrt(np.mean(moved**2)))


class Counts(NamedTuple):
    """Counts over all chains and moves of a stage, those between the draws that were kept included.

    Each is an ``int``, or a scalar JAX array within the compiled loop.
    """

    gradients: Any
    """The gradients spent."""
    diverging: Any
    """The trajectories that diverged."""
    failed: Any
    """The moves rejected because an implicit step did not converge or does not reverse."""
    deepest: Any
    """The trajectories that grew to the largest depth."""
    trajectories: Any
    """The moves that took a trajectory, all but jumps."""
    jumps: Any
    """The jumps tried between known modes."""
    jumps_accepted: Any
    """The jumps that were accepted."""
    cold: Any = 0
    """The trajectories at beta = 1; all of them where a tilt knows no temperatures."""
    cold_diverging: Any = 0
    """Those of them that diverged."""


class ModeAssignment(NamedTuple):
    """The modes in the draws of a run, heaviest first, one entry of the arrays for each, and the mode of each draw."""

    minimum: np.ndarray
    """The lowest point found of each mode, (mode, dim)."""
    energy: np.ndarray
    """U = -log density at these points."""
    known: np.ndarray
    """Whether the warm-up knew the mode."""
    expected: np.ndarray
    """The mass that the mode would have if all modes were Gaussian."""
    label: np.ndarray
    """The number of the mode of each draw, (chain, draw); -1 for the rest: draws that belong to none of the modes."""
    complete: bool = True
    """Whether the search ended because no new modes turned up; there may be more of them if not."""
    doubt: np.ndarray | None = None
    """The mass that may have been counted for each mode, or not, by mistake; None if it is not known."""
    copies: np.ndarray | None = None
    """The number of copies of each mode, itself among them, that symmetries make; None where there are none."""
    lowest: tuple[np.ndarray, ...] | None = None
    """The lowest points as positions or variables of the user, (mode, ...) for each leaf of a draw."""

    def mass(self, weight: np.ndarray) -> np.ndarray:
        """Return the posterior probability of each mode, from the weights of the draws."""
        inside = self.label >= 0
        return np.bincount(self.label[inside], weight[inside], len(self.energy))

    def chains(self, cold: np.ndarray) -> np.ndarray:
        """Return how many chains were in each mode, by draws that are ``cold``: made at beta = 1."""
        seen = np.zeros((len(self.label), len(self.energy)), bool)
        chain, draw = np.nonzero(cold & (self.label >= 0))
        seen[chain, self.label[chain, draw]] = True
        return seen.sum(axis=0)


class Rejuvenated(NamedTuple):
    """Draws that were moved by plain transitions of a kernel, one after the other."""

    values: Any
    """The positions or variables after the moves."""
    moved: np.ndarray
    """Whether each draw moved at all."""
    log_density: np.ndarray
    """The log density after the moves, the prior included."""


class Finding(NamedTuple):
    """Something that is wrong with a run."""

    code: str
    """A short name of the problem, for programs."""
    severity: str
    """The severity: "error" (do not trust the result) or "warning"."""
    sentence: str
    """A sentence that says what was seen."""
    number: float
    """The number that was measured."""
    advice: str
    """A sentence that says what to do."""

    def __str__(self) -> str:
        return f"{self.severity}: {self.sentence} {self.advice} [{self.code}]"


@dataclass(frozen=True)
class RunRecord(Frozen):
    """The record of a whole run."""

    draws: DrawRecord
    """The draws, with their weights."""
    learnt: ThetaRecord
    """theta, visits and step sizes."""
    counts: Counts
    """Counts over the moves while draws were made."""
    round_trips: np.ndarray
    """The trips of each chain from the bottom to the top and back, while draws were made."""
    num_gradients: int
    """The gradients spent on everything, the warm-up included."""
    warmup: WarmupRecord
    """The findings and choices of the warm-up."""
    tilt: Tilt
    """The tilt, with its partition."""
    settings: Mapping[str, Any]
    """The arguments of the run, its seed, the time it took, and versions."""
    labels: Labels = field(default_factory=Labels)
    """The dims, coords and data of the model, for ArviZ."""
    modes: ModeAssignment | None = None
    """The modes in the draws, where the run looked for them."""
    warmup_draws: DrawRecord | None = None
    """The draws of the adaptation, if they were asked for."""
    findings: tuple[Finding, ...] = ()
    """The findings: what is wrong with the run, errors first."""
    bridge: tuple[float, float] | None = None
    """The log of the integral of the density and its error, by a bridge to a reference beside the ladder, if any."""
    prior_mass: tuple[float, float] | None = None
    """The log of the mass of the prior and its error, where the ladder does not end in it and they were measured."""

    @property
    def weight(self) -> np.ndarray:
        """The importance weights, summing to 1 over all chains and draws."""
        return np.exp(self.draws.log_weight.astype(float))

    @property
    def cold(self) -> np.ndarray:
        """Whether each draw tells that its chain was there in the posterior: at beta = 1 or, without levels, always."""
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
