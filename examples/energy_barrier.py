"""Energy barriers of the paper's mixture, known and found, before and after each of the three tilts.

Prints a table, and draws one of the barriers.
"""

import argparse
import os
import platform
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from scipy import ndimage

import sahmc
from sahmc.testing import mixture

SETS = {"set 1": (-6, 4), "set 2": (-8, 6)}
PAPER = dict(
    tilt="step",
    partition=sahmc.EnergyPartition.uniform(0, 20, 2),
    chains=10,
    tune=20_000,
    draws=20_000,
    thin=10,
    gain=5000,
    theta="per-chain",
    adapt="always",
    kernel=sahmc.HMC(step_size=0.3, num_integration_steps=20, metric="unit", jitter=0),
)
RUNS = {"step (the paper)": PAPER, "linear": dict(tilt="linear"), "tempered (the default)": dict(tilt="tempered")}


def known_barrier(log_density, x1, x2, spacing=0.01, margin=4):
    """The lowest and highest energy of the best path, without any path: flood the plane until one lake holds both."""
    low, high = np.minimum(x1, x2) - margin, np.maximum(x1, x2) + margin
    axes = [np.arange(a, b, spacing) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    energy = -np.asarray(jax.jit(jax.vmap(jax.vmap(log_density)))(jnp.asarray(grid)))
    cells = [tuple(np.round((x - low) / spacing).astype(int)) for x in (x1, x2)]
    ends = [float(energy[cell]) for cell in cells]
    dry, wet = max(ends), float(energy.max())
    while wet - dry > 1e-3:
        level = 0.5 * (dry + wet)
        lake = ndimage.label(energy <= level, structure=np.ones((3, 3)))[0]
        dry, wet = (dry, level) if lake[cells[0]] == lake[cells[1]] else (level, wet)
    return min(ends), wet


def known_height(lowest, highest, start, tilt=None, theta=None):
    """The best path takes every energy between the two, and Theta is a function of the energy."""
    energy = np.append(np.linspace(lowest, highest, 10_001), start)
    if tilt is not None:
        energy = energy + np.asarray(jax.vmap(tilt.bias, (None, 0))(jnp.asarray(theta), jnp.asarray(energy)))
    return float(energy.max() - energy[-1])


def measure(target, x1, x2, results):
    """(known height, barrier) before the tilt, and a list of them after each tilt: one for every theta of the run."""
    lowest, highest = known_barrier(target.log_density, x1, x2)
    start = -float(target.log_density(x1))

    def pair(**tilt):
        found = sahmc.energy_barrier(target.log_density, jnp.asarray(x1), jnp.asarray(x2), **tilt)
        return known_height(lowest, highest, start, **tilt), found

    after = {
        name: sorted(
            (pair(tilt=result.tilt, theta=theta) for theta in np.atleast_2d(result.theta)),
            key=lambda each: each[1].tilted_height,
        )
        for name, result in results.items()
    }
    return pair(), after


def middle(pairs):
    return pairs[len(pairs) // 2]


def cell(pairs):
    """Known / found: the upper median over chains where each has its own theta, with the range of what was found."""
    known, found = middle(pairs)
    heights = [barrier.tilted_height for _, barrier in pairs]
    span = f" ({heights[0]:.2f} to {heights[-1]:.2f})" if len(pairs) > 1 else ""
    return f"{known:.2f} / {found.tilted_height:.2f}{span}"


def draw(after, title, caption, out):
    figure = Figure(figsize=(13.5, 5.6), layout="constrained")
    axes = figure.subplots(1, len(after), sharey=True, squeeze=False)[0]
    limits = []
    for axis, (name, pairs) in zip(axes, after.items(), strict=True):
        sahmc.plot_barrier(middle(pairs)[1], axis)
        limits.append(axis.get_ylim())
        axis.set_title(name, fontsize=17)
        axis.label_outer()
    axes[0].set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
    for axis in axes[1:]:
        axis.get_legend().remove()
    figure.suptitle(title, fontsize=15, color="0.3")
    figure.supxlabel(caption, fontsize=7, color="0.5")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/energy_barrier.png"), help="the picture")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="one barrier after one short run")
    args = parser.parse_args(argv)
    runs, sets, pairs = RUNS, SETS, slice(None)
    if args.quick:
        runs = {"step (the paper)": PAPER | dict(thin=1)}
        sets, pairs = {"set 2": SETS["set 2"]}, slice(-1, None)
    made = (
        f"{jax.devices()[0].device_kind} ({platform.machine()}, {os.cpu_count()} cores), jax {jax.__version__}, "
        f"sahmc {sahmc.__version__}, seed {args.seed}, {time.strftime('%Y-%m-%d')}"
    )
    print(f"{made}\n\n| | from | to | before the tilt | {' | '.join(runs)} |")
    print("|---|---|---|" + "---:|" * (1 + len(runs)), flush=True)
    measured = []
    for name, (a, b) in sets.items():
        target = mixture(a, b)
        results = {
            tilt: sahmc.sample(target.log_density, jnp.zeros(2), random_seed=args.seed, reference=False, **settings)
            for tilt, settings in runs.items()
        }
        for x1, x2 in [(a, b), (0, a), (0, b)][pairs]:
            (known, found), after = measure(target, np.full(2, float(x1)), np.full(2, float(x2)), results)
            cells = [f"{known:.2f} / {found.height:.2f}", *map(cell, after.values())]
            print(f"| {name} | ({x1}, {x1}) | ({x2}, {x2}) | {' | '.join(cells)} |", flush=True)
            measured.append((known, found, after))
    title = f"From the mode at x1 = ({x1}, {x1}) to that at x2 = ({x2}, {x2}), before and after the tilt"
    draw(after, title, f"{made}; examples/energy_barrier.py", args.out)
    return measured


if __name__ == "__main__":
    main()
