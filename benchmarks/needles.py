"""Narrow modes beside wide ones: are they found, and is what a run says of its search right?

python benchmarks/needles.py widths --seeds 20 --jobs 2     # two Gaussians, from the wide one
python benchmarks/needles.py spike --seeds 20 --jobs 2      # the 10-D spike and slab, prior apart and raw
python benchmarks/needles.py inside --seeds 10 --budgets default     # a spike in the bulk of a slab, in 8-D
python benchmarks/needles.py spike --budgets "16384 chains" --jobs 1     # the same on a GPU
python benchmarks/needles.py power --needles 200 --jobs 2   # needles planted at random: found as often as stated?
python benchmarks/needles.py power --place far --needles 100 --jobs 2    # the same far from the modes, or "inside"
python benchmarks/needles.py many --seeds 3 --jobs 2        # more modes than 32
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import platform
import sys
import time
import warnings

import numpy as np

BUDGETS = {
    "default": {},
    "four times": {"draws": 4000, "tune": 4000},
    "16384 chains": {"chains": 16384, "draws": 50, "tune": 100},
}

REACH = {"inside": (0.0, 0.0), "near": (0.0, 10.0), "far": (10.0, 100.0)}
"""How many widths beyond the rim of a mode needles are planted."""


def sample(*args, **kwargs):
    import sahmc

    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sahmc.sample(*args, progressbar=False, **kwargs), time.perf_counter() - began


def width_task(task):
    """One target and budget, some seeds."""
    dim, ratio, mass, budget, seeds = task
    import jax.numpy as jnp

    from sahmc.testing.targets.several_modes import two_widths

    target = two_widths(dim, ratio, "wide", mass=mass)
    rows = []
    for seed in seeds:
        start = jnp.asarray(target.start, jnp.float32)
        run, seconds = sample(target.log_density, start, random_seed=seed, **BUDGETS[budget])
        rows.append(row_of(run, abs(float(run.expectation(target.indicators).mean[0]) - mass), seconds))
    return (f"d = {dim}, ratio {ratio}, mass {mass}", budget), rows


def spike_task(task):
    """The spike and slab in ten dimensions, prior apart or raw, some seeds."""
    kind, budget, seeds = task
    import jax.numpy as jnp

    from sahmc.testing.targets.evidence import spike_and_slab

    target = spike_and_slab(10)
    model = target.model
    place = (np.array([2.5, 2.5] + [0.0] * 8) + 4) / 12
    start = jnp.asarray(np.log(place / (1 - place)), jnp.float32)

    def raw(z):
        return model.log_likelihood(z) + model.log_prior(z)

    rows = []
    for seed in seeds:
        if kind == "prior apart":
            run, seconds = sample(model, random_seed=seed, **BUDGETS[budget])
            found = run.expectation(target.answers)
        else:
            run, seconds = sample(raw, start, random_seed=seed, **BUDGETS[budget])
            found = run.expectation(lambda z: target.answers(model.constrain(z)))
        rows.append(row_of(run, abs(float(found.mean[0]) - 0.5), seconds))
        print(kind, seed, rows[-1], flush=True, file=sys.stderr)
    return (f"spike and slab, {kind}", budget), rows


def inside_task(task):
    """Half of the mass in a spike inside a slab in eight dimensions: its width, and how far its centre is from the
    slab's, in widths of the slab; prior apart (three times as wide) or raw; some seeds."""
    kind, width, away, budget, seeds = task
    import jax
    import jax.numpy as jnp

    import sahmc

    dim = 8
    centre = jnp.full(dim, away / dim**0.5)

    def normal(x, middle, sd):
        return -0.5 * jnp.sum(((x - middle) / sd) ** 2) - dim * jnp.log(sd) - 0.5 * dim * jnp.log(2 * jnp.pi)

    def log_density(x):
        return jnp.logaddexp(normal(x, centre, width), normal(x, 0.0, 1.0)) - jnp.log(2.0)

    model = log_density
    if kind == "prior apart":
        model = sahmc.Model(
            log_likelihood=lambda x: log_density(x) - normal(x, 0.0, 3.0),
            log_prior=lambda x: normal(x, 0.0, 3.0),
            draw_prior=lambda key: 3.0 * jax.random.normal(key, (dim,)),
        )
    rows = []
    for seed in seeds:
        run, seconds = sample(model, -jnp.ones(dim), random_seed=seed, **BUDGETS[budget])
        found = run.expectation(lambda x: (jnp.sum((x - centre) ** 2) < dim * (2.5 * width) ** 2).astype(float))
        rows.append(row_of(run, abs(float(found.mean) - 0.5), seconds))
    return (f"spike of width {width}, {away} from the middle, {kind}", budget), rows


def row_of(run, off, seconds):
    return {
        "off": off,
        "found": off < 0.1,
        "silent": off >= 0.1 and not run.findings,
        "gradients": run.num_gradients,
        "power": run.search_power(),
        "seconds": seconds,
    }


def bases():
    """Five posteriors: start, log density, and the covariance at each mode, by the curvature there."""
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(20)
    ar = 0.9 ** np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    precision = np.linalg.inv(ar)
    x = rng.normal(size=(60, 5))
    y = rng.random(60) < 1 / (1 + np.exp(-x @ np.array([1.0, -0.5, 0.3, 0.0, 0.8])))
    far = np.concatenate([np.full(4, 5.0), np.zeros(4)])

    def logistic(b):
        score = x @ b
        return jnp.sum(jnp.where(y, jax.nn.log_sigmoid(score), jax.nn.log_sigmoid(-score))) - 0.5 * jnp.sum(b**2) / 4

    def pair(z):
        return jnp.logaddexp(-0.5 * jnp.sum(z**2), -0.7 - 0.5 * jnp.sum((z - far) ** 2) / 0.8**2)

    return {
        "correlated Gaussian, d = 6": (lambda z: -0.5 * z @ precision @ z, [np.zeros(6)]),
        "Student-t, d = 4": (lambda z: -0.5 * 9 * jnp.log1p(jnp.sum(z**2) / 5), [np.zeros(4)]),
        "log-gamma, d = 5": (lambda z: jnp.sum(2 * z - jnp.exp(z)), [np.full(5, math.log(2.0))]),
        "logistic regression, d = 5": (logistic, [np.zeros(5)]),
        "two modes, d = 8": (pair, [np.zeros(8), far]),
    }


def power_task(task):
    """One base: needles at random places, whether a run finds each, and how probable a run without it calls that."""
    name, seed, count, place = task
    import jax
    import jax.numpy as jnp
    from scipy.optimize import minimize

    log_density, starts = bases()[name]
    gradient = jax.jit(jax.value_and_grad(lambda z: -log_density(z)))
    minima = [minimize(lambda z: tuple(map(np.asarray, gradient(z))), s, jac=True, method="BFGS").x for s in starts]
    factors = [np.linalg.cholesky(np.linalg.inv(-np.asarray(jax.hessian(log_density)(jnp.asarray(m))))) for m in minima]
    rng, dim, start = np.random.default_rng(seed), len(minima[0]), jnp.asarray(minima[0], jnp.float32)
    base, _ = sample(log_density, start, random_seed=seed)
    log_z, rows = float(base.log_evidence().mean), []
    while len(rows) < count:
        k = rng.integers(len(minima))
        width = math.exp(rng.uniform(math.log(0.13), math.log(0.6)))
        mass = 1 / (1 + math.exp(-rng.uniform(-3.0, 1.5)))
        low, high = (1.25 + beyond / math.sqrt(dim) for beyond in REACH[place])
        reach = 1.0 if place == "inside" else low * (high / low) ** rng.random()
        centre = minima[k] + reach * factors[k] @ rng.normal(size=dim)
        nearest = int(np.argmin([np.linalg.norm(centre - m) for m in minima]))
        inverse = np.linalg.inv(width * factors[nearest])
        peak = math.log(mass) - 0.5 * dim * math.log(2 * math.pi) + np.linalg.slogdet(inverse)[1]
        rest = math.log(1 - mass) - log_z
        if peak < float(log_density(jnp.asarray(centre))) + rest + 1:
            continue  # it would be no mode of its own
        numbers = [jnp.asarray(x, jnp.float32) for x in (peak, rest, centre, inverse)]  # data, so compiled once

        def parts(z, numbers=numbers):
            peak, rest, centre, inverse = numbers
            return peak - 0.5 * jnp.sum((inverse @ (z - centre)) ** 2), rest + log_density(z)

        run, _ = sample(lambda z, parts=parts: jnp.logaddexp(*parts(z)), start, random_seed=1000 * seed + len(rows))
        inside = run.expectation(lambda z, parts=parts: (parts(z)[0] > parts(z)[1]).astype(float))
        rows.append({"stated": base.search_power(mass, width, place), "found": float(inside.mean) > mass / 2})
    return name, rows


def many_task(task):
    """One target with more than 32 modes."""
    name, seed = task
    import jax
    import jax.numpy as jnp

    from sahmc.testing.targets.raw import far_gaussians

    rng = np.random.default_rng(3)
    if name == "49 on a grid":
        centres = 8.0 * np.stack(np.meshgrid(np.arange(7), np.arange(7)), -1).reshape(-1, 2)
        weight = np.full(49, 1 / 49)
    elif name == "64 corners, d = 6":
        centres = 7.0 * np.array([[(i >> k) & 1 for k in range(6)] for i in range(64)], float)
        weight = rng.dirichlet(np.full(64, 3.0))
    else:
        target = far_gaussians(int(name.split()[-1]))
        start = jnp.asarray(target.start, jnp.float32)
        run, _ = sample(target.log_density, start, random_seed=seed)
        return name, many_row(run, target.indicators, target.masses)

    def parts(x):
        return jnp.log(weight) - 0.5 * jnp.sum((x - centres) ** 2, axis=1)

    run, _ = sample(lambda x: jax.nn.logsumexp(parts(x)), jnp.asarray(centres[0], jnp.float32), random_seed=seed)
    return name, many_row(run, lambda x: jax.nn.one_hot(jnp.argmax(parts(x)), len(weight)), weight)


def many_row(run, indicators, masses):
    off = float(np.abs(run.expectation(indicators).mean - masses).max())
    ess = float(np.nanmedian(run.ess(indicators)))
    return {"modes": run.warmup.num_modes, "of": len(masses), "off": off, "ess": ess, "gradients": run.num_gradients}


def found_table(rows):
    groups = {}
    for key, some in rows:
        groups.setdefault(key, []).extend(some)
    heads = ["target", "budget", "gradients, million", "seconds, median", "runs", "found", "missed and silent"]
    print("| " + " | ".join([*heads, "largest error if found"]) + " |")
    print("|---" * (len(heads) + 1) + "|")
    for (name, budget), some in sorted(groups.items(), key=lambda item: (item[0][1], item[0][0])):
        spent, found = np.mean([r["gradients"] for r in some]) / 1e6, [r for r in some if r["found"]]
        worst = f"{max(r['off'] for r in found):.4f}" if found else "-"
        silent = sum(r["silent"] for r in some)
        seconds = np.median([r["seconds"] for r in some])
        print(f"| {name} | {budget} | {spent:.2f} | {seconds:.1f} | {len(some)} | {len(found)} | {silent} | {worst} |")


def power_table(rows):
    print("| stated probability | needles | stated, mean | found | standard error |")
    print("|---|---|---|---|---|")
    every = [r for _, some in rows for r in some]
    stated, found = (np.array([r[k] for r in every], float) for k in ("stated", "found"))
    for low, high in ((0, 0.1), (0.1, 0.35), (0.35, 0.65), (0.65, 0.9), (0.9, 0.99), (0.99, 1.01), (0, 1.01)):
        mine = (stated >= low) & (stated < high)
        if mine.any():
            p, n = stated[mine], int(mine.sum())
            label = "all" if (low, high) == (0, 1.01) else f"{low:g} to {min(high, 1):g}"
            error = math.sqrt(max(float(np.sum(p * (1 - p))), 0.25)) / n
            print(f"| {label} | {n} | {p.mean():.3f} | {found[mine].mean():.3f} | {error:.3f} |")
    for name in dict.fromkeys(name for name, _ in rows):
        some = [r for n, part in rows for r in part if n == name]
        p, f = np.mean([r["stated"] for r in some]), np.mean([r["found"] for r in some])
        print(f"| {name} | {len(some)} | {p:.3f} | {f:.3f} | |")


def many_table(rows):
    print("| target | modes known | largest error of a mass | ESS of a mass, median | per 1000 gradients |")
    print("|---|---|---|---|---|")
    for name, r in sorted(rows, key=lambda row: row[0]):
        rate = 1000 * r["ess"] / r["gradients"]
        print(f"| {name} | {r['modes']} of {r['of']} | {r['off']:.4f} | {r['ess']:.0f} | {rate:.1f} |")


def blocks(first, seeds):
    return [range(i, min(i + 5, seeds)) for i in range(first, seeds, 5)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["widths", "spike", "inside", "power", "many"])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kinds", default="prior apart,raw")
    parser.add_argument("--needles", type=int, default=200)
    parser.add_argument("--place", choices=list(REACH), default="near")
    parser.add_argument("--budgets", default="default,four times")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    budgets, runs = args.budgets.split(","), blocks(args.first, args.seeds)
    if args.what == "widths":
        cases = [(d, r, m) for d in (10, 5, 2) for r in (0.5, 0.4, 0.3) for m in (0.8, 0.5)]
        tasks = [(*case, b, some) for b in budgets for case in cases for some in runs]
        work, table = width_task, found_table
    elif args.what == "spike":
        tasks = [(kind, b, s) for b in budgets for s in runs for kind in args.kinds.split(",")]
        work, table = spike_task, found_table
    elif args.what == "inside":
        cases = [(k, w, a) for k in args.kinds.split(",") for w, a in ((0.1, 0), (0.1, 1), (0.1, 2), (0.2, 2))]
        tasks = [(*case, b, some) for b in budgets for case in cases for some in runs]
        work, table = inside_task, found_table
    elif args.what == "power":
        tasks = [(name, k, max(1, args.needles // 10), args.place) for k in range(2) for name in bases()]
        work, table = power_task, power_table
    else:
        names = ("49 on a grid", "64 corners, d = 6", "GMM40, d = 2", "GMM40, d = 50")
        tasks = [(name, seed) for seed in range(args.seeds) for name in names]
        work, table = many_task, many_table
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        table(list(pool.imap_unordered(work, tasks)))
    import jax

    import sahmc

    device = jax.devices()[0].device_kind.replace("cpu", f"{platform.machine()} CPU")
    print(f"\nsahmc {sahmc.__version__}, {device}, jax {jax.__version__}, {time.strftime('%Y-%m-%d')}.")


if __name__ == "__main__":
    main()
