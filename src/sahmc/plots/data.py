"""The arrays behind the plots of a record."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sahmc.barrier.barrier import EnergyBarrier
from sahmc.models.positions import named, numbered
from sahmc.results.expectations import resample_index
from sahmc.results.records import RunRecord
from sahmc.results.relabelling import relabelled
from sahmc.results.variables import VarNames, choose_variables
from sahmc.results.within_modes import mode_moments, with_mass, within_mode

POINTS = 4000
"""The maximum number of points in a scatter plot."""
BINS = 20, 80
"""The minimum and maximum number of bins of a histogram."""


class BarrierCurve(NamedTuple):
    """The energy along a path from x1 to x2, as points of a curve."""

    distance: np.ndarray
    """The arc length from x1."""
    energy: np.ndarray
    """The energy relative to x1."""
    top: int
    """The index of the highest point."""

    @property
    def peak(self) -> tuple[float, float]:
        """The distance and the energy of the highest point."""
        return float(self.distance[self.top]), float(self.energy[self.top])


def barrier_curves(barrier: EnergyBarrier) -> list[BarrierCurve]:
    """Return the barrier curves without and, if there is a tilt, with the tilt; both begin at energy 0."""
    both = [barrier.energy, barrier.tilted_energy]
    return [BarrierCurve(barrier.distance, e - e[0], int(np.argmax(e))) for e in both if e is not None]


def ranked_modes(record: RunRecord) -> tuple[np.ndarray, np.ndarray]:
    """Return the mode of each draw (chain, draw), numbered from the heaviest, and the masses in this order.

    -1 marks draws in no mode. If no modes are known, there is one mode with all the mass.
    """
    if record.modes is None:
        return np.zeros(record.draws.energy.shape, int), np.ones(1)
    return record.modes.label.astype(int), record.modes.mass(record.weight)


class Trace(NamedTuple):
    """The paths of some chains one after the other, with a point for each plotted draw."""

    time: np.ndarray
    """The number of the draw, continued from chain to chain."""
    value: np.ndarray
    mode: np.ndarray
    """The mode of the draw, numbered from the heaviest; -1 for none."""


def energy_trace(record: RunRecord, chains: int = 4, mode: int | None = None) -> Trace:
    """Return -log density minus its minimum, for ``chains`` evenly spaced chains.

    Draws are thinned to what a figure can show. If ``mode`` is given, draws outside it are left out.
    """
    chosen, draws = _spread(record, chains), record.draws.energy.shape[1]
    every = -(-draws * len(chosen) // (2 * POINTS))
    time = np.concatenate([k * draws + np.arange(0, draws, every) for k in range(len(chosen))])
    label, _ = ranked_modes(record)
    above = record.draws.log_density.max() - record.draws.log_density[chosen, ::every]
    trace = Trace(time, above.ravel(), label[chosen, ::every].ravel())
    return trace if mode is None else Trace(*(part[trace.mode == mode] for part in trace))


def level_trace(record: RunRecord, chains: int = 3) -> np.ndarray:
    """Return the regions of ``chains`` evenly spaced chains over the draws, (chain, draw)."""
    return record.draws.region[_spread(record, chains)]


def _spread(record: RunRecord, chains: int) -> np.ndarray:
    """Return the numbers of ``chains`` evenly spaced chains, or of all if there are fewer."""
    total = len(record.draws.region)
    return np.linspace(0, total - 1, min(chains, total)).astype(int)


def visit_shares(record: RunRecord) -> np.ndarray:
    """Return the share of the visits of all chains together to each region, while sampling."""
    visits = record.learnt.visits.reshape(-1, record.learnt.visits.shape[-1]).sum(axis=0)
    return visits / max(1, visits.sum())


class ThetaLines(NamedTuple):
    """The path of theta over a run."""

    moves: np.ndarray
    """The number of moves so far."""
    theta: np.ndarray
    """The log masses implied by theta, (moment, region): theta + log desired, relative to the first region."""
    frozen: float
    """The number of moves before sampling began."""


def theta_lines(record: RunRecord) -> ThetaLines:
    """Return the path of theta, averaged over chains if each has its own."""
    trace = record.learnt.trace
    assert trace is not None
    theta = (trace.theta if trace.theta.ndim == 2 else trace.theta.mean(axis=1)) + np.log(trace.desired)
    moves = trace.moves.astype(float)
    return ThetaLines(moves, theta - theta[:, :1], float(moves[trace.drawing].min()))


def chosen_coordinates(record: RunRecord, num: int, var_names: VarNames = None) -> tuple[list[str], np.ndarray]:
    """Return the names and draws of the ``num`` coordinates in which modes lie furthest apart.

    The distance is relative to the spread within modes. If there is only one mode, they are the first coordinates.
    ``var_names`` restricts the choice of variables. The draws, (chain, draw, coordinate), are relabelled if modes have
    copies.
    """
    found = choose_variables(named(relabelled(record)), var_names)
    label, mass = ranked_modes(record)
    moments = mode_moments(found, label, record.weight, len(mass))
    names = [text for name, leaf in found.items() for text in numbered(name, leaf.shape[2:], record.labels)]
    pick = np.sort(moments.most_different()[:num])
    columns = np.split(pick, np.searchsorted(pick, np.cumsum([leaf[0, 0].size for leaf in found.values()])))
    first, parts = 0, []
    for leaf, some in zip(found.values(), columns, strict=False):
        parts.append(leaf.reshape(*leaf.shape[:2], -1)[..., some - first].astype(float))
        first += leaf[0, 0].size
    return [names[i] for i in pick], np.concatenate(parts, axis=-1)


class Scatter(NamedTuple):
    """Equal-weight draws of the posterior, in some coordinates."""

    names: list[str]
    """The names of the coordinates."""
    points: np.ndarray
    """The draws, (draw, coordinate)."""
    mode: np.ndarray
    """The mode of each draw, numbered from the heaviest; -1 for none."""
    mass: np.ndarray
    """The masses of the modes, heaviest first."""

    @property
    def num_modes(self) -> int:
        """The number of modes with enough mass for the table of modes."""
        return int(with_mass(self.mass).sum())


def posterior_scatter(record: RunRecord, num: int = 2, var_names: VarNames = None, mode: int | None = None) -> Scatter:
    """Return equal-weight draws of the posterior in the ``num`` coordinates that separate the modes best.

    ``var_names`` restricts the choice of variables; ``mode``, if given, restricts the draws to that mode.
    """
    names, values = chosen_coordinates(record, num, var_names)
    label, mass = ranked_modes(record)
    inside = record if mode is None else within_mode(record, mode)
    index = resample_index(inside, min(POINTS, record.draws.energy.size), 0)
    return Scatter(names, values[index], label[index], mass)


class Marginal(NamedTuple):
    """The density of one coordinate, by histograms."""

    name: str
    """The name of the coordinate."""
    edges: np.ndarray
    """The edges of the bins."""
    tilted: np.ndarray
    """The unweighted density of the draws, under the tilt."""
    posterior: np.ndarray
    """The weighted density of the draws."""


def marginals(record: RunRecord, num: int = 1, var_names: VarNames = None, mode: int | None = None) -> list[Marginal]:
    """Return the histograms of the ``num`` coordinates in which the modes lie furthest apart.

    ``var_names`` restricts the choice of variables; ``mode``, if given, restricts the draws to that mode.
    """
    names, values = chosen_coordinates(record, num, var_names)
    chosen, weight = np.ones(record.weight.shape, bool), record.weight
    if mode is not None:
        weight = within_mode(record, mode).weight
        chosen = ranked_modes(record)[0] == mode
    return [_marginal(name, values[chosen, i], weight[chosen]) for i, name in enumerate(names)]


def _marginal(name: str, values: np.ndarray, weight: np.ndarray) -> Marginal:
    """Return the histograms of the values of some draws, unweighted and weighted."""
    low, high = np.quantile(values, [0.001, 0.999])
    bins = int(np.clip(np.sqrt(values.size), *BINS))
    edges = np.linspace(low, high, bins + 1) if high > low else np.linspace(low - 1, low + 1, bins + 1)
    tilted, _ = np.histogram(values, edges, density=True)
    posterior, _ = np.histogram(values, edges, weights=weight, density=True)
    return Marginal(name, edges, tilted, posterior)


def region_axis(record: RunRecord) -> tuple[np.ndarray, str]:
    """Return the numbers of the regions, and the label of their axis."""
    partition = record.partition
    if partition is not None and hasattr(partition, "betas"):
        return np.arange(len(partition.betas)), "level, from the posterior up"
    return np.arange(record.learnt.theta.shape[-1]), "subregion, by energy"
