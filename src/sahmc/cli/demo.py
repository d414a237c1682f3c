"""The demo of ``sahmc demo``: the paper's three modes, with all chains started in one of them."""

from __future__ import annotations

import platform
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from sahmc.results.result import Result
from sahmc.sampling import sample
from sahmc.testing.targets import Target, mixture

NAMES = {"hmc": "plain HMC", "sahmc": "SAHMC"}
"""The names of the samplers in the table and the figure."""
COLOURS = {"hmc": "#c2571a", "sahmc": "#1f6f8b"}
"""Their colours in the figure."""


def run_demo(out: Path, seed: int) -> None:
    """Run both samplers, print the estimated masses beside the truth, and write the figure to ``out``."""
    console = Console()
    target = mixture(a=-8.0, b=6.0)
    start = jnp.asarray(target.start)
    console.print(
        "Three Gaussians in the plane, at (-8, -8), (6, 6) and (0, 0), a third of the mass each. "
        "All 32 chains start at (0, 0)."
    )
    began = time.perf_counter()
    results = {
        "hmc": sample(target.log_density, start, tilt="none", random_seed=seed),
        "sahmc": sample(target.log_density, start, random_seed=seed),
    }
    console.print(masses_table(results, target))
    console.print(
        "Plain HMC never left the mode it started in, and nothing in its output says so."
        if results["hmc"].expectation(target.indicators).mean.max() > 0.999
        else "Plain HMC saw more than one mode, without knowing their masses."
    )
    console.print(f"{time.perf_counter() - began:.0f} s in all, compilation included.")
    draw_figure(results, target, out, seed)
    console.print(f"Picture: {out}")


def masses_table(results: dict[str, Result], target: Target) -> Table:
    """Return a table of the masses estimated by each sampler, with standard errors, beside the truth.

    A sampler that missed a mode has no effective sample size.
    """
    table = Table(title="Mass found in the mode at")
    for column in ("", "(-8, -8)", "(6, 6)", "(0, 0)", "ESS", "gradients"):
        table.add_column(column, justify="right" if column else "left")
    table.add_row("truth", *(f"{mass:.3f}" for mass in target.masses), "", "")
    for key, result in results.items():
        found = result.expectation(target.indicators)
        cells = [f"{m:.3f} ± {e:.3f}" if e > 5e-4 else f"{m:.3f}" for m, e in zip(found.mean, found.mcse, strict=True)]
        ess = "-" if found.mean.min() < 1e-3 else f"{float(np.min(result.ess(target.indicators))):.0f}"
        table.add_row(NAMES[key], *cells, ess, f"{result.num_gradients:,}")
    return table


def draw_figure(results: dict[str, Result], target: Target, out: Path, seed: int) -> None:
    """Plot posterior draws of each sampler over the density, and write the figure to ``out``."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    axis = np.linspace(-12.5, 11.5, 300)
    grid = jnp.stack(jnp.meshgrid(axis, axis), axis=-1)
    log_density = np.asarray(jax.vmap(jax.vmap(target.log_density))(grid))
    figure, panels = plt.subplots(1, 2, figsize=(9.6, 5.2), sharex=True, sharey=True, layout="constrained")
    for panel, (key, result) in zip(panels, results.items(), strict=True):
        points = result.resample(3000, seed)
        panel.contour(
            axis,
            axis,
            log_density,
            levels=[-23, -14, -8, -5, -3],
            colors="0.8",
            linewidths=0.8,
            linestyles="solid",
            zorder=1,
        )
        panel.scatter(*points.T, s=5, alpha=0.35, linewidths=0, color=COLOURS[key], zorder=2, rasterized=True)
        masses = result.expectation(target.indicators).mean
        for (x, y), mass in zip([(-8, -8), (6, 6), (0, 0)], masses, strict=True):
            panel.annotate(f"{mass:.2f}", (x, y), (x + 1.7, y - 2.6), fontsize=13, fontweight="bold", color="0.15")
        panel.plot(0, 0, marker="+", color="black", markersize=11, markeredgewidth=2, zorder=3)
        panel.set_title(NAMES[key], fontsize=14)
        panel.set_aspect("equal")
        panel.set_xticks([-8, 0, 6], ["-8", "0", "6"])
        panel.set_yticks([-8, 0, 6], ["-8", "0", "6"])
    figure.suptitle(
        "Every chain starts at the cross. Each mode has mass 1/3; the numbers are what was found.", fontsize=11
    )
    figure.supxlabel(_caption(results, seed), fontsize=6.5, color="0.5")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)
    plt.close(figure)


def _caption(results: dict[str, Result], seed: int) -> str:
    versions = results["sahmc"].settings["versions"]
    spent = " and ".join(f"{result.num_gradients:,}" for result in results.values())
    return (
        f"{spent} gradients, seed {seed}; sahmc {versions['sahmc']}, jax {versions['jax']}, "
        f"{platform.machine()} CPU; {time.strftime('%Y-%m-%d')}; command: sahmc demo"
    )
