"""The parts of a record, as attributes of the object that holds it."""

from __future__ import annotations

from typing import Any

import numpy as np

from sahmc._support.frozen import thawed
from sahmc._support.types import Position
from sahmc.models.model import Labels
from sahmc.results.findings.listing import Findings
from sahmc.results.records import DrawRecord, ModeAssignment, RunRecord, ThetaTrace
from sahmc.results.warmup_record import WarmupRecord
from sahmc.tilt.partition import EnergyPartition, TemperatureLadder
from sahmc.tilt.tilts import Tilt


class RecordView:
    """An object with a ``record``, whose parts are attributes of the object."""

    record: RunRecord
    """All data of the run."""

    @property
    def draws(self) -> Position:
        """The weighted draws of the tilted density: positions in the user's structure, or named variables.

        Use ``expectation`` or ``resample`` for the posterior.
        """
        return self.record.draws.values

    @property
    def energy(self) -> np.ndarray:
        """The energy on which the tilt acts: -log likelihood if the prior is separate, else -log density.

        If the ladder ends in a learnt reference q, it is -log density + log q.
        """
        return self.record.draws.energy

    @property
    def log_density(self) -> np.ndarray:
        """The log density of each draw, including the prior."""
        return self.record.draws.log_density

    @property
    def region(self) -> np.ndarray:
        """The region of the tilt in which each draw was made: a subregion, the nearest node, or a level."""
        return self.record.draws.region

    @property
    def log_weight(self) -> np.ndarray:
        """The logs of the importance weights, which sum to 1 over all chains and draws."""
        return self.record.draws.log_weight

    @property
    def weight(self) -> np.ndarray:
        """The importance weights, which sum to 1 over all chains and draws."""
        return self.record.weight

    @property
    def acceptance(self) -> np.ndarray:
        """The acceptance probability of the last move of each draw."""
        return self.record.draws.acceptance_rate

    @property
    def acceptance_rate(self) -> float:
        """The mean of ``acceptance``."""
        return float(self.acceptance.mean())

    @property
    def diverging(self) -> np.ndarray:
        """Whether the last move of each draw diverged."""
        return self.record.draws.diverging

    @property
    def tree_depth(self) -> np.ndarray | None:
        """The number of doublings of the trajectory of each draw, for NUTS; None for other kernels."""
        return self.record.draws.tree_depth

    @property
    def theta(self) -> np.ndarray:
        """The theta of each region, with a leading chain axis if every chain has its own."""
        return self.record.learnt.theta

    @property
    def visits(self) -> np.ndarray:
        """The number of visits to each region while sampling."""
        return self.record.learnt.visits

    @property
    def desired(self) -> np.ndarray:
        """The desired visiting frequencies of the regions."""
        return self.record.learnt.desired

    @property
    def step_size(self) -> np.ndarray:
        """The step size at each level."""
        return self.record.learnt.step_size

    @property
    def theta_trace(self) -> ThetaTrace | None:
        """The values of theta and the round trips at fixed moments of adaptation and sampling."""
        return self.record.learnt.trace

    @property
    def round_trips(self) -> np.ndarray:
        """The number of trips of each chain from the bottom to the top and back while sampling."""
        return self.record.round_trips

    @property
    def num_gradients(self) -> int:
        """The number of gradient evaluations, including the warm-up."""
        return self.record.num_gradients

    @property
    def num_trajectories(self) -> int:
        """The number of trajectories while sampling, including moves between draws."""
        return self.record.counts.trajectories

    @property
    def num_diverging(self) -> int:
        """The number of these trajectories that diverged."""
        return self.record.counts.diverging

    @property
    def num_failed(self) -> int:
        """The number of RMHMC moves rejected because an implicit step did not converge or was not reversible."""
        return self.record.counts.failed

    @property
    def num_deepest(self) -> int:
        """The number of NUTS trajectories that reached the maximum depth."""
        return self.record.counts.deepest

    @property
    def jumps(self) -> tuple[int, int]:
        """The numbers of attempted and of accepted jumps between known modes."""
        return self.record.counts.jumps, self.record.counts.jumps_accepted

    @property
    def findings(self) -> Findings:
        """The findings, problems of the run with errors first; empty if there are none. Print them."""
        return Findings(self.record.findings)

    @property
    def warmup(self) -> WarmupRecord:
        """The findings and choices of the warm-up; print it."""
        return self.record.warmup

    @property
    def warmup_draws(self) -> DrawRecord | None:
        """The draws of the adaptation, if you asked for them."""
        return self.record.warmup_draws

    @property
    def mode_assignment(self) -> ModeAssignment | None:
        """The modes that the run found in its draws, as vectors, and the mode of each draw; see also ``modes()``."""
        return self.record.modes

    @property
    def tilt(self) -> Tilt:
        """The tilt, with its partition."""
        return self.record.tilt

    @property
    def partition(self) -> EnergyPartition | TemperatureLadder | None:
        """The partition of the tilt into regions; None without a tilt."""
        return self.record.partition

    @property
    def labels(self) -> Labels:
        """The dims, coords and data of the model, for ``to_datatree``."""
        return self.record.labels

    @property
    def settings(self) -> dict[str, Any]:
        """A copy of the arguments of the run, its seed, its duration, and versions."""
        return thawed(self.record.settings)
