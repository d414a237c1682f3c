"""Ordinary models with one mode, nothing set: is ``sahmc.sample`` right there, and quiet?

    python benchmarks/ordinary.py check                       # every model builds, and is finite in 32 bits
    python benchmarks/ordinary.py truth --jobs 2              # long runs of NUTS, once; into out/ordinary_truth
    python benchmarks/ordinary.py run --jobs 2 --out out/ordinary.csv
    python benchmarks/ordinary.py broken --jobs 2 --out out/broken.csv
    python benchmarks/ordinary.py table out/ordinary.csv

Models are those of ``ordinary_models.py``, under priors 1 to 10^6 times too wide and in units of 10^-6 to 10^6; by
default each width is run in one unit. Those of ``ordinary_broken.py`` break far from the posterior, and plain HMC runs
beside. A run is *wrong* if the mean of a variable, or of ((variable - its true mean) / its true standard deviation)^2,
is off by more than five standard errors, or if it raised an exception; and *silent* if it says nothing of that.
"""

from __future__ import annotations

import argparse
import csv
import math
import multiprocessing
import os
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

WIDTHS = (1.0, 1e2, 1e4, 1e6)
UNITS = (1.0, 1e-6, 1e3, 1e6)
TASK = ("model", "width", "unit", "seed", "bits", "tilt")
FIELDS = (
    *TASK,
    *("z", "parameter", "errors", "warnings", "gradients", "seconds", "log_z_off", "log_z_error", "top", "exception"),
)
WRONG = 5.0
DEFAULT_TILT = "tempered"


def built(name: str, width: float, unit: float) -> Any:
    """Return the problem of a name, of either kind."""
    from ordinary_broken import BROKEN
    from ordinary_models import MODELS

    return BROKEN[name]() if name in BROKEN else MODELS[name](width, unit)


def use_bits(bits: int) -> None:
    import jax

    jax.config.update("jax_enable_x64", bits == 64)


def worst_of(result: Any, truth: Any) -> tuple[float, str]:
    """Return the largest z of means and squares, and the variable that has it; nan if there is one."""
    import numpy as np

    from sahmc.tilt.importance import weighted_mean

    worst, where = -1.0, ""
    draws, weight = result.values(), np.asarray(result.weight, float)
    for name, known in truth.moments.items():
        standard = (np.asarray(draws[name], float) - known.mean) / known.sd  # in 64 bits, whatever the draws are in
        for power, right, error in ((1, 0.0, known.mcse / known.sd), (2, 1.0, known.square_mcse)):
            with np.errstate(all="ignore"):
                found = weighted_mean(standard**power, weight)
                z = np.ravel(np.abs(found.mean - right) / np.hypot(found.mcse, error))
            at = int(np.argmax(np.where(np.isnan(z), np.inf, z)))
            if np.isnan(z[at]) or z[at] > worst:
                worst = float(z[at])
                where = name + (f"[{at}]" if z.size > 1 else "") + ("^2" if power == 2 else "")
            if np.isnan(worst):
                return worst, where
    return worst, where


def run_task(task: tuple[str, float, float, int, int, str]) -> dict[str, Any]:
    """Run one model once; return its row."""
    name, width, unit, seed, bits, tilt = task
    use_bits(bits)
    from ordinary_broken import BROKEN

    row: dict[str, Any] = {**dict.fromkeys(FIELDS, ""), **key_of(task)}
    began = time.perf_counter()
    try:
        problem = built(name, width, unit)
        options = {} if tilt == DEFAULT_TILT else {"tilt": tilt}
        if name in BROKEN:
            options["initvals"] = initvals(problem)
        row |= outcome(problem, known(name, width, problem), seed, options)
    except Exception as error:
        row |= {"z": "nan", "exception": " ".join(f"{type(error).__name__}: {error}".split())[:300]}
    return {**row, "seconds": f"{time.perf_counter() - began:.1f}"}


def outcome(problem: Any, truth: Any, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """Return what a run says, and how far from the truth it is."""
    import sahmc

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = sahmc.sample(problem.model, model_args=problem.args, random_seed=seed, progressbar=False, **options)
    z, where = worst_of(result, truth)
    said = {s: " ".join(sorted({f.code for f in result.findings if f.severity == s})) for s in ("error", "warning")}
    warmup = result.warmup
    row = {
        "z": f"{z:.2f}",
        "parameter": where,
        "errors": said["error"],
        "warnings": said["warning"],
        "gradients": result.num_gradients,
        "top": "none" if warmup.top is None else "prior" if warmup.reference is None else "reference",
    }
    if warmup.top is not None and warmup.reference is None and warmup.top != float("inf"):
        row["top"] = "heat"
    try:
        log_z = result.log_evidence()
    except ValueError:
        return row
    off = "" if truth.log_evidence is None else f"{float(log_z.mean) - truth.log_evidence:.4f}"
    return {**row, "log_z_off": off, "log_z_error": f"{float(log_z.mcse):.4f}"}


def initvals(problem: Any) -> dict[str, Any]:
    import jax.numpy as jnp

    return {name: jnp.asarray(value, float) for name, value in problem.near.items()}


def known(name: str, width: float, problem: Any) -> Any:
    from ordinary_truth import known_truth

    return known_truth(name, width, problem)


def key_of(task: Iterable[Any]) -> dict[str, str]:
    """Return the fields that say which run it is, as they stand in the file."""
    name, width, unit, seed, bits, tilt = task
    return dict(zip(TASK, (name, f"{width:g}", f"{unit:g}", str(seed), str(bits), tilt), strict=True))


def truth_task(task: tuple[str, tuple[float, ...], int]) -> str:
    """Make the long runs of one model that are not there yet."""
    name, widths, draws = task
    use_bits(64)
    from ordinary_truth import good_run, is_known, keep

    lines = []
    for width in widths:
        problem, began = built(name, width, 1.0), time.perf_counter()
        if is_known(name, width, problem):
            continue
        found = good_run(problem, draws)
        keep(name, width, found)
        lines.append(
            f"{name} {width:g}: seed {found['seed']}, rhat {found['rhat']:.4f}, divergences {found['divergences']}, "
            f"{time.perf_counter() - began:.0f} s"
        )
    return "\n".join(lines)


def check_task(task: tuple[str, int]) -> str:
    """Tell at which widths and units one model is not finite near its truth, and at which sahmc does not take it."""
    name, bits = task
    import jax
    import numpy as np
    from ordinary_broken import BROKEN

    import sahmc

    bad, refused, tried = [], [], 0
    for width in (1.0,) if name in BROKEN else WIDTHS:
        for unit in (1.0,) if name in BROKEN else sorted(UNITS):
            problem = built(name, width, unit)
            use_bits(problem.bits or bits)
            parts = jax.value_and_grad(log_density_of(problem))(initvals(problem))
            tried += 1
            if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(parts)):
                bad.append(f"({width:g}, {unit:g})")
            try:
                if not isinstance(problem.model, sahmc.Model):
                    sahmc.from_numpyro(problem.model, *problem.args)
            except Exception as error:
                refused.append(f"({width:g}, {unit:g}) {type(error).__name__}: {error}")
    said = f"{name}: {tried} tried, not finite: {', '.join(bad) or 'none'}"
    return "\n  refused ".join([said, *refused])


def log_density_of(problem: Any) -> Callable[[Any], Any]:
    """Return the log density of a problem as a function of its variables by name."""
    import sahmc

    if isinstance(problem.model, sahmc.Model):
        own = problem.model
        place = own.unconstrain or (lambda values: values)
        return lambda values: own.log_likelihood(place(values)) + own.log_prior(place(values))
    from numpyro.infer.util import log_density

    return lambda values: log_density(problem.model, problem.args, {}, values)[0]


def in_processes(call: Callable[[Any], Any], tasks: list[Any], jobs: int) -> Iterable[Any]:
    """Yield what ``call`` returns for each task, as it comes; each has a process of its own, of one thread."""
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["JAX_PLATFORMS"] = "cpu"
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(call, tasks, chunksize=1)


def sampled(args: argparse.Namespace, tasks: list[tuple]) -> None:
    """Run what is not yet in the file, and add a row for each to it at once."""
    from ordinary_truth import is_known

    missing = sorted({t[0] for t in tasks if not is_known(t[0], t[1], built(t[0], t[1], 1.0))})
    if missing:
        sys.exit(f"The truth of these is not known yet: run `truth --models {','.join(missing)}` first.")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    done = list(csv.DictReader(args.out.open())) if args.out.exists() else []
    have = {tuple(row[field] for field in TASK) for row in done}
    tasks = [task for task in tasks if tuple(key_of(task).values()) not in have]
    began = time.perf_counter()
    with args.out.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if not args.out.stat().st_size:
            writer.writeheader()
        for count, row in enumerate(in_processes(run_task, tasks, args.jobs), 1):
            writer.writerow(row)
            file.flush()
            brief = " ".join(str(row[field]) for field in (*TASK, "z", "errors", "warnings", "exception"))
            print(f"{count}/{len(tasks)} {brief} {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)


def run(args: argparse.Namespace) -> None:
    from ordinary_models import MODELS

    names = chosen(args.models, list(MODELS))
    if args.design == "diagonal":
        place = {name: i for i, name in enumerate(MODELS)}
        pairs = [
            (name, w, args.units[(place[name] + i) % len(args.units)])
            for name in names
            for i, w in enumerate(args.widths)
        ]
    else:
        pairs = [(name, w, u) for name in names for w in args.widths for u in args.units]
    sampled(args, [(*pair, seed, args.bits, DEFAULT_TILT) for seed in args.seeds for pair in pairs])


def broken(args: argparse.Namespace) -> None:
    from ordinary_broken import BROKEN

    names = chosen(args.models, list(BROKEN))
    bits = {name: BROKEN[name]().bits or args.bits for name in names}
    sampled(
        args,
        [
            (name, 1.0, 1.0, seed, bits[name], tilt)
            for seed in args.seeds
            for name in names
            for tilt in (DEFAULT_TILT, "none")
        ],
    )


def truth(args: argparse.Namespace) -> None:
    from ordinary_broken import BROKEN
    from ordinary_models import MODELS

    names = chosen(args.models, [*MODELS, *BROKEN])
    tasks = [(name, (1.0,) if name in BROKEN else tuple(args.widths), args.draws) for name in names]
    tasks = [task for task in tasks if built(task[0], 1.0, 1.0).exact is None]
    for said in in_processes(truth_task, tasks, args.jobs):
        if said:
            print(said, flush=True)


def check(args: argparse.Namespace) -> None:
    from ordinary_broken import BROKEN
    from ordinary_models import MODELS

    names = chosen(args.models, [*MODELS, *BROKEN])
    for said in in_processes(check_task, [(name, args.bits) for name in names], args.jobs):
        print(said, flush=True)


def chosen(names: str, every: list[str]) -> list[str]:
    wanted = every if names == "all" else names.split(",")
    stray = [name for name in wanted if name not in every]
    if stray:
        sys.exit(f"Unknown: {', '.join(stray)}. There are: {', '.join(every)}.")
    return wanted


def table(args: argparse.Namespace) -> None:
    rows = [row for path in args.csv for row in csv.DictReader(path.open())]
    both = len({row["tilt"] for row in rows}) > 1
    groups: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        groups[row["model"], row["tilt"]].append(row)
    print("| model | runs | largest z | wrong | errors | warnings | exceptions | log Z: largest z | top | gradients |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for (name, tilt), group in groups.items():
        worst = max(group, key=_z)
        tops = ", ".join(f"{top} {n}" for top, n in Counter(r["top"] for r in group if r["top"]).most_common())
        spent = [int(r["gradients"]) for r in group if r["gradients"]]
        cells = (
            name + (f", {tilt}" if both else ""),
            len(group),
            f"{float(worst['z']):.1f} {worst['parameter']}".strip(),
            sum(map(_is_wrong, group)),
            _codes(group, "errors"),
            _codes(group, "warnings"),
            sum(bool(r["exception"]) for r in group) or "",
            _evidence(group),
            tops,
            f"{sum(spent) / len(spent) / 1e6:.2f} M" if spent else "",
        )
        print("| " + " | ".join(map(str, cells)) + " |")
    by = {"tilt": both, "width": len({r["width"] for r in rows}) > 1, "unit": len({r["unit"] for r in rows}) > 1}
    print("\n| | runs | wrong | wrong and silent | right with an error | right with a warning |")
    print("|---|---|---|---|---|---|")
    for field in (field for field, several in by.items() if several):
        for value in dict.fromkeys(row[field] for row in rows):
            _total(f"{field} {value}", [row for row in rows if row[field] == value])
    _total("all", rows)
    said = sorted({r["exception"] for r in rows if r["exception"]})
    print("".join(f"\n- {text}" for text in said))


def _z(row: dict[str, str]) -> float:
    """Return the z of a row for comparison: inf for nan."""
    z = float(row["z"])
    return float("inf") if math.isnan(z) else z


def _is_wrong(row: dict[str, str]) -> bool:
    return _z(row) > WRONG


def _codes(group: list[dict[str, str]], field: str) -> str:
    return ", ".join(f"{code} {n}" for code, n in Counter(c for r in group for c in r[field].split()).most_common())


def _evidence(group: list[dict[str, str]]) -> str:
    """Return the largest error of the log evidence over its own standard error, and how many runs know it."""
    z = [abs(float(r["log_z_off"])) / float(r["log_z_error"]) for r in group if r["log_z_off"] not in ("", "nan")]
    return f"{max(z):.1f} ({len(z)})" if z else ""


def _total(name: str, rows: list[dict[str, str]]) -> None:
    wrong = [row for row in rows if _is_wrong(row)]
    right = [row for row in rows if not _is_wrong(row)]
    silent = sum(not (r["errors"] or r["warnings"] or r["exception"]) for r in wrong)
    alarms, notes = (sum(bool(r[field]) for r in right) for field in ("errors", "warnings"))
    print(f"| {name} | {len(rows)} | {len(wrong)} | {silent} | {alarms} | {notes} |")


def numbers(text: str) -> tuple[float, ...]:
    return tuple(map(float, text.split(",")))


def seeds(text: str) -> range:
    low, _, high = text.rpartition(":")
    return range(int(low or 0), int(high))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    made = {}
    for call in (run, broken, truth, check, table):
        made[call.__name__] = one = commands.add_parser(call.__name__)
        one.set_defaults(call=call)
        if call is table:
            one.add_argument("csv", type=Path, nargs="+")
            continue
        one.add_argument("--models", default="all", help="all, or names with commas between")
        one.add_argument("--jobs", type=int, default=2)
        if call is not truth:
            one.add_argument("--bits", type=int, choices=(32, 64), default=32)
        if call in (run, broken):
            one.add_argument("--seeds", type=seeds, default=range(2), help="how many, or first:last+1")
            one.add_argument("--out", type=Path, default=Path(f"out/{'ordinary' if call is run else 'broken'}.csv"))
        if call in (run, truth):
            one.add_argument("--widths", type=numbers, default=WIDTHS)
    made["run"].add_argument("--units", type=numbers, default=UNITS)
    made["run"].add_argument("--design", choices=("diagonal", "full"), default="diagonal")
    made["truth"].add_argument("--draws", type=int, default=4000, help="of each of 4 chains, after as many to warm up")
    args = parser.parse_args()
    args.call(args)


if __name__ == "__main__":
    main()
