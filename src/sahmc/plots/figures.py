"""Plots of a result on matplotlib axes; ``sahmc.plots.data`` makes the arrays."""

from __future__ import annotations

from os import PathLike
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from sahmc._support.validate import as_new_file, require, require_count
from sahmc._support.words import counted
from sahmc.barrier.barrier import EnergyBarrier
from sahmc.models.positions import named
from sahmc.plots import data
from sahmc.results.result import Result, require_result
from sahmc.results.summary import headline
from sahmc.results.variables import VarNames, choose_variables
from sahmc.results.within_modes import within_mode

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BOLD: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "fontsize": 15, "fontweight": "bold"}
"""Options of a label in bold."""
PAPER: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}
"""Options of the white box beneath a label."""
WARM, COLD, GREY = "#c2571a", "#1f6f8b", "0.55"
COLOURS = ("#1f6f8b", "#c2571a", "#5b8c3a", "#8a4f9e", "#c9a227", "#3f4e8c", "#b03a55", "#4aa3a2")
"""Colours of the modes, heaviest first; the rest are grey."""
MOST_PAIRED, MOST_MARGINALS = 5, 12
"""The maximum numbers of coordinates of chosen variables to plot in pairs, and to plot singly."""
LEAST_TOLD = 0.005
"""The minimum mass that is written beside a mode."""


def plot_energy(result: Result, ax: Axes | None = None, *, chains: int = 4, mode: int | None = None) -> Axes:
    """Plot -log density minus its minimum, for ``chains`` chains one after the other, coloured by mode.

    ``mode``, the label of a mode, restricts the plot to draws in it. Return the axes: ``ax``, or new ones if None.
    """
    require_result(result)
    require_count(chains, "chains")
    within = _within(result, mode)
    ax = _axes(ax)
    trace = data.energy_trace(result.record, chains, mode)
    ax.set_yscale("log")
    ax.scatter(
        trace.time, np.maximum(trace.value, 1e-2), c=_colours(trace.mode), s=4, linewidths=0, alpha=0.7, rasterized=True
    )
    draws = result.energy.shape[1]
    for k in range(1, min(chains, len(result.energy))):
        ax.axvline(k * draws, color="0.85", linewidth=1, zorder=0)
    title = f"Energy{within}" if within else "Energy, coloured by mode"
    _label(ax, title, "draw, chain after chain", "energy above the lowest, nats")
    return ax


def plot_visits(result: Result, ax: Axes | None = None) -> Axes:
    """Plot the observed and desired visits to each level or subregion.

    Return the axes: ``ax``, or new ones if None.
    """
    require_result(result)
    ax = _axes(ax)
    share, desired = data.visit_shares(result.record), result.desired
    where, name = data.region_axis(result.record)
    ax.bar(where, share, color=COLD, alpha=0.8, width=0.8, label="visits")
    ax.step(
        np.append(where - 0.5, where[-1] + 0.5),
        np.append(desired, desired[-1]),
        where="post",
        color=WARM,
        linewidth=2,
        label="desired",
    )
    ax.set_ylim(0, 1.25 * max(share.max(), desired.max()))
    ax.legend(frameon=False, fontsize=9, loc="upper right", ncols=2)
    _label(ax, "Visits", name, "share")
    return ax


def plot_theta(result: Result, ax: Axes | None = None) -> Axes:
    """Plot the path of theta as the log mass it implies, a line for each region, relative to the first.

    Return the axes: ``ax``, or new ones if None.
    """
    require_result(result)
    ax = _axes(ax)
    require(
        result.theta_trace is not None, "plot_theta needs the trace of theta", "a result without it", "sample again"
    )
    import matplotlib

    path = data.theta_lines(result.record)
    regions = path.theta.shape[1]
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.92, regions))
    for k in range(1, regions):
        ax.plot(path.moves, path.theta[:, k], color=colours[k], linewidth=1.2)
        if k in (1, regions - 1):
            ax.annotate(str(k), (path.moves[-1], path.theta[-1, k]), (4, -3), textcoords="offset points", fontsize=8)
    ax.axvline(path.frozen, color=GREY, linewidth=1, linestyle="dashed")
    word = "theta frozen" if result.settings["adapt"] == "tune" else "draws begin"
    ax.annotate(
        word,
        (path.frozen, 0.03),
        (-4, 0),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        ha="right",
        fontsize=8,
        color="0.35",
    )
    _label(ax, "Path of theta" if regions > 1 else "No theta: no tilt", "move", "theta + log desired, less the first")
    return ax


def plot_round_trips(result: Result, ax: Axes | None = None, *, chains: int = 3) -> Axes:
    """Plot the levels of ``chains`` chains over time: trips from the posterior, at the bottom, to the top and back.

    Return the axes: ``ax``, or new ones if None.
    """
    require_result(result)
    require_count(chains, "chains")
    ax = _axes(ax)
    levels = data.level_trace(result.record, chains)
    height = result.theta.shape[-1]
    for k, level in enumerate(levels):
        ax.plot(level + 1.15 * height * k, color=COLOURS[k % len(COLOURS)], linewidth=0.7)
    ax.set_yticks([1.15 * height * k for k in range(len(levels))], ["posterior"] * len(levels), fontsize=8)
    trips = int(result.round_trips.sum())
    title = (
        f"{counted(trips, 'round trip')} of {counted(len(result.energy), 'chain')}"
        if height > 1
        else "No levels: no tilt"
    )
    _label(ax, f"{title}; {len(levels)} shown", "draw", "level")
    return ax


def plot_ladder(result: Result, ax: Axes | None = None) -> Axes:
    """Plot the barrier between the posterior and the top of the ladder, level by level.

    Bars are the rejection probabilities between neighbouring levels, estimated from their draws. The line is the
    cumulative sum, which ends at the barrier Lambda. Return the axes: ``ax``, or new ones if None.
    """
    require_result(result)
    rejection = result.rejections()
    ax = _axes(ax)
    betas = np.asarray(getattr(result.partition, "betas", None), float)
    middle = np.arange(len(rejection)) + 0.5
    ax.bar(middle, rejection, width=0.9, color=COLOURS[0], alpha=0.55)
    ax.set_ylim(0, 1)
    total = np.append(0.0, np.nancumsum(rejection))
    right = ax.twinx()
    right.plot(np.arange(len(betas)), total, color=WARM, linewidth=2, marker="o", markersize=3)
    right.set_ylim(0, 1.15 * max(total[-1], 0.1))
    right.set_ylabel("barrier up to this level", color=WARM, fontsize=9)
    right.tick_params(axis="y", labelsize=8, colors=WARM)
    right.spines["top"].set_visible(False)
    some = np.unique(np.linspace(0, len(betas) - 1, min(len(betas), 6)).astype(int))
    ax.set_xticks(some, [f"{betas[k]:.2g}" for k in some])
    _label(ax, f"Barrier {total[-1]:.2g} over {len(betas)} levels", "beta of the level", "rejection between neighbours")
    return ax


def plot_pair(
    result: Result,
    ax: Axes | None = None,
    *,
    num: int | None = None,
    var_names: VarNames = None,
    mode: int | None = None,
) -> Any:
    """Plot draws of the posterior in pairs of coordinates, coloured by mode, with the masses of the modes.

    The coordinates are the ``num`` in which the modes lie furthest apart. By default there are two, or all coordinates
    of the variables in ``var_names``, at most five. ``mode``, the label of a mode, restricts the posterior to that
    mode.

    Return the axes: ``ax``, or new ones if None. More than two coordinates give a plot for each pair on a new figure,
    and an array of axes. A posterior with one coordinate gives a histogram.
    """
    require_result(result)
    if num is None:
        num = 2 if var_names is None or ax is not None else MOST_PAIRED
    require_count(num, "num", least=2)
    within = _within(result, mode)
    scatter = data.posterior_scatter(result.record, num, var_names, mode)
    title = f"Posterior{within}"
    num = len(scatter.names)
    if num == 1:
        ax = _axes(ax)
        ax.hist(scatter.points[:, 0], bins=60, color=COLD, alpha=0.8)
        _label(ax, title, scatter.names[0], "draws")
        return ax
    if num == 2:
        many = not within and scatter.num_modes > 1
        return _pair(
            _axes(ax), scatter, 0, 1, f"Posterior, {scatter.num_modes} modes and their masses" if many else title
        )
    plt = pyplot()
    figure, axes = plt.subplots(num - 1, num - 1, figsize=(2.6 * num, 2.6 * num), layout="constrained", squeeze=False)
    figure.suptitle(title if within else "", fontsize=12)
    for row in range(num - 1):
        for column in range(num - 1):
            if column > row:
                axes[row, column].set_axis_off()
            else:
                _pair(axes[row, column], scatter, column, row + 1, "")
    return axes


def _pair(ax: Axes, scatter: data.Scatter, i: int, j: int, title: str) -> Axes:
    x, y = scatter.points[:, i], scatter.points[:, j]
    ax.scatter(x, y, c=_colours(scatter.mode), s=5, alpha=0.4, linewidths=0, rasterized=True)
    for k, mass in enumerate(scatter.mass[: len(COLOURS)]):
        mine = scatter.mode == k
        if scatter.num_modes > 1 and mass >= LEAST_TOLD and mine.any() and not mine.all():
            ax.annotate(
                f"{k}: {mass:.2f}",
                (np.median(x[mine]), np.median(y[mine])),
                ha="center",
                va="center",
                fontsize=9,
                fontweight="bold",
                color=COLOURS[k],
                bbox=PAPER,
            )
    _label(ax, title, scatter.names[i], scatter.names[j])
    return ax


def plot_marginal(
    result: Result, ax: Axes | None = None, *, var_names: VarNames = None, mode: int | None = None
) -> Any:
    """Plot the density of one coordinate under the tilt, as sampled, and after weighting, which is the posterior.

    By default it is the coordinate in which the modes lie furthest apart. ``var_names`` gives a plot for each
    coordinate of these variables, at most twelve. ``mode``, the label of a mode, restricts the draws to that mode.
    Return the axes: ``ax``, or new ones if None. Several plots are on a new figure and give an array of axes.
    """
    require_result(result)
    within = _within(result, mode)
    num = 1 if var_names is None or ax is not None else MOST_MARGINALS
    found = data.marginals(result.record, num, var_names, mode)
    if len(found) == 1:
        return _marginal(_axes(ax), found[0], f"Tilted and posterior{within}")
    columns = min(3, len(found))
    rows = -(-len(found) // columns)
    size = (4.2 * columns, 3.1 * rows)
    figure, axes = pyplot().subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    figure.suptitle(f"Posterior{within}" if within else "", fontsize=12)
    for one, marginal in zip(axes.flat, found, strict=False):
        _marginal(one, marginal, "", legend=one is axes.flat[0])
    for spare in axes.flat[len(found) :]:
        spare.set_axis_off()
    return axes


def _marginal(ax: Axes, found: data.Marginal, title: str, legend: bool = True) -> Axes:
    ax.stairs(found.tilted, found.edges, color=WARM, linewidth=1.6, label="draws, under the tilt")
    ax.stairs(found.posterior, found.edges, color=COLD, fill=True, alpha=0.65, label="posterior, by weight")
    ax.set_ylim(0, 1.3 * max(found.tilted.max(), found.posterior.max()))
    if legend:
        ax.legend(frameon=False, fontsize=9, loc="upper right")
    _label(ax, title, found.name, "density")
    return ax


def plot_overview(result: Result, *, var_names: VarNames = None, mode: int | None = None) -> Figure:
    """Plot all six panels of a run in one figure, with its findings as the title, and return the figure.

    ``var_names`` selects the variables; ``mode``, the label of a mode, restricts the draws to that mode.
    """
    require_result(result)
    _within(result, mode)
    choose_variables(named(result.draws), var_names)
    plt = pyplot()
    figure, axes = plt.subplots(2, 3, figsize=(14, 8), layout="constrained")
    plot_pair(result, axes.flat[0], var_names=var_names, mode=mode)
    plot_marginal(result, axes.flat[1], var_names=var_names, mode=mode)
    plot_energy(result, axes.flat[2], mode=mode)
    for ax, plot in zip(axes.flat[3:], (plot_visits, plot_theta, plot_round_trips), strict=True):
        plot(result, ax)
    errors = sum(finding.severity == "error" for finding in result.findings)
    told = ", ".join(finding.code for finding in result.findings) or "none"
    figure.suptitle(f"{headline(result.record)}\nfindings: {told}", fontsize=11, color="#a01c1c" if errors else "0.2")
    return figure


def plot_barrier(barrier: EnergyBarrier, ax: Axes | None = None) -> Axes:
    """Plot the energy along the path from x1 to x2, without and with the tilt.

    Return the axes: ``ax``, or new ones if None.
    """
    ok = isinstance(barrier, EnergyBarrier)
    require(ok, "plot_barrier needs an energy barrier", barrier, "pass what sahmc.energy_barrier returned")
    ax = _axes(ax, (8.0, 4.8))
    curves = data.barrier_curves(barrier)
    looks = (("U", WARM), ("U + Θ(U), after the tilt", COLD))
    for curve, (name, colour) in zip(curves, looks, strict=False):
        x, height = curve.peak
        ax.plot(curve.distance, curve.energy, color=colour, linewidth=2.5, label=name)
        ax.plot(x, height, "o", color=colour, markersize=9)
        ax.vlines(x, 0, height, color=colour, linewidth=1.2, linestyle="dotted", zorder=1)
        ax.annotate(f"{height:.1f}", (x, height), (0, 11), color=colour, bbox=PAPER, **BOLD)
    ax.axhline(0, color="0.75", linewidth=1, zorder=0)
    for name, end in (("x1", 0), ("x2", -1)):
        ax.annotate(name, (curves[0].distance[end], curves[0].energy[end]), (0, -24), color="0.3", **BOLD)
    low, high = (pick([pick(curve.energy) for curve in curves]) for pick in (min, max))
    ax.set_ylim(low - 0.13 * (high - low or 1), high + 0.15 * (high - low or 1))
    ax.set_xlabel("distance along the path" + ("" if barrier.converged else " (not converged)"), fontsize=14)
    ax.set_ylabel("energy above x1, nats", fontsize=14)
    ax.tick_params(labelsize=12)
    ax.spines[["top", "right"]].set_visible(False)
    if len(curves) > 1:
        ax.legend(fontsize=13, frameon=False)
    return ax


def save_figure(figure: Figure, path: str | PathLike[str], *, overwrite: bool = True) -> None:
    """Save a figure in the format of the file extension, and close it; replace a file only with ``overwrite``."""
    out, known = as_new_file(path, overwrite), figure.canvas.get_supported_filetypes()
    require(out.suffix[1:] in known, f"a picture ends in one of {', '.join(sorted(known))}", str(out), "rename it")
    figure.savefig(out, dpi=130)
    pyplot().close(figure)


def pyplot() -> ModuleType:
    """Return ``matplotlib.pyplot``, imported only when a figure is drawn; raise ``ValueError`` if it is missing."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ValueError("pictures need matplotlib; install it with: pip install 'sahmc[plots]'") from error
    return plt


def _axes(ax: Axes | None, size: tuple[float, float] = (6.0, 4.2)) -> Axes:
    """Return ``ax``, or new axes of this ``size`` if None; raise ``ValueError`` if ``ax`` is anything else."""
    require(ax is None or hasattr(ax, "scatter"), "ax must be Matplotlib's axes", ax, "pass plt.gca(), or leave it out")
    return pyplot().subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def _within(result: Result, mode: int | None) -> str:
    """Return the end of the title of a plot of one mode; empty if ``mode`` is None.

    Raise ``ValueError`` for the label of no mode, before any figure is made.
    """
    if mode is None:
        return ""
    within_mode(result.record, mode)
    name = f"mode {mode}" if mode >= 0 else "no mode"
    mass = result.weight[data.ranked_modes(result.record)[0] == mode].sum()
    return f" within {name}, of mass {mass:.2f}"


def _colours(mode: np.ndarray) -> list[str]:
    return [COLOURS[k] if 0 <= k < len(COLOURS) else "0.6" for k in mode]


def _label(ax: Axes, title: str, x: str, y: str) -> None:
    if title:
        ax.set_title(title, fontsize=12)
    ax.set_xlabel(x, fontsize=10)
    ax.set_ylabel(y, fontsize=10)
    ax.tick_params(labelsize=9)
    ax.spines[["top", "right"]].set_visible(False)
