"""Are stated errors right, and do alarms mean something? Three families of posteriors, default budget, many seeds.

    python benchmarks/calibration.py run --families suite,evidence,models --seeds 0:20 --jobs 2 --out out/cal.csv
    python benchmarks/calibration.py table out/cal.csv

``suite`` are the raw log densities of ``sahmc.testing.SUITE``, ``evidence`` the models of ``sahmc.testing.EVIDENCE``,
``models`` the NumPyro and PyMC models of the tests and those of ``everyday_models.py``; the truth of these last is a
long run of plain NUTS, or of the default where there may be several modes. A run is *wrong* if a mean, a mass or the
log evidence is off by more than five of its standard errors.
"""

from __future__ import annotations

import argparse
import csv
import math
import multiprocessing
import os
import platform
import sys
import time
import warnings
from collections import Counter, defaultdict
from pathlib import Path

FIELDS = ["family", "target", "seed", "z", "log_z", "log_z_error", "log_z_bridges", "errors", "warnings", "trips"]
FIELDS += ["modes", "ess", "mixing", "rhat", "seconds"]
WRONG = 5.0
NO_ERROR = 1000.0  # beyond it the stated error is as good as zero: a mode that was never seen
LONG = {"draws": 10_000, "tune": 2000}


def targets(family):
    """Return the names of a family's targets."""
    if family == "suite":
        from sahmc.testing import SUITE

        return [*SUITE, "mixture-2/step"]
    if family == "evidence":
        return [name for name in evidence_targets() if not name.endswith("-30")]
    sys.path += [str(Path(__file__).parents[1] / "tests" / "helpers"), str(Path(__file__).parent)]
    import everyday_models
    import models_numpyro

    try:
        import models_pymc
    except ImportError:
        models_pymc = type("none", (), {"MODELS": {}})

    numbered = {"numpyro": models_numpyro.MODELS, "pymc": models_pymc.MODELS, "own": everyday_models.MODELS}
    return [f"{kind}/{name}" for kind, models in numbered.items() for name in models]


def evidence_targets():
    from sahmc.testing import EVIDENCE

    return EVIDENCE


def problem(family, name):
    """Return (model, initvals, keyword arguments, function of a result -> z of every answer, true log evidence)."""
    import jax
    import numpy as np

    import sahmc

    if family == "suite":
        from sahmc.testing import SUITE

        base, _, form = name.partition("/")
        target = SUITE[base]()
        keywords = {}
        if form == "step":
            keywords = {"tilt": "step", "theta": "per-chain", "adapt": "always", "jumps": False}

        def against(result):
            found = result.expectation(target.answers)
            off, error = found.mean - target.truth, np.hypot(found.mcse, target.error)
            return np.where(np.abs(off) > 1e-6, off / np.maximum(error, 1e-12), 0.0)

        return target.log_density, np.asarray(target.start, np.float32), keywords, against, None
    if family == "evidence":
        target = evidence_targets()[name]()

        def masses(result):
            return target.mass_z(result.expectation(target.answers)) if target.truth.size else np.zeros(0)

        return target.model, None, {}, masses, target.log_evidence
    model, start, one_mode = everyday(name)

    def answers(values):
        return np.concatenate([np.ravel(x)[:10] for x in jax.tree.leaves(values)])

    known = long_run(sahmc, model, start, one_mode).expectation()
    truth, own = answers(known.mean), answers(known.mcse)

    def against(result):
        found = result.expectation()
        error = np.hypot(answers(found.mcse), own)
        off = answers(found.mean) - truth
        return np.where(np.abs(off) > 1e-5 * (1 + np.abs(truth)), off / np.where(error > 0, error, np.inf), 0.0)

    return model, start, {}, against, None


def everyday(name):
    """Return (what ``sample`` takes, initvals, whether it has one mode) of a model of the tests or of our own."""
    import sahmc

    targets("models")
    import everyday_models
    import models_numpyro

    kind, name = name.split("/")
    if kind == "own":
        return everyday_models.MODELS[name]()
    if kind == "pymc":
        import models_pymc

        return sahmc.from_pymc(models_pymc.MODELS[name]()), None, True
    function, arguments = models_numpyro.MODELS[name]
    return sahmc.from_numpyro(function, *arguments), None, True


def long_run(sahmc, model, start, one_mode):
    """Return a run that may stand for the truth: a chain of plain NUTS that is stuck would spoil it, so none may be."""
    settings = {"kernel": "nuts", "tilt": "none", **LONG, "chains": 8} if one_mode else {"draws": 8000, "tune": 4000}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(10_000, 10_005):
            found = sahmc.sample(model, start, random_seed=seed, progressbar=False, **settings)
            if not found.findings:
                return found
    raise RuntimeError(f"no reference run without findings: {found.findings}")


def agreement(result):
    """Return the least effective sample size, and the largest R-hat of influence values and of equal-weight rows."""
    import jax
    import numpy as np

    from sahmc.tilt.importance import rank_rhat, resample_rows, weighted_ess, weighted_rhat

    leaves = [np.asarray(x, float).reshape(*x.shape[:2], -1)[..., :20] for x in jax.tree.leaves(result.draws)]
    values, weight = np.concatenate(leaves, axis=2), result.weight
    values = values[..., values.std(axis=(0, 1)) > 0]
    return {
        "ess": f"{np.nanmin(weighted_ess(values, weight)):.0f}",
        "mixing": f"{np.nanmax(weighted_rhat(values, weight)):.3f}",
        "rhat": f"{np.nanmax(rank_rhat(values[resample_rows(weight, 0)])):.3f}",
    }


def run_task(task):
    """One target, all seeds."""
    family, name, seeds = task
    import numpy as np

    import sahmc

    model, start, keywords, against, truth = problem(family, name)
    rows = []
    for seed in seeds:
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = sahmc.sample(model, start, random_seed=seed, progressbar=False, **keywords)
        codes = {
            s: " ".join(sorted({f.code for f in result.findings if f.severity == s})) for s in ("error", "warning")
        }
        log_z = error = ""
        if truth is not None:
            found = result.log_evidence()
            log_z, error = f"{float(found.mean) - truth:.4f}", f"{float(found.mcse):.4f}"
        row = {
            "family": family,
            "target": name,
            "seed": seed,
            "z": " ".join(f"{z:.2f}" for z in np.ravel(against(result))),
            "log_z": log_z,
            "log_z_error": error,
            "errors": codes["error"],
            "warnings": codes["warning"],
            "log_z_bridges": "" if truth is None else f"{float(result.log_evidence('bridges').mean) - truth:.4f}",
            **agreement(result),
            "trips": int(result.round_trips.sum()),
            "modes": result.warmup.num_modes,
            "seconds": f"{time.perf_counter() - began:.1f}",
        }
        rows.append(row)
    return rows


def run(args):
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    low, high = map(int, args.seeds.split(":"))
    tasks = [(f, name, range(low, high)) for f in args.families.split(",") for name in targets(f)]
    if args.targets:
        tasks = [task for task in tasks if task[1] in args.targets.split(",")]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    with args.out.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if not args.out.stat().st_size:
            writer.writeheader()
        with multiprocessing.get_context("spawn").Pool(args.jobs, maxtasksperchild=2) as pool:
            for done, rows in enumerate(pool.imap_unordered(guarded, tasks), 1):
                if isinstance(rows, str):
                    print(rows, file=sys.stderr)
                    continue
                writer.writerows(rows)
                file.flush()
                print(f"{done}/{len(tasks)} {rows[0]['target']} {time.perf_counter() - began:.0f} s", file=sys.stderr)


def guarded(task):
    try:
        return run_task(task)
    except Exception as error:
        return f"{task[1]} failed: {type(error).__name__}: {str(error)[:300]}"


def answers_of(row):
    """Return the z of every answer of a run, and that of the log evidence or nan."""
    z = [float(x) for x in row["z"].split()]
    log_z = math.nan
    if row["log_z"]:
        off, error = float(row["log_z"]), float(row["log_z_error"])
        log_z = off / error if error > 0 else math.inf if math.isfinite(off) else off
    return z, log_z


def wrong(row):
    z, log_z = answers_of(row)
    return any(not abs(x) <= WRONG for x in z) or abs(log_z) > WRONG


def right(row):
    """Tell whether a run gave every answer, and none is wrong; one that refused the evidence did not."""
    return not wrong(row) and not (row["log_z"] and math.isnan(float(row["log_z"])))


def rms(values):
    return math.sqrt(sum(v * v for v in values) / len(values)) if values else math.nan


def table(args):
    rows = [row for path in args.csv for row in csv.DictReader(path.open())]
    groups = defaultdict(list)
    for row in rows:
        groups[row["family"], row["target"]].append(row)
    columns = "target | runs | rms z | rms z, log Z | off, rms | refused | wrong | silent | right, any | right, error"
    print(f"| {columns} | findings |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    totals, every = defaultdict(Counter), defaultdict(lambda: ([], []))
    for (family, name), group in groups.items():
        trusted = [answers_of(r) for r in group if not r["errors"]]
        z = [x for xs, _ in trusted for x in xs if abs(x) < NO_ERROR]
        log_z = [x for _, x in trusted if math.isfinite(x)]
        off = [float(r["log_z"]) for r in group if r["log_z"] and math.isfinite(float(r["log_z"])) and not r["errors"]]
        count = Counter(
            runs=len(group),
            nan=sum(bool(r["log_z"]) and not math.isfinite(float(r["log_z"])) for r in group),
            wrong=sum(map(wrong, group)),
            silent=sum(wrong(r) and not r["errors"] and not r["warnings"] for r in group),
            no_error=sum(wrong(r) and not r["errors"] for r in group),
            right=sum(map(right, group)),
            alarmed=sum(right(r) and bool(r["errors"] or r["warnings"]) for r in group),
            wolf=sum(right(r) and bool(r["errors"]) for r in group),
        )
        totals[family] += count
        if not count["silent"]:
            every[family][0].extend(z)
            every[family][1].extend(log_z)
        said = Counter(c for r in group for c in (r["errors"].upper() + " " + r["warnings"]).split())
        print(
            f"| {name} | {len(group)} | {rms(z):.2f} | {rms(log_z):.2f} | {rms(off):.3f} | {count['nan']} | "
            f"{count['wrong']} | {count['silent']} | {count['alarmed']} | {count['wolf']} | "
            f"{', '.join(f'{c} {n}' for c, n in said.most_common(6))} |"
        )
    columns = "family | runs | rms z | rms z, log Z | wrong | wrong, no error | silent | refused | right | any finding"
    print(f"\n| {columns} | error |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for family, count in totals.items():
        good = count["right"]
        print(
            f"| {family} | {count['runs']} | {rms(every[family][0]):.2f} | {rms(every[family][1]):.2f} | "
            f"{count['wrong']} | {count['no_error']} | {count['silent']} | {count['nan']} | {good} | "
            f"{count['alarmed']} ({count['alarmed'] / max(1, good):.1%}) | "
            f"{count['wolf']} ({count['wolf'] / max(1, good):.1%}) |"
        )
    import jax

    import sahmc

    seeds = [int(r["seed"]) for r in rows]
    where = args.made_on or f"{platform.machine()} CPU, jax {jax.__version__}"
    print(f"\nsahmc {sahmc.__version__}, {where}, seeds {min(seeds)} to {max(seeds)}, {time.strftime('%Y-%m-%d')}; ")
    print("rms over runs without an error, answers whose stated error is zero (a mode never seen) left out, and of")
    print("families without targets that have silent runs; findings in capitals are errors.")
    print("By `benchmarks/calibration.py`.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run")
    one.add_argument("--out", type=Path, default=Path("out/calibration.csv"))
    one.add_argument("--jobs", type=int, default=2)
    one.add_argument("--seeds", default="0:20", help="first:last+1")
    one.add_argument("--families", default="suite,evidence,models")
    one.add_argument("--targets", default="")
    one.set_defaults(call=run)
    two = commands.add_parser("table")
    two.add_argument("csv", type=Path, nargs="+")
    two.add_argument("--made-on", default="", help="hardware and JAX version, where the CSV was not made here")
    two.set_defaults(call=table)
    args = parser.parse_args()
    args.call(args)


if __name__ == "__main__":
    main()
