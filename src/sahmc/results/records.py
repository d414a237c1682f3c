"""What a run leaves behind: plain data that nothing can change, from which everything else is computed."""

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
from sahmc.tilt.tilts import Tilt


@dataclass(frozen=True)
class DrawRecord(Frozen):
    """Draws of the tilted density with their weights. Arrays lead with (chain, draw)."""

    leaves: tuple[np.ndarray, ...]
    """The positions, or the variables of a model that names them, leaf by leaf."""
    structure: PyTreeDef
    """The pytree that the leaves belong to."""
    energy: np.ndarray
    """What the tilt acts on: U = -log density, or -log likelihood where the prior is apart."""
    log_density: np.ndarray
    """The log density itself, the prior included."""
    region: np.ndarray
    """The subregion, nearest node or level at which each draw was made."""
    log_weight: np.ndarray
    """Log importance weights, which sum to 1 over all chains and draws once a run is complete."""
    acceptance_rate: np.ndarray
    """The probability with which the last move of each draw was accepted."""
    diverging: np.ndarray
    """Whether that move diverged."""
    tree_depth: np.ndarray | None = None
    """Doublings of the trajectory, for kernels whose trajectories grow."""

    @property
    def values(self) -> Any:
        """The positions or variables in the user's structure."""
        return jax.tree.unflatten(self.structure, self.leaves)


class ThetaTrace(NamedTuple):
    """theta and the round trips at some moments of a run (leading axis)."""

    moves: np.ndarray
    """Moves of the run made by then."""
    theta: np.ndarray
    desired: np.ndarray
    """The desired frequencies in force."""
    round_trips: np.ndarray
    """Round trips of each chain."""
    drawing: np.ndarray
    """Whether draws were being made."""

    @classmethod
    def join(cls, *traces: ThetaTrace | None) -> ThetaTrace:
        """Return one trace after the other; None stands for no moments."""
        return cls(*map(np.concatenate, zip(*(trace for trace in traces if trace is not None), strict=True)))


@dataclass(frozen=True)
class ThetaRecord(Frozen):
    """What was learnt for each region, with a leading chain axis where every chain has a theta of its own."""

    theta: np.ndarray
    visits: np.ndarray
    """Visits while draws were made."""
    desired: np.ndarray
    """Desired visiting frequencies."""
    step_size: np.ndarray
    """The step size at each level."""
    trace: ThetaTrace | None = None


class Counts(NamedTuple):
    """Sums over all moves of a stage, those between the draws that were kept included."""

    gradients: Any
    diverging: Any
    failed: Any
    """Moves rejected because an implicit step did not converge or does not reverse."""
    deepest: Any
    """Trajectories that grew to the largest depth."""
    trajectories: Any
    mechanical_acceptance: Any
    """The sum over trajectories of what the step size is tuned on."""
    jumps: Any
    jumps_accepted: Any


class ModeAssignment(NamedTuple):
    """The modes in the draws of a run, one entry each, and the mode of each draw."""

    minimum: np.ndarray
    """The lowest point found, (mode, dim)."""
    energy: np.ndarray
    """U there."""
    known: np.ndarray
    """Whether the warm-up knew the mode."""
    expected: np.ndarray
    """The mass it would have were all modes Gaussian."""
    label: np.ndarray
    """The number of the mode of each draw, (chain, draw)."""

    def mass(self, weight: np.ndarray) -> np.ndarray:
        """Return the posterior probability of each mode, from the weights of the draws."""
        return np.array([weight[self.label == k].sum() for k in range(len(self.energy))])

    def chains(self, cold: np.ndarray) -> np.ndarray:
        """Return how many chains were in each mode, by draws that are ``cold``: made at beta = 1."""
        return np.array([(cold & (self.label == k)).any(axis=1).sum() for k in range(len(self.energy))])


class Rejuvenated(NamedTuple):
    """Draws that were moved by plain transitions of a kernel, one after the other."""

    values: Any
    """The positions or variables after the moves."""
    moved: np.ndarray
    """Which of them moved at all."""
    log_density: np.ndarray


class Finding(NamedTuple):
    """Something that is wrong with a run."""

    code: str
    """A name for programs."""
    severity: str
    """ "error" (do not trust the result) or "warning"."""
    sentence: str
    """What was seen, in words."""
    number: float
    """What was measured."""
    advice: str
    """What to do."""

    def __str__(self) -> str:
        return f"{self.severity}: {self.sentence} {self.advice} [{self.code}]"


@dataclass(frozen=True)
class RunRecord(Frozen):
    """A whole run."""

    draws: DrawRecord
    learnt: ThetaRecord
    counts: Counts
    """Sums over the moves while draws were made."""
    round_trips: np.ndarray
    """Trips of each chain from the bottom to the top and back, while draws were made."""
    num_gradients: int
    """Gradients spent on everything, the warm-up included."""
    warmup: WarmupRecord
    tilt: Tilt
    settings: Mapping[str, Any]
    """The arguments of the run, its seed, how long it took, and versions."""
    labels: Labels = field(default_factory=Labels)
    """Dims, coords and data, for ArviZ."""
    modes: ModeAssignment | None = None
    """The modes in the draws, where the run looked for them."""
    warmup_draws: DrawRecord | None = None
    """Draws of the adaptation, if they were asked for."""
    findings: tuple[Finding, ...] = ()

    @property
    def weight(self) -> np.ndarray:
        """The importance weights, summing to 1 over all chains and draws."""
        return np.exp(self.draws.log_weight.astype(float))

    @property
    def partition(self) -> EnergyPartition | TemperatureLadder | None:
        """How the tilt cuts the space; None without a tilt."""
        return getattr(self.tilt, "partition", None)

    @property
    def num_regions(self) -> int:
        """m: regions, nodes or levels of the tilt."""
        return self.learnt.theta.shape[-1]
