"""The whole validation suite, many seeds, three budgets, nothing set: how wrong are runs, and do they say so?

    python benchmarks/validation.py run --jobs 2 --out out/validation.csv
    python benchmarks/validation.py table out/validation.csv > docs/validation_table.md

``--targets raw`` is every raw log density of ``sahmc.testing.RAW``, ``all`` both suites, other names single targets.
``--named`` is the twin of each in which every coordinate is a number with a name.
A run is *wrong* if a mean or a mode mass is off by more than five of its own standard errors, *silent* if it has no
findings, and it *cries wolf* if it is right and has a finding of severity "error".
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
import platform
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

BUDGETS: dict[str, dict[str, int]] = {
    "tiny": {"draws": 100, "tune": 100},
    "default": {},
    "large": {"draws": 4000, "tune": 2000},
    "largest": {"draws": 8000, "tune": 4000},
}
FIELDS = [
    "target",
    "budget",
    "seed",
    "gradients",
    "z",
    "mass_error",
    "f_error",
    "mean_error",
    "ess",
    "modes",
    "jumps",
    "trips",
    "errors",
    "warnings",
    "log_z",
    "log_z_error",
    "seconds",
]
SEEDS_AT_ONCE = 10
WRONG = 5.0
NAMED = " named"
"""Ends the name of a target whose coordinates are numbers with names, in which symmetries are looked for."""


def run_task(task: tuple[str, str, range]) -> list[dict[str, object]]:
    """One target at one budget."""
    name, budget, seeds = task
    import jax.numpy as jnp
    import numpy as np

    import sahmc

    target = targets()[name.removesuffix(NAMED)]()
    start: Any = jnp.asarray(target.start, jnp.float32)
    log_density, indicators, answers = target.log_density, target.indicators, target.answers
    if name.endswith(NAMED):
        names = [f"v{i}" for i in range(len(start))]
        start = dict(zip(names, start, strict=True))
        log_density, indicators, answers = (of_names(fn, names) for fn in (log_density, indicators, answers))
    rows = []
    for seed in seeds:
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = sahmc.sample(log_density, start, random_seed=seed, progressbar=False, **BUDGETS[budget])
        off = np.abs(result.expectation(indicators).mean - target.masses)
        found, mean_off = result.expectation(answers), np.zeros(1)
        if target.mean is not None:
            mean_off = np.abs(found.mean[: len(target.mean)] - target.mean)
        log_z = evidence(result)
        codes = {
            s: " ".join(sorted({f.code for f in result.findings if f.severity == s})) for s in ("error", "warning")
        }
        rows.append(
            {
                "target": name,
                "budget": budget,
                "seed": seed,
                "gradients": result.num_gradients,
                "z": f"{target.worst_z(found):.2f}",
                "mass_error": f"{off.max():.5f}",
                "f_error": f"{off.mean():.5f}",
                "mean_error": f"{mean_off.max():.5f}",
                "ess": f"{np.nanmin(result.ess(answers)):.0f}",
                "modes": result.warmup.num_modes,
                "jumps": f"{result.jumps[1] / max(1, result.jumps[0]):.3f}",
                "trips": int(result.round_trips.sum()),
                "errors": codes["error"],
                "warnings": codes["warning"],
                "log_z": "" if log_z is None else f"{log_z[0] - (target.log_normaliser or 0.0):.4f}",
                "log_z_error": "" if log_z is None else f"{log_z[1]:.4f}",
                "seconds": f"{time.perf_counter() - began:.1f}",
            }
        )
    return rows


def of_names(fn: Callable, names: list[str]) -> Callable:
    """A function of a vector as one of a dict of numbers with names."""
    import jax.numpy as jnp

    return lambda position: fn(jnp.stack([position[name] for name in names]))


def targets() -> dict:
    """Every target by its name."""
    from sahmc.testing.targets import RAW, SUITE

    return {**SUITE, **RAW}


def evidence(result) -> tuple[float, float] | None:
    """The log evidence and its standard error; None where the run cannot know it."""
    try:
        found = result.log_evidence()
    except ValueError:
        return None
    return float(found.mean), float(found.mcse)


def run(args: argparse.Namespace) -> None:
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["JAX_PLATFORMS"] = "cpu"
    from sahmc.testing.targets import RAW, SUITE

    named = {"": SUITE, "raw": RAW, "all": targets()}
    names = list(named.get(args.targets, args.targets.split(",")))
    names = [name + NAMED for name in names] if args.named else names
    low, high = map(int, args.seeds.split(":"))
    budgets = [b for b in reversed(BUDGETS) if b in args.budgets.split(",")]
    names = sorted(names, key=lambda name: -len(targets()[name.removesuffix(NAMED)]().start))  # the slow ones first
    blocks = [range(i, min(i + SEEDS_AT_ONCE, high)) for i in range(low, high, SEEDS_AT_ONCE)]
    tasks = [(name, budget, block) for budget in budgets for name in names for block in blocks]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    began, done = time.perf_counter(), 0
    with args.out.open("a", newline="") as file, multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        writer = csv.DictWriter(file, FIELDS)
        if not args.out.stat().st_size:
            writer.writeheader()
        for rows in pool.imap_unordered(run_task, tasks):
            writer.writerows(rows)
            file.flush()
            done += 1
            print(
                f"{done}/{len(tasks)} {rows[0]['target']} {rows[0]['budget']}",
                time.perf_counter() - began,
                file=sys.stderr,
            )


def table(args: argparse.Namespace) -> None:
    rows = [row for path in args.csv for row in csv.DictReader(path.open())]
    groups: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        groups[row["budget"], row["target"]].append(row)
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    budgets = [b for b in BUDGETS if any(r["budget"] == b for r in rows)]
    for budget in budgets:
        some = [r for r in rows if r["budget"] == budget]
        settings = ", ".join(f"{k}={v}" for k, v in BUDGETS[budget].items()) or "draws=1000, tune=1000"
        print(
            f"\n**{budget}** ({settings}; {sum(int(r['gradients']) for r in some) / len(some) / 1e6:.2f} million gradients)\n"  # noqa: E501
        )
        print(
            "| target | runs | mass error, rms | largest | largest z | wrong | wrong and silent | right with an error | findings |"  # noqa: E501
        )
        print("|---|---|---|---|---|---|---|---|---|")
        for (_, name), group in sorted(
            ((k, g) for k, g in groups.items() if k[0] == budget), key=lambda item: _place(item[0][1])
        ):
            count = _count(group)
            totals[budget] += count
            errors = [float(r["mass_error"]) for r in group]
            rms = (sum(e * e for e in errors) / len(errors)) ** 0.5
            codes = Counter(c for r in group for c in (r["errors"] + " " + r["warnings"]).split())
            said = ", ".join(f"{code} {n}" for code, n in codes.most_common())
            masses = f"{rms:.4f} | {max(errors):.4f}" if max(errors) > 0 else "- | -"
            print(
                f"| {name} | {len(group)} | {masses} | {max(float(r['z']) for r in group):.1f} | {count['wrong']} | "
                f"{count['silent']} | {count['wolf']} | {said} |"
            )
    print("\n| budget | runs | wrong | wrong and silent | right | right with an error |\n|---|---|---|---|---|---|")
    for budget in [*budgets, "all"]:
        count = totals[budget] if budget != "all" else sum(totals.values(), Counter())
        n, right = count["runs"], count["runs"] - count["wrong"]
        print(
            f"| {budget} | {n} | {count['wrong']} | {count['silent']} ({count['silent'] / n:.2%}) | {right} | "
            f"{count['wolf']} ({count['wolf'] / max(1, right):.1%}) |"
        )
    _signature(args.made_on, rows)


def compare(args: argparse.Namespace) -> None:
    """Two versions side by side: the first CSV is that of the older one."""
    sides = []
    for path in args.csv:
        groups: dict[str, list[dict[str, str]]] = defaultdict(list)
        for row in csv.DictReader(path.open()):
            groups[row["target"]].append(row)
        sides.append(groups)
    print("| target | runs | largest error of a mass | wrong | wrong and silent | right with an error | log Z: rms z |")
    print("|---|---|---|---|---|---|---|")
    totals = [Counter(), Counter()]
    for name in sorted(sides[1], key=_place):
        both = [side.get(name, []) for side in sides]
        counts = [_count(group) for group in both]
        for total, count in zip(totals, counts, strict=True):
            total.update(count)
        worst = [f"{max(float(r['mass_error']) for r in group):.4f}" if group else "-" for group in both]
        known = targets()[name]().log_normaliser is not None
        z = [float(r["log_z"]) / float(r["log_z_error"]) for r in both[1] if known and r["log_z"] not in ("", "nan")]
        rms = f"{(sum(v * v for v in z) / len(z)) ** 0.5:.2f} ({len(z)} runs)" if z else ""
        cells = [" → ".join(str(c[key]) if c["runs"] else "-" for c in counts) for key in ("wrong", "silent", "wolf")]
        runs = f"{counts[0]['runs']}, {counts[1]['runs']}"
        print(f"| {name} | {runs} | {' → '.join(worst)} | {' | '.join(cells)} | {rms} |")
    cells = [" → ".join(str(t[key]) for t in totals) for key in ("wrong", "silent", "wolf")]
    print(f"| all | {totals[0]['runs']}, {totals[1]['runs']} | | {' | '.join(cells)} | |")
    _signature(args.made_on, [row for group in sides[1].values() for row in group])


def bars(args: argparse.Namespace) -> None:
    """The largest errors of seeds 0 to 4, at the default and the largest budget."""
    rows = [row for path in args.csv for row in csv.DictReader(path.open()) if int(row["seed"]) < 5]
    rows = [row for row in rows if row["budget"] in ("default", "largest")]
    groups: dict[str, dict[str, list[dict[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        groups[row["target"]][row["budget"]].append(row)
    print("| target | mass of a mode | F_err | mean of a coordinate | mass | F_err | mean | findings |")
    print("|---|---|---|---|---|---|---|---|")
    for name, by_budget in sorted(groups.items(), key=lambda item: _place(item[0])):
        if len(by_budget) < 2:
            continue
        cells = [
            f"{max(float(r[field]) for r in by_budget[budget]):.4f}"
            for budget in ("default", "largest")
            for field in ("mass_error", "f_error", "mean_error")
        ]
        codes: Counter[str] = Counter()
        for budget, group in by_budget.items():
            codes.update(f"{code} ({budget})" for r in group for code in (r["errors"] + " " + r["warnings"]).split())
        said = ", ".join(f"{code} {n}" for code, n in codes.most_common())
        print(f"| {name} | {' | '.join(cells)} | {said} |")
    print()
    for budget in ("default", "largest"):
        spent = [int(r["gradients"]) for r in rows if r["budget"] == budget]
        settings = ", ".join(f"{k}={v}" for k, v in BUDGETS[budget].items()) or "nothing set"
        print(f"{budget}: {settings}, {sum(spent) / len(spent) / 1e6:.2f} million gradients a run. ", end="")
    print()
    _signature(args.made_on, rows)


def _place(name: str) -> int:
    return list(targets()).index(name.removesuffix(NAMED))


def _signature(made_on: str, rows: list[dict[str, str]]) -> None:
    import jax

    import sahmc

    seeds = [int(r["seed"]) for r in rows]
    print(f"\nsahmc {sahmc.__version__}, {made_on or f'{platform.machine()} CPU, jax {jax.__version__}'}, ", end="")
    print(f"seeds {min(seeds)} to {max(seeds)}, {time.strftime('%Y-%m-%d')}; by `benchmarks/validation.py`.")


def _count(group: list[dict[str, str]]) -> Counter[str]:
    count: Counter[str] = Counter(runs=len(group))
    for row in group:
        wrong = not float(row["z"]) <= WRONG
        count["wrong"] += wrong
        count["silent"] += wrong and not row["errors"] and not row["warnings"]
        count["wolf"] += not wrong and bool(row["errors"])
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run")
    one.add_argument("--out", type=Path, default=Path("out/validation.csv"))
    one.add_argument("--jobs", type=int, default=2)
    one.add_argument("--seeds", default="0:20", help="first:last+1")
    one.add_argument("--budgets", default="tiny,default,large")
    one.add_argument("--targets", default="")
    one.add_argument("--named", action="store_true", help="coordinates have names, and symmetries are looked for")
    one.set_defaults(call=run)
    for name, call in {"table": table, "bars": bars, "compare": compare}.items():
        two = commands.add_parser(name)
        two.add_argument("csv", type=Path, nargs="+")
        two.add_argument("--made-on", default="", help="hardware and JAX version, where the CSV was not made here")
        two.set_defaults(call=call)
    args = parser.parse_args()
    args.call(args)


if __name__ == "__main__":
    main()
