"""The arrays behind the plots of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sahmc.models.positions import named

if TYPE_CHECKING:
    from sahmc.landscape.barrier import EnergyBarrier
    from sahmc.results.result import Result

POINTS = 4000
"""Points of a scatter plot, at most."""


class Curve(NamedTuple):
    """Energy above that of x1 along a path, and where it is highest."""

    distance: np.ndarray
    energy: np.ndarray
    top: int

    @property
    def peak(self) -> tuple[float, float]:
        return float(self.distance[self.top]), float(self.energy[self.top])


def barrier_curves(barrier: EnergyBarrier) -> list[Curve]:
    """Before the tilt and, if there is one, after it: both begin at 0 and rise to their heights."""
    both = [barrier.energy, barrier.tilted_energy]
    return [Curve(barrier.distance, e - e[0], int(np.argmax(e))) for e in both if e is not None]


def ranked_modes(result: Result) -> tuple[np.ndarray, np.ndarray]:
    """The mode of each draw (chain, draw), counted from the heaviest, and their masses; one mode if none are known."""
    if result.sightings is None:
        return np.zeros(result.energy.shape, int), np.ones(1)
    mass = result.sightings.mass(result.weight)
    order = np.argsort(-mass, kind="stable")
    rank = np.empty(len(order), int)
    rank[order] = np.arange(len(order))
    return rank[result.sightings.label], mass[order]


class Trace(NamedTuple):
    """Of one chain after the other: a value at each time, and the mode."""

    time: np.ndarray
    value: np.ndarray
    mode: np.ndarray


def energy_trace(result: Result, chains: int = 4) -> Trace:
    """-log density above its lowest, of some chains, evenly chosen, thinned to what a picture can show."""
    chosen = np.linspace(0, len(result.energy) - 1, min(chains, len(result.energy))).astype(int)
    draws = result.energy.shape[1]
    every = -(-draws * len(chosen) // (2 * POINTS))
    time = np.concatenate([k * draws + np.arange(0, draws, every) for k in range(len(chosen))])
    label, _ = ranked_modes(result)
    above = result.log_density.max() - result.log_density[chosen, ::every]
    return Trace(time, above.ravel(), label[chosen, ::every].ravel())


def level_trace(result: Result, chains: int = 3) -> np.ndarray:
    """Regions of some chains over the draws, (chain, draw)."""
    return result.region[np.linspace(0, len(result.region) - 1, min(chains, len(result.region))).astype(int)]


class Visits(NamedTuple):
    """Share of the visits to each region, and the share desired."""

    share: np.ndarray
    desired: np.ndarray


def visit_shares(result: Result) -> Visits:
    visits = result.visits.reshape(-1, result.visits.shape[-1]).sum(axis=0)
    return Visits(visits / max(1, visits.sum()), result.desired)


class ThetaPath(NamedTuple):
    """theta + log desired of each region, less that of the first: the log masses that theta stands for.

    ``moves`` are those made by then, and ``frozen`` those after which drawing began.
    """

    moves: np.ndarray
    theta: np.ndarray
    frozen: float


def theta_path(result: Result) -> ThetaPath:
    """The mean over chains where each has its own."""
    assert result.path is not None
    theta = result.path.theta if result.path.theta.ndim == 2 else result.path.theta.mean(axis=1)
    theta = theta + np.log(result.path.desired)
    moves = result.path.moves.astype(float)
    return ThetaPath(moves, theta - theta[:, :1], float(moves[result.path.drawing].min()))


class Coordinates(NamedTuple):
    """Some coordinates of the position with their names: (chain, draw, coordinate)."""

    names: list[str]
    values: np.ndarray


def chosen_coordinates(result: Result, num: int) -> Coordinates:
    """Those in which the modes lie furthest apart, for the spread within them; the first ones if there is one mode."""
    names, columns = [], []
    for name, leaf in named(result.draws).items():
        flat = leaf.reshape(*leaf.shape[:2], -1)
        labels = [f"{name}[{', '.join(map(str, at))}]" if at else name for at in np.ndindex(leaf.shape[2:])]
        for i in range(min(flat.shape[2], 1000)):
            names.append(labels[i])
            columns.append(flat[..., i])
    label, mass = ranked_modes(result)
    order = list(range(len(names)))
    if len(mass) > 1:
        weight = result.weight
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


def posterior_scatter(result: Result, num: int = 2) -> Scatter:
    names, values = chosen_coordinates(result, num)
    label, mass = ranked_modes(result)
    index = result.resample_index(min(POINTS, result.energy.size))
    return Scatter(names, values[index], label[index], mass)


class Marginal(NamedTuple):
    """Densities of one coordinate, in bins: of the draws as they were made, and of the posterior."""

    name: str
    edges: np.ndarray
    tilted: np.ndarray
    posterior: np.ndarray


def marginal(result: Result, bins: int = 80) -> Marginal:
    """Of the coordinate in which the modes lie furthest apart."""
    names, values = chosen_coordinates(result, 1)
    flat = values[..., 0].ravel()
    low, high = np.quantile(flat, [0.001, 0.999])
    edges = np.linspace(low, high, bins + 1) if high > low else np.linspace(low - 1, low + 1, bins + 1)
    tilted, _ = np.histogram(flat, edges, density=True)
    posterior, _ = np.histogram(flat, edges, weights=result.weight.ravel(), density=True)
    return Marginal(names[0], edges, tilted, posterior)


def region_axis(result: Result) -> tuple[np.ndarray, str]:
    """What regions are, for an axis: temperatures, energies or numbers."""
    partition: Any = result.partition
    if partition is not None and hasattr(partition, "betas"):
        return np.arange(len(partition.betas)), "level, from the posterior up"
    return np.arange(result.theta.shape[-1]), "subregion, by energy"
