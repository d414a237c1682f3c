"""Posteriors of posteriordb, nothing set: are means and mean squares those of the reference, and at what cost?

    python benchmarks/posteriordb.py run --models all --seeds 5 --jobs 2 --nuts --pymc --out out/posteriordb.csv
    python benchmarks/posteriordb.py table out/posteriordb.csv
    python benchmarks/posteriordb.py references       # for posteriors without a reference: quadrature, or a long NUTS

``run`` appends a row as soon as a run ends, and leaves out runs that the file already has. z is the largest, over all
parameters, of |mean - reference| / sqrt(mcse^2 + mcse_ref^2), of means and mean squares; a run passes if it is at most
4. Where labels may change places, that each order has the same mass is part of z. Seconds include compilation, which
is shorter from the second seed of a model on.
"""

from __future__ import annotations

import argparse
import csv
import functools
import importlib
import io
import json
import math
import multiprocessing
import os
import platform
import statistics
import sys
import time
import warnings
from collections import Counter, defaultdict
from pathlib import Path

HERE = Path(__file__).parent / "posteriordb"
FIELDS = [
    "model",
    "front_end",
    "bits",
    "seed",
    "z",
    "parameter",
    "errors",
    "warnings",
    "gradients",
    "seconds",
    "log_z",
    "log_z_error",
    "top",
    "exception",
]
KEY = FIELDS[:4]
PASS, STUCK = 4.0, 1e6
NUTS_CHAINS, NUTS_DRAWS = 4, 1000
LONG = 4, 1000, 5000
"""Chains, warm-up and draws of a long run."""
LONG_RUNS = ("dogs-dogs", "irt_2pl-irt_2pl")
"""Those whose reference is a long run of NUTS."""
SAME_REFERENCE = {
    "eight_schools-eight_schools_centered": "eight_schools-eight_schools_noncentered",
    "low_dim_gauss_mix-unordered": "low_dim_gauss_mix-low_dim_gauss_mix",
}
SLOW = ("normal_5", "bball", "soil", "sir", "one_comp", "hudson", "low_dim_gauss_mix_c", "normal_2", "three_docs")
"""The beginnings of the names of those that take longest."""
HEAVY = {"one_comp_mm_elim_abs-one_comp_mm_elim_abs": ("K_m", "K_m^2", "V_m", "V_m^2")}
"""What has no variance, so that z means nothing: tails fall like K_m^-3 along V_m ~ K_m. Their logs are looked at."""


# What is known


@functools.cache
def known(name: str) -> dict[str, tuple[float, float]]:
    """Return the reference mean of each parameter and of its square, with its error, by name; squares end in ^2."""
    found = {}
    summaries = json.loads((HERE / "summaries.json").read_text())
    for parameter, row in summaries.get(SAME_REFERENCE.get(name, name), {}).items():
        found[parameter] = row["mean"], row["mcse_mean"]
        found[f"{parameter}^2"] = row["mean_sq"], row["sd_sq"] / math.sqrt(row["ess_bulk"])
    for parameter, row in own_references().get(name, {}).get("parameters", {}).items():
        found[parameter] = row["mean"], row["mcse_mean"]
        found[f"{parameter}^2"] = row["mean_sq"], row["mcse_sq"]
    return {key: value for key, value in found.items() if key not in HEAVY.get(name, ())}


def own_references() -> dict[str, dict]:
    """Return what ``references`` has found so far, by posterior."""
    path = HERE / "own_references.json"
    return json.loads(path.read_text()) if path.exists() else {}


def measured(quantities):
    """Return a function from one draw to what has a reference: the numbers and their squares, and orders of labels."""

    def values(draw):
        named = quantities(draw)
        squares = {f"{name}^2": value**2 for name, value in named.items() if not name.startswith("order")}
        return {**named, **squares}

    return values


def largest_z(name: str, mean: dict, mcse: dict) -> tuple[float, str]:
    """Return the largest z, and whose it is; nan and nobody where nothing is known.

    All orders of labels have the same error, so that of each is the root mean square over all of them: an order that
    was never seen would seem to have none.
    """
    truth, orders = dict(known(name)), [key for key in mean if key.startswith("order")]
    pooled = math.sqrt(sum(float(mcse[key]) ** 2 for key in orders) / max(1, len(orders)))
    mcse = {**mcse, **dict.fromkeys(orders, pooled)}
    truth.update(dict.fromkeys(orders, (1 / max(1, len(orders)), 0.0)))
    z = {}
    for key, (exact, error) in truth.items():
        spread = math.hypot(float(mcse[key]), error)
        ratio = abs(float(mean[key]) - exact) / spread if spread > 0 else math.inf
        z[key] = ratio if ratio < STUCK else math.inf
    worst = max(z, key=z.get, default="")
    return z.get(worst, math.nan), worst


def evidence_truth(name: str) -> float | None:
    """Return the log evidence, or the log of the integral where the prior is flat; None where it is not known.

    Of linear regressions it is a quadrature over log sigma: given that, the coefficients are integrated out, whose
    prior is N(0, 10) or flat. Of others it was made by ``references``.
    """
    import numpy as np
    from posteriordb_models import design, read_data
    from scipy.stats import halfcauchy, halfnorm

    priors = {
        "sblrc-blr": (10.0, halfnorm(scale=10)),
        "sblri-blr": (10.0, halfnorm(scale=10)),
        "arK-arK": (10.0, halfcauchy(scale=2.5)),
        "kidiq-kidscore_interaction": (math.inf, halfcauchy(scale=2.5)),
        "nes2000-nes": (math.inf, None),
        "mesquite-logmesquite_logvash": (math.inf, None),
        "earnings-logearn_interaction": (math.inf, None),
    }
    if name not in priors:
        return own_references().get(name, {}).get("log_evidence")
    wide, prior = priors[name]
    x, y = design(name, read_data(name))
    guess = math.log(np.std(y - x @ np.linalg.lstsq(x, y, rcond=None)[0]))
    logs = np.linspace(guess - 3, guess + 3, 6001)
    height = np.array([log_marginal(x, y, math.exp(one), wide) for one in logs]) + logs
    if prior is not None:
        height += prior.logpdf(np.exp(logs))
    return float(height.max() + math.log(np.exp(height - height.max()).sum() * (logs[1] - logs[0])))


def log_marginal(x, y, sigma: float, wide: float) -> float:
    """Return the log density of ``y`` ~ N(x beta, sigma) with beta ~ N(0, wide) integrated out, or flat beta."""
    import numpy as np

    precision = x.T @ x / sigma**2 + np.eye(x.shape[1]) / wide**2
    middle = np.linalg.solve(precision, x.T @ y / sigma**2)
    rest = y - x @ middle
    size = len(y) * math.log(2 * math.pi * sigma**2) + np.linalg.slogdet(precision)[1]
    size += x.shape[1] * (2 * math.log(wide) if math.isfinite(wide) else -math.log(2 * math.pi))
    return -0.5 * (size + rest @ rest / sigma**2 + middle @ middle / wide**2)


# Runs


def run_task(task: tuple[str, str, int, list[int], Path]) -> str:
    """Run one model by one front end with some seeds, and append a row for each to the file."""
    name, front, bits, seeds, out = task
    import jax

    jax.config.update("jax_enable_x64", bits == 64)
    call = {"numpyro": by_sahmc, "pymc": by_sahmc, "nuts": by_nuts}[front]
    for seed in seeds:
        began = time.perf_counter()
        row: dict[str, object] = {"model": name, "front_end": front, "bits": bits, "seed": seed}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                row |= call(posterior_of(name, front), name, seed)
            except Exception as error:  # a run that crashed is a row too
                row["exception"] = f"{type(error).__name__}: {error}".replace("\n", " ")[:500]
        row["seconds"] = f"{time.perf_counter() - began:.1f}"
        append(out, row)
    return f"{name} {front}"


@functools.cache
def posterior_of(name: str, front: str):
    """Return a posterior written for PyMC, or for NumPyro."""
    if front == "pymc":
        from posteriordb_pymc import load
    else:
        from posteriordb_models import load
    return load(name)


def append(out: Path, row: dict[str, object]) -> None:
    """Add a row to a file that other processes write to."""
    line = io.StringIO()
    csv.DictWriter(line, FIELDS).writerow(row)
    with out.open("ab", buffering=0) as file:
        file.write(line.getvalue().encode())


def by_sahmc(posterior, name: str, seed: int) -> dict[str, object]:
    """Run ``sahmc.sample`` with nothing set."""
    import sahmc

    result = sahmc.sample(posterior.model, model_args=posterior.args, random_seed=seed, progressbar=False)
    z, worst = largest_z(name, *result.expectation(measured(posterior.quantities)))
    codes = {s: " ".join(sorted({f.code for f in result.findings if f.severity == s})) for s in ("error", "warning")}
    log_z, error = evidence(result)
    return {
        "z": f"{z:.2f}",
        "parameter": worst,
        "errors": codes["error"],
        "warnings": codes["warning"],
        "gradients": result.num_gradients,
        "log_z": log_z,
        "log_z_error": error,
        "top": "reference" if result.warmup.reference is not None else "prior",
    }


def evidence(result) -> tuple[str, str]:
    """Return log evidence and error; empty where the run cannot know it."""
    try:
        found = result.log_evidence()
    except ValueError:
        return "", ""
    return f"{float(found.mean):.4f}", f"{float(found.mcse):.4f}"


def by_nuts(posterior, name: str, seed: int) -> dict[str, object]:
    """Run NumPyro's NUTS with its defaults."""
    mean, mcse, gradients, _ = nuts(posterior, seed, NUTS_CHAINS, NUTS_DRAWS, NUTS_DRAWS)
    z, worst = largest_z(name, mean, mcse)
    return {"z": f"{z:.2f}", "parameter": worst, "gradients": gradients}


def nuts(posterior, seed: int, chains: int, tune: int, draws: int, **options):
    """Return means and errors of what is measured, the number of gradients, and the largest R-hat, by NUTS."""
    import jax
    import numpy as np
    from numpyro.infer import MCMC, NUTS

    from sahmc.tilt.importance import split_rhat, weighted_mean

    setup = {"num_chains": chains, "chain_method": "vectorized", "progress_bar": False}
    mcmc = MCMC(NUTS(posterior.model, **options), num_warmup=tune, num_samples=draws, **setup)
    mcmc.warmup(jax.random.key(seed), *posterior.args, collect_warmup=True, extra_fields=("num_steps",))
    gradients = int(mcmc.get_extra_fields()["num_steps"].sum())
    mcmc.run(mcmc.post_warmup_state.rng_key, *posterior.args, extra_fields=("num_steps",))
    gradients += int(mcmc.get_extra_fields()["num_steps"].sum())
    values = jax.vmap(jax.vmap(measured(posterior.quantities)))(mcmc.get_samples(group_by_chain=True))
    even = np.full((chains, draws), 1 / (chains * draws))
    found = {key: weighted_mean(np.asarray(value, float), even) for key, value in values.items()}
    rhat = np.nanmax(split_rhat(np.stack([np.asarray(value, float) for value in values.values()], axis=-1)))
    return {k: v.mean for k, v in found.items()}, {k: v.mcse for k, v in found.items()}, gradients, float(rhat)


def run(args: argparse.Namespace) -> None:
    """Run what the file does not have yet."""
    one_thread()
    from posteriordb_models import load, posteriors

    names = list(posteriors()) if args.models == "all" else args.models.split(",")
    fronts = ["numpyro", *(["nuts"] if args.nuts else []), *(["pymc"] if args.pymc else [])]
    in_pymc = importlib.import_module("posteriordb_pymc").POSTERIORS if args.pymc else {}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    if not args.out.exists():
        args.out.write_text(",".join(FIELDS) + "\n")
    done = {tuple(row[key] for key in KEY) for row in csv.DictReader(args.out.open())}
    tasks = []
    for name in names:
        bits = max(args.bits, load(name).bits)
        for front in fronts:
            left = [s for s in range(args.seeds) if (name, front, str(bits), str(s)) not in done]
            if front != "pymc" or name in in_pymc:
                tasks += [(name, front, bits, [seed], args.out) for seed in left]
    tasks.sort(key=lambda task: (task[1] == "nuts", not task[0].startswith(SLOW), task[3]))  # the slow ones first
    began = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(args.jobs, maxtasksperchild=1) as pool:
        for number, what in enumerate(pool.imap_unordered(run_task, tasks)):
            print(f"{number + 1}/{len(tasks)} {what} {time.perf_counter() - began:.0f} s", file=sys.stderr)


def one_thread() -> None:
    """Let each process compute on the CPU with one thread; call it before JAX is imported."""
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["JAX_PLATFORMS"] = "cpu"


def references(args: argparse.Namespace) -> None:
    """Write means and mean squares, in 64 bits, of posteriors whose reference is absent, or has no variance."""
    one_thread()
    import jax

    jax.config.update("jax_enable_x64", True)
    from posteriordb_truths import TRUTHS

    for name in args.models.split(",") if args.models else [*TRUTHS, *LONG_RUNS]:
        began = time.perf_counter()
        rows, (log_z, error) = TRUTHS[name](name) if name in TRUTHS else long_run(name)
        parameters = {key: {field: rounded(value) for field, value in row.items()} for key, row in rows.items()}
        evidence = {} if log_z is None else {"log_evidence": rounded(log_z), "log_evidence_error": rounded(error)}
        found = {**own_references(), name: {**evidence, "parameters": parameters}}
        (HERE / "own_references.json").write_text(json.dumps(found, indent=0) + "\n")
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr)


def long_run(name: str) -> tuple[dict, tuple]:
    """Return means and mean squares by a long run of NUTS, which tells no evidence."""
    mean, mcse, _, rhat = nuts(posterior_of(name, "nuts"), 0, *LONG, target_accept_prob=0.95)
    print(f"{name}: largest R-hat {rhat:.4f}", file=sys.stderr)
    rows = {
        key: {"mean": mean[key], "mcse_mean": mcse[key], "mean_sq": mean[f"{key}^2"], "mcse_sq": mcse[f"{key}^2"]}
        for key in mean
        if not key.endswith("^2")
    }
    return rows, (None, None)


def rounded(value) -> float:
    """Return a number with 7 digits."""
    return float(f"{float(value):.7g}")


# The table


def table(args: argparse.Namespace) -> None:
    """Print a row for each model, front end and precision."""
    rows = [row for path in args.csv for row in csv.DictReader(path.open())]
    groups: dict[tuple[str, str, str], list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        groups[row["model"], row["front_end"], row["bits"]].append(row)
    print(
        "| model | front end, bits | runs | largest z | at | not passed | with errors | findings | gradients | seconds "
        "| NUTS: largest z | gradients | seconds | log Z | log Z - truth |"
    )
    print("|" + "---|" * 15)
    for (name, front, bits), group in groups.items():
        if front != "nuts":
            print(
                "| "
                + " | ".join([name, f"{front}, {bits}", *cells(name, group, groups.get((name, "nuts", bits), []))])
                + " |"
            )
    signature(args.made_on, rows)


def cells(name: str, group: list[dict[str, str]], nuts_rows: list[dict[str, str]]) -> list[str]:
    """Return the cells of some runs of one model, and of the runs of NUTS beside them."""
    ran = [row for row in group if not row["exception"]]
    codes = Counter(code for row in ran for code in (row["errors"] + " " + row["warnings"]).split())
    codes.update(f"crashed ({row['exception'].split(':')[0]})" for row in group if row["exception"])
    worst = max(ran, key=z_of, default=None)
    told = [float(row["log_z"]) for row in ran if row["log_z"] not in ("", "nan")]
    return [
        str(len(group)),
        f"{z_of(worst):.1f}" if worst else "",
        worst["parameter"] if worst else "",
        str(sum(not z_of(row) <= PASS for row in ran) + len(group) - len(ran)),
        str(sum(bool(row["errors"]) for row in ran)),
        ", ".join(f"{code} {n}" for code, n in codes.most_common()),
        middle(ran, "gradients"),
        middle(ran, "seconds"),
        f"{max(map(z_of, nuts_rows)):.1f}" if nuts_rows else "",
        middle(nuts_rows, "gradients"),
        middle(nuts_rows, "seconds"),
        f"{statistics.median(told):.2f}" if told else "",
        off_truth(name, ran),
    ]


def z_of(row: dict[str, str]) -> float:
    """Return the z of a row; inf of a run that has none."""
    return float(row["z"]) if row["z"] not in ("", "nan") else math.inf


def middle(rows: list[dict[str, str]], field: str) -> str:
    """Return the median of a field, in three digits."""
    found = [float(row[field]) for row in rows if row[field]]
    return f"{float(f'{statistics.median(found):.3g}'):,.10g}" if found else ""


def off_truth(name: str, rows: list[dict[str, str]]) -> str:
    """Return mean and largest z of log evidence minus truth, where that is known."""
    truth = evidence_truth(name)
    told = [(float(r["log_z"]), float(r["log_z_error"])) for r in rows if r["log_z"] not in ("", "nan")]
    if truth is None or not told:
        return ""
    far = max(abs(value - truth) / error if error > 0 else math.inf for value, error in told)
    return f"{statistics.mean(value - truth for value, _ in told):+.3f} (z up to {far:.1f})"


def signature(made_on: str, rows: list[dict[str, str]]) -> None:
    """Print with what, where and when the rows were made."""
    import jax

    import sahmc

    seeds = [int(row["seed"]) for row in rows]
    print(f"\nsahmc {sahmc.__version__}, {made_on or f'{platform.machine()} CPU, jax {jax.__version__}'}, ", end="")
    print(f"seeds {min(seeds)} to {max(seeds)}, {time.strftime('%Y-%m-%d')}; by `benchmarks/posteriordb.py`.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run")
    one.add_argument("--models", default="all", help="all, or names with commas between them")
    one.add_argument("--seeds", type=int, default=5)
    one.add_argument("--bits", type=int, choices=(32, 64), default=32, help="a model that needs 64 has them anyway")
    one.add_argument("--jobs", type=int, default=2)
    one.add_argument("--nuts", action="store_true", help="NumPyro's NUTS beside")
    one.add_argument("--pymc", action="store_true", help="and those that are written in PyMC too")
    one.add_argument("--out", type=Path, default=Path("out/posteriordb.csv"))
    one.set_defaults(call=run)
    two = commands.add_parser("references")
    two.add_argument("--models", default="", help="all of them, or names with commas between them")
    two.set_defaults(call=references)
    three = commands.add_parser("table")
    three.add_argument("csv", type=Path, nargs="+")
    three.add_argument("--made-on", default="", help="hardware and JAX version, where the CSV was not made here")
    three.set_defaults(call=table)
    args = parser.parse_args()
    args.call(args)


if __name__ == "__main__":
    main()
