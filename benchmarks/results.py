"""What comes back, held against the truth; each table by one command.

python benchmarks/results.py arviz     ArviZ's ESS and R-hat on equal-weight draws, beside our own and the truth
python benchmarks/results.py modes     masses of modes() in their own standard errors: eight modes d = 11, sensor net
python benchmarks/results.py chunks    what cutting the loop into chunks, and keeping a run on disk, cost
python benchmarks/results.py memory    draws that exceed the memory the process may use
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import tempfile
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import sahmc
from sahmc.engine import loop as run
from sahmc.testing import eight_modes, mixture, sensor_network


def quiet(*args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sahmc.sample(*args, **{"progressbar": False, **kwargs})


def table_arviz(args):
    """Truth: the spread of the estimates over the runs."""
    from arviz_stats.base import array_stats

    target = mixture(-8.0, 6.0)
    names = ("sahmc", "az.ess, mean", "az.ess, bulk", "az.ess, chains apart", "az.ess, order lost")
    means, errors, hats = [], {name: [] for name in names}, []
    rng = np.random.default_rng(0)
    for seed in range(args.seeds):
        result = quiet(target.log_density, target.start, random_seed=seed)
        draws = result.to_datatree()["posterior"]["x"].values[..., 0].astype(float)
        found = result.expectation(lambda x: x[0])
        means.append((float(found.mean), draws.mean()))
        sd = draws.std()

        def ess(values, method="mean"):
            return float(array_stats.ess(values, chain_axis=0, draw_axis=1, method=method))

        own = np.stack([x[_systematic(w, rng)] for x, w in zip(result.draws[..., 0], result.weight, strict=True)])
        shuffled = rng.permutation(draws.ravel()).reshape(draws.shape)
        for name, size in zip(
            names, (sd**2 / found.mcse**2, ess(draws), ess(draws, "bulk"), ess(own), ess(shuffled)), strict=True
        ):
            errors[name].append(float(size))
        hats.append(float(array_stats.rhat(draws, chain_axis=0, draw_axis=1, method="rank")))
    means, variance = np.array(means), target_variance(target)
    print("| effective sample size of the mean of x0 | mean over runs | over the truth |\n|---|---:|---:|")
    truth = {}
    for k, name in enumerate(("weighted draws", "equal-weight draws")):
        truth[k] = variance / means[:, k].var(ddof=1)
        error = truth[k] * np.sqrt(2 / (len(means) - 1))
        print(f"| **truth, {name}**: posterior variance over that of the estimates | {truth[k]:.0f} +- {error:.0f} | |")
    for name, values in errors.items():
        print(f"| {name} | {np.mean(values):.0f} | {np.mean(values) / truth[name != 'sahmc']:.2f} |")
    print(f"\nArviZ's R-hat: median {np.median(hats):.4f}, highest {max(hats):.4f} of {len(hats)} runs.")


def _systematic(weight, rng):
    cumulative = np.cumsum(weight / weight.sum())
    points = (rng.random() + np.arange(len(weight))) / len(weight)
    return np.minimum(np.searchsorted(cumulative, points), len(weight) - 1)


def target_variance(target):
    """Of x0 under mixture(-8, 6): components at -8, 6 and 0 with unit variances."""
    centres = np.array([-8.0, 6.0, 0.0])
    return 1.0 + centres.var()


def table_modes(args):
    """The truth for the sensor network is the share of reference draws that belong to each mode as it was found."""
    print("| target | seeds | modes found | z of masses: rms | largest | beyond 2 | beyond 4 |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    reference = None
    if args.reference is not None:
        reference = jnp.asarray(np.loadtxt(args.reference, delimiter=",", skiprows=1), jnp.float32)
    targets = {"eight modes, d = 11": (eight_modes(11), None), "sensor network": (sensor_network(), reference)}
    for name, (target, draws) in targets.items():
        if name == "sensor network" and draws is None:
            print("| sensor network | - | needs --reference, a file of reference draws | | | | |")
            continue
        scores, counts = [], []
        for seed in range(args.seeds):
            result = quiet(target.log_density, jnp.asarray(target.start), random_seed=seed)
            table = result.modes()
            counts.append(len(table))
            truth, error = true_masses(result, table, target, draws)
            found = np.array([mode.mass for mode in table])
            own = np.array([mode.mcse for mode in table])
            counted = truth > 0.01
            scores.append(((found - truth) / np.hypot(own, error))[counted])
        z = np.concatenate(scores)
        seen = ", ".join(f"{n} ({counts.count(n)}x)" for n in sorted(set(counts)))
        print(
            f"| {name} | {args.seeds} | {seen} | {np.sqrt((z**2).mean()):.2f} | {np.abs(z).max():.2f} | "
            f"{(np.abs(z) > 2).mean():.1%} | {(np.abs(z) > 4).sum()} of {len(z)} |",
            flush=True,
        )


def true_masses(result, table, target, draws):
    """Mass of each mode of ``table`` and its error: exact, or by sorting reference draws as the run sorted its own."""
    from sahmc.modes.finder import posterior_draws
    from sahmc.modes.modes import fit_modes, nearest_modes

    if draws is None:
        share = np.stack([np.asarray(target.indicators(jnp.asarray(mode.mean, jnp.float32))) for mode in table])
        return share @ np.asarray(target.masses), 0.0
    live, seen = result.live, result.mode_assignment
    finder = live.finder.with_draws(posterior_draws(live.positions, result.log_weight))
    modes = fit_modes(finder.draws, seen.minimum, finder.scale, finder.draws.dtype)
    slot = {tuple(np.asarray(modes.minimum[k])): k for k in range(int(modes.num))}
    label = nearest_modes(modes, draws)
    share = np.array([(label == slot[tuple(seen.minimum[mode.label])]).mean() for mode in table])
    return share, np.sqrt(np.maximum(share * (1 - share), 1e-12) / len(draws))


def table_chunks(args):
    """One run in chunks of a third of a second, one in a single chunk, and one on disk, in turn."""
    target = mixture(-8.0, 6.0)
    options = dict(draws=20_000, tune=1000, random_seed=0)
    ways = {"chunks": 0.3, "as few chunks as there is room for": 1e9, "chunks, kept on disk": 0.3}
    times = {name: [] for name in ways}
    results = {}
    for _ in range(args.repeats + 1):
        for name, seconds in ways.items():
            run.CHUNK_SECONDS = seconds
            with tempfile.TemporaryDirectory() as folder:
                extra = {"checkpoint": Path(folder) / "run"} if "disk" in name else {}
                began = time.perf_counter()
                result = quiet(target.log_density, target.start, **options, **extra)
                times[name].append(time.perf_counter() - began)
                results[name] = np.array(result.draws)
    print("| | seconds | over the first row |\n|---|---:|---:|")
    base = "as few chunks as there is room for"
    for name in (base, *(n for n in ways if n != base)):
        ratio = statistics.median(a / b for a, b in zip(times[name][1:], times[base][1:], strict=True))
        same = all(np.array_equal(results[name], other) for other in results.values())
        print(f"| {name}{'' if same else ' (BITS DIFFER)'} | {statistics.median(times[name][1:]):.2f} | {ratio:.3f} |")


def table_memory(args):
    """A standard normal of 1000 dimensions; the limit is on the data of the process, files not counted."""
    dim, chains, draws = 1000, 32, args.draws
    quiet(lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(dim), draws=10, tune=100, chains=chains, tilt="none")
    limit = _data_bytes() + args.limit * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        options = dict(draws=draws, tune=100, chains=chains, tilt="none", random_seed=0)
        result = quiet(lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(dim), **options, checkpoint=Path(folder) / "run")
        size = sum(path.stat().st_size for path in Path(folder).rglob("*"))
        found = result.expectation(lambda x: jnp.stack([x[0], x[-1] ** 2]))
        print(
            f"Limit {args.limit} MiB above an idle process; {size / 2**20:.0f} MiB of draws on disk; peak "
            f"{_peak() / 2**20:.0f} MiB resident, files included."
        )
        print(f"Means of x0 and x999 squared: {found.mean.round(4)} +- {found.mcse.round(4)} (truth 0 and 1).")
        try:
            quiet(lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(dim), **options)
            print("Without a checkpoint: it fits as well, so the limit proves nothing.")
        except (MemoryError, RuntimeError, ValueError) as error:
            print(f"The same without a checkpoint: {type(error).__name__}.")


def _data_bytes():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData"):
            return 1024 * int(line.split()[1])
    raise OSError("no VmData on this system")


def _peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tables = {"arviz": table_arviz, "modes": table_modes, "chunks": table_chunks, "memory": table_memory}
    parser.add_argument("table", choices=tables)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--draws", type=int, default=32_000)
    parser.add_argument("--limit", type=int, default=1500, help="MiB")
    parser.add_argument("--folder", help="for the files of the memory table")
    parser.add_argument("--reference", type=Path, help="CSV of reference draws of the sensor network")
    args = parser.parse_args()
    args.seeds = args.seeds or {"arviz": 100, "modes": 30}.get(args.table, 1)
    device = jax.devices()[0]
    print(
        f"{device.device_kind} ({platform.machine()}, {os.cpu_count()} cores), jax {jax.__version__}, "
        f"sahmc {sahmc.__version__}, seeds from 0, {time.strftime('%Y-%m-%d')}; "
        f"made by `python benchmarks/results.py {args.table}`\n"
    )
    tables[args.table](args)


if __name__ == "__main__":
    main()
