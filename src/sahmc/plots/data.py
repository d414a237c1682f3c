"""The arrays behind the plots of a record."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sahmc.landscape.barrier import EnergyBarrier
from sahmc.models.positions import named
from sahmc.results.expectations import resample_index
from sahmc.results.records import RunRecord

POINTS = 4000
"""Points of a scatter plot, at most."""


class BarrierCurve(NamedTuple):
    """Energy above that of x1 along a path, and where it is highest."""

    distance: np.ndarray
    energy: np.ndarray
    top: int

    @property
    def peak(self) -> tuple[float, float]:
        return float(self.distance[self.top]), float(self.energy[self.top])


def barrier_curves(barrier: EnergyBarrier) -> list[BarrierCurve]:
    """Before the tilt and, if there is one, after it: both begin at 0 and rise to their heights."""
    both = [barrier.energy, barrier.tilted_energy]
    return [BarrierCurve(barrier.distance, e - e[0], int(np.argmax(e))) for e in both if e is not None]


def ranked_modes(record: RunRecord) -> tuple[np.ndarray, np.ndarray]:
    """The mode of each draw (chain, draw), counted from the heaviest, and their masses; one mode if none are known."""
    if record.modes is None:
        return np.zeros(record.draws.energy.shape, int), np.ones(1)
    mass = record.modes.mass(record.weight)
    order = np.argsort(-mass, kind="stable")
    rank = np.empty(len(order), int)
    rank[order] = np.arange(len(order))
    return rank[record.modes.label], mass[order]


class Trace(NamedTuple):
    """Of one chain after the other: a value at each time, and the mode."""

    time: np.ndarray
    value: np.ndarray
    mode: np.ndarray


def energy_trace(record: RunRecord, chains: int = 4) -> Trace:
    """-log density above its lowest, of some chains, evenly chosen, thinned to what a picture can show."""
    chosen = np.linspace(0, len(record.draws.energy) - 1, min(chains, len(record.draws.energy))).astype(int)
    draws = record.draws.energy.shape[1]
    every = -(-draws * len(chosen) // (2 * POINTS))
    time = np.concatenate([k * draws + np.arange(0, draws, every) for k in range(len(chosen))])
    label, _ = ranked_modes(record)
    above = record.draws.log_density.max() - record.draws.log_density[chosen, ::every]
    return Trace(time, above.ravel(), label[chosen, ::every].ravel())


def level_trace(record: RunRecord, chains: int = 3) -> np.ndarray:
    """Regions of some chains over the draws, (chain, draw)."""
    return record.draws.region[
        np.linspace(0, len(record.draws.region) - 1, min(chains, len(record.draws.region))).astype(int)
    ]


class Visits(NamedTuple):
    """Share of the visits to each region, and the share desired."""

    share: np.ndarray
    desired: np.ndarray


def visit_shares(record: RunRecord) -> Visits:
    visits = record.learnt.visits.reshape(-1, record.learnt.visits.shape[-1]).sum(axis=0)
    return Visits(visits / max(1, visits.sum()), record.learnt.desired)


class ThetaLines(NamedTuple):
    """theta + log desired of each region, less that of the first: the log masses that theta stands for.

    ``moves`` are those made by then, and ``frozen`` those after which drawing began.
    """

    moves: np.ndarray
    theta: np.ndarray
    frozen: float


def theta_lines(record: RunRecord) -> ThetaLines:
    """The mean over chains where each has its own."""
    assert record.learnt.trace is not None
    theta = record.learnt.trace.theta if record.learnt.trace.theta.ndim == 2 else record.learnt.trace.theta.mean(axis=1)
    theta = theta + np.log(record.learnt.trace.desired)
    moves = record.learnt.trace.moves.astype(float)
    return ThetaLines(moves, theta - theta[:, :1], float(moves[record.learnt.trace.drawing].min()))


class Coordinates(NamedTuple):
    """Some coordinates of the position with their names: (chain, draw, coordinate)."""

    names: list[str]
    values: np.ndarray


def chosen_coordinates(record: RunRecord, num: int) -> Coordinates:
    """Those in which the modes lie furthest apart, for the spread within them; the first ones if there is one mode."""
    names, columns = [], []
    for name, leaf in named(record.draws.values).items():
        flat = leaf.reshape(*leaf.shape[:2], -1)
        labels = [f"{name}[{', '.join(map(str, at))}]" if at else name for at in np.ndindex(leaf.shape[2:])]
        for i in range(min(flat.shape[2], 1000)):
            names.append(labels[i])
            columns.append(flat[..., i])
    label, mass = ranked_modes(record)
    order = list(range(len(names)))
    if len(mass) > 1:
        weight = record.weight
        order.sort(key=lambda i: -_separation(columns[i], label, weight))
    pick = sorted(order[:num])
    return Coordinates([names[i] for i in pick], np.stack([columns[i] for i in pick], axis=-1).astype(float))


def _separation(values: np.ndarray, label: np.ndarray, weight: np.ndarray) -> float:
    """Variance between modes over that within them."""
    flat = label.ravel()
    mass = np.bincount(flat, weight.ravel())
    safe = np.where(mass > 0, mass, 1.0)
    mean = np.bincount(flat, (weight * values).ravel()) / safe
    total = float((weight * values).sum())
    between = float((mass * (mean - total) ** 2).sum())
    within = float((weight * (values - mean[label]) ** 2).sum())
    return between / within if within > 0 else 0.0


class Scatter(NamedTuple):
    """Equal-weight draws (draw, coordinate), their modes, and the masses of these."""

    names: list[str]
    points: np.ndarray
    mode: np.ndarray
    mass: np.ndarray


def posterior_scatter(record: RunRecord, num: int = 2) -> Scatter:
    names, values = chosen_coordinates(record, num)
    label, mass = ranked_modes(record)
    index = resample_index(record, min(POINTS, record.draws.energy.size), 0)
    return Scatter(names, values[index], label[index], mass)


class Marginal(NamedTuple):
    """Densities of one coordinate, in bins: of the draws as they were made, and of the posterior."""

    name: str
    edges: np.ndarray
    tilted: np.ndarray
    posterior: np.ndarray


def marginal(record: RunRecord, bins: int = 80) -> Marginal:
    """Of the coordinate in which the modes lie furthest apart."""
    names, values = chosen_coordinates(record, 1)
    flat = values[..., 0].ravel()
    low, high = np.quantile(flat, [0.001, 0.999])
    edges = np.linspace(low, high, bins + 1) if high > low else np.linspace(low - 1, low + 1, bins + 1)
    tilted, _ = np.histogram(flat, edges, density=True)
    posterior, _ = np.histogram(flat, edges, weights=record.weight.ravel(), density=True)
    return Marginal(names[0], edges, tilted, posterior)


def region_axis(record: RunRecord) -> tuple[np.ndarray, str]:
    """What regions are, for an axis: temperatures, energies or numbers."""
    partition: Any = record.partition
    if partition is not None and hasattr(partition, "betas"):
        return np.arange(len(partition.betas)), "level, from the posterior up"
    return np.arange(record.learnt.theta.shape[-1]), "subregion, by energy"
