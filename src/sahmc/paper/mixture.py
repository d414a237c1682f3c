"""Table 1 and figure 1: three Gaussians in the plane, two distances apart."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Int

from sahmc.algorithm import SAHMCState, init, sahmc_step
from sahmc.kernels.base import draw_noise
from sahmc.paper import methods
from sahmc.paper.experiment import Book, Cell, Experiment, Row
from sahmc.paper.stan import METHOD, sample_mixture, with_stan
from sahmc.results.result import Result
from sahmc.testing.targets import Target, mixture
from sahmc.testing.targets.paper import CORRELATIONS, mixture_centres
from sahmc.tilt.gain import Gain
from sahmc.tilt.partition import EnergyPartition
from sahmc.tilt.target import TiltedTarget
from sahmc.tilt.tilts import NoTilt, StepTilt, Tilt

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SETS = {"set 1": (-6.0, 4.0), "set 2": (-8.0, 6.0)}
"""The coordinates a and b of the outer modes, at (a, a) and (b, b)."""
EPSILON, LENGTH = 0.3, 20
ITERATIONS, BURN = 1_000_000, 200_000
QUICK = 20
METHODS = ("HMC", "SAHMC", "NUTS", "our default")
REGIONS = (0, 20, 2)

# (time, ESS of x1: min, median, max, ESS of x2: min, median, max)
PUBLISHED: dict[tuple[str, str], tuple[float, ...]] = {
    ("set 1", "HMC"): (30.6, 787, 882, 941, 802, 879, 950),
    ("set 1", "SAHMC"): (30.6, 2041, 2984, 3549, 2120, 3034, 3493),
    ("set 1", "NUTS"): (30.0, 32, 50, 225, 31, 50, 236),
    ("set 2", "HMC"): (30.6, 18, 25, 78, 17, 26, 78),
    ("set 2", "SAHMC"): (30.6, 533, 723, 1033, 581, 683, 825),
    ("set 2", "NUTS"): (19.0, 3, 3060, 9700, 3, 3479, 8841),
}


def run(book: Book) -> None:
    """Run all methods on both sets, and write two tables and the figure."""
    scale = QUICK if book.quick else 1
    chosen = with_stan(book, METHODS)
    cells: dict[tuple[str, str], Cell] = {}
    for name, (a, b) in SETS.items():
        for method in chosen:
            settings = dict(a=a, b=b, method=method, iterations=ITERATIONS // scale, burn=BURN // scale)
            label = f"{name.replace(' ', '')}-{method.replace(' ', '-')}"
            cells[name, method] = book.cell(label, partial(_compute, book), **settings, seeds=book.seeds)
    book.table(
        "mixture",
        (
            "set",
            "parameter",
            "method",
            "seconds a run",
            "published",
            "ESS min",
            "median",
            "max",
            "published min",
            "published median",
            "published max",
            "median over published",
            "seconds per min ESS",
            "relative speed",
        ),
        [_row(name, method, k, cells) for name in SETS for k in range(2) for n, method in cells if n == name],
        "Ten runs of one chain each; our default: 32 chains with as many gradients as one such chain. ESS as in the "
        "paper, of the draws as they were made, and, since that comes nearest to what is printed, by the spectrum of "
        "an autoregression of at most 59 lags, which is what the R package coda does; it is far too high for chains "
        "that seldom change modes.",
    )
    book.table(
        "mixture-masses",
        (
            "set",
            "method",
            "gradients a run",
            "ESS of the weighted mean of x1, min",
            "median",
            "max",
            "ESS of the raw draws of x1, median",
            "rms error of the masses",
            "largest error of a mass",
        ),
        [_honest_row(name, method, cell) for (name, method), cell in cells.items()],
        "What a user needs. ESS by all lags (Geyer's monotone sequence), of the posterior mean with the weights.",
    )
    book.picture("mixture", _figure(cells))


def _compute(book: Book, a: float, b: float, method: str, iterations: int, burn: int, seeds: int) -> Cell:
    target = mixture(a, b)
    common = dict(chains=seeds, random_seed=0, progressbar=book.progressbar)
    if method == "our default":
        return _default(target, LENGTH * iterations, seeds, book.progressbar)
    if method == METHOD:
        covariances = np.array([[[1, r], [r, 1]] for r in CORRELATIONS])
        centres = mixture_centres(a, b)
        draws, costs = sample_mixture(book.out / "stan", centres, covariances, target.start, iterations, burn, seeds)
        return {**costs, **_measures(draws, np.zeros(draws.shape[:2]), target)}
    if method == "NUTS":
        result = methods.nuts(target, iterations, burn, **common)
    else:
        edges = EnergyPartition.uniform(*REGIONS) if method == "SAHMC" else None
        result = methods.printed(target, EPSILON, LENGTH, edges, iterations, burn, **common)
    told = {"seconds": result.settings["sampling_time"] / seeds, "gradients": result.num_gradients / seeds}
    return {**told, **_measures(result.draws, result.log_weight, target)}


def _measures(draws: np.ndarray, log_weight: np.ndarray, target: Target) -> Cell:
    """Measure each chain separately: effective sample sizes, masses, and some draws for a figure."""
    every = max(1, draws.shape[1] // 4000)
    return {
        "spectral": methods.spectral_ess(draws),
        "raw": methods.raw_ess(draws),
        "weighted": methods.own_ess(draws, log_weight),
        "masses": methods.own_masses(draws, log_weight, target),
        "scatter": np.asarray(draws[:3, ::every]),
    }


def _default(target: Target, gradients: int, seeds: int, progressbar: bool) -> Cell:
    def measure(result: Result) -> dict[str, ArrayLike]:
        return {
            "spectral": methods.spectral_ess(result.draws).sum(axis=0),
            "raw": methods.raw_ess(result.draws).sum(axis=0),
            "weighted": result.ess(),
            "masses": result.expectation(target.indicators).mean,
        }

    found, last = methods.default_runs(target, gradients, seeds, measure, progressbar=progressbar)
    costs = {name: float(np.median(found.pop(name))) for name in ("seconds", "gradients")}
    return {**costs, **found, "scatter": last.resample(4000)[None]}


def _row(name: str, method: str, k: int, cells: dict[tuple[str, str], Cell]) -> Row:
    here, base = cells[name, method], cells[name, "HMC"]
    ess = here["spectral"][:, k]
    published = PUBLISHED.get((name, method.removeprefix("Stan ")), (float("nan"),) * 7)
    speed = here["seconds"] / float(np.min(ess))
    slow = base["seconds"] / float(np.min(base["spectral"][:, k]))
    return [
        name,
        f"x{k + 1}",
        method,
        here["seconds"],
        published[0],
        *_three(ess),
        *published[1 + 3 * k : 4 + 3 * k],
        float(np.median(ess)) / published[2 + 3 * k],
        speed,
        slow / speed,
    ]


def _honest_row(name: str, method: str, cell: Cell) -> Row:
    off = np.abs(cell["masses"] - 1 / 3)
    raw = float(np.median(cell["raw"][:, 0]))
    rms = float(np.sqrt(np.mean(off**2)))
    return [name, method, f"{cell['gradients']:.3g}", *_three(cell["weighted"][:, 0]), raw, rms, float(off.max())]


def _three(values: np.ndarray) -> list[float]:
    return [float(f(values)) for f in (np.min, np.median, np.max)]


def first_iterations(target: Target, tilt: Tilt, num: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    """Return positions and momenta, (iteration, dim), of one chain in its first ``num`` iterations.

    The momentum is that at the end of an iteration.
    """
    kernel = methods.printed_kernel(EPSILON, LENGTH)
    start = jnp.asarray(target.start, jnp.float32)
    tilted = TiltedTarget.build(target.log_density, start, tilt)
    desired = jnp.full(tilt.num_regions, 1 / tilt.num_regions)
    gain = Gain(methods.T0)

    def iterate(state: SAHMCState, t: Int[Array, ""]) -> tuple[SAHMCState, tuple[Array, Array]]:
        key = jax.random.fold_in(jax.random.key(0), t)
        now = tilted.with_theta(state.theta.theta)
        chain = jax.tree.map(lambda leaf: leaf[0], state.chains)
        noise, (u_level, *_) = draw_noise(jax.random.fold_in(key, 0), chain.position, 3)  # as the move draws it
        level = now.draw_level(u_level, chain)
        _, end, _ = kernel.flow(now, level, kernel.step_size_at(now, level, 1.0))(chain, noise, LENGTH)
        state, info = sahmc_step(key, state, kernel, tilted, gain(t + 1).astype(noise.dtype), desired)
        return state, (state.chains.position[0], jnp.where(info.is_accepted[0], end, noise))

    _, (position, momentum) = jax.lax.scan(iterate, init(tilted, start[None]), jnp.arange(num))
    return np.asarray(position), np.asarray(momentum)


def _figure(cells: dict[tuple[str, str], Cell]) -> Figure:
    """Plot positions and momenta of the first 1000 iterations and draws of set 2, as in figure 1, and our draws."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(4, 3, figsize=(11, 14), layout="constrained")
    tilts = {"HMC": NoTilt(), "SAHMC": StepTilt(EnergyPartition.uniform(*REGIONS))}
    for row, (method, tilt) in zip(axes, tilts.items(), strict=False):
        position, momentum = first_iterations(mixture(*SETS["set 2"]), tilt)
        for ax, values, name in ((row[0], position, "position"), (row[1], momentum, "momentum")):
            ax.plot(values[:, 0], values[:, 1], linewidth=0.4, color="#1f6f8b", alpha=0.8)
            ax.set(title=f"{method}: {name}, first 1000 iterations", xlabel=f"{name} 1", ylabel=f"{name} 2")
            ax.set(xlim=(-14, 14), ylim=(-14, 14), aspect="equal")
        _scatter(row[2], cells["set 2", method]["scatter"][0], f"{method}: one run")
    runs = cells["set 2", "NUTS"]["scatter"]
    for k, ax in enumerate(axes[2]):
        _scatter(ax, runs[min(k, len(runs) - 1)], f"NUTS: run {k + 1}")
    _scatter(axes[3, 0], cells["set 2", "our default"]["scatter"][0], "our default: one run, by weight")
    for ax, name in zip(axes[3, 1:], SETS, strict=True):
        _masses(ax, name, {method: cell["masses"] for (n, method), cell in cells.items() if n == name})
    return figure


def _masses(ax: Axes, name: str, masses: dict[str, np.ndarray]) -> None:
    """Plot the mass of each mode in each run."""
    for row, found in enumerate(masses.values()):
        for mode in range(3):
            height = row + 0.22 * (mode - 1)
            ax.plot(found[:, mode], np.full(len(found), height), "o", color=f"C{mode}", markersize=4, alpha=0.6)
    ax.axvline(1 / 3, color="0.3", linestyle="dashed", linewidth=1)
    ax.set_yticks(range(len(masses)), list(masses))
    ax.invert_yaxis()
    ax.set(title=f"{name}: mode masses, each run", xlabel="weighted mass (truth dashed)", xlim=(-0.05, 1.05))


def _scatter(ax: Axes, points: np.ndarray, title: str) -> None:
    ax.scatter(points[:, 0], points[:, 1], s=3, alpha=0.4, linewidths=0, color="#c2571a", rasterized=True)
    ax.set(title=title, xlabel="x1", ylabel="x2", xlim=(-14, 12), ylim=(-14, 12), aspect="equal")


EXPERIMENT = Experiment("mixture", "Table 1 and figure 1: three Gaussians in the plane", 10, run)
