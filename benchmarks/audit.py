"""Posteriors made to mislead the default: is it right, or does it say so?

python benchmarks/audit.py --seeds 3 --jobs 2            # all cases
python benchmarks/audit.py --cases "ball in a shell"     # those whose names begin so

Each case has known probabilities and, where it says so, a known log integral. A run is wrong if a probability is off by
more than four of its errors and 0.02, or the log integral by more than four of its errors.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import platform
import time
import warnings
from typing import NamedTuple

import numpy as np

FLOOR = 0.02
"""A probability that is this close is never wrong."""


class Case(NamedTuple):
    """One posterior with a known answer."""

    model: object
    start: object
    events: object
    """A function from a draw to a few numbers in [0, 1]."""
    probabilities: tuple
    log_z: float | None = 0.0
    kernel: object = "hmc"


def normal(x, mean, sd):
    """Return the log density of independent normal numbers; the mean and sd have the shape of x or none."""
    import jax.numpy as jnp

    sd = jnp.broadcast_to(sd, x.shape)
    return jnp.sum(-0.5 * ((x - mean) / sd) ** 2 - jnp.log(sd)) - 0.5 * x.size * math.log(2 * math.pi)


def mixture(means, sds, masses, start):
    """Return normal modes of one width each; the events are which of them is nearest in its own width."""
    import jax
    import jax.numpy as jnp

    means, masses = np.asarray(means, float), np.asarray(masses, float)

    def parts(x):
        logs = [jnp.log(w) + normal(x, m, s) for m, s, w in zip(means, sds, masses, strict=True)]
        return jnp.stack(logs)

    def nearest(x):
        return jax.nn.one_hot(jnp.argmax(parts(x)), len(masses))

    return Case(lambda x: jax.nn.logsumexp(parts(x)), np.array(start, np.float32), nearest, tuple(masses))


def named_pair():
    """Two modes far apart; the position is three named numbers, and no symmetry holds."""
    import jax.numpy as jnp

    case = mixture([[0.0] * 3, [25.0, -8.0, 4.0]], [1.0, 1.0], [0.3, 0.7], [0.0] * 3)
    names = ("alpha", "beta", "gamma")

    def flat(p):
        return jnp.stack([p[name] for name in names])

    start = dict.fromkeys(names, 0.0)
    return case._replace(model=lambda p: case.model(flat(p)), start=start, events=lambda p: case.events(flat(p)))


def detectors(reach):
    """A source seen by four detectors with a short reach, in NumPyro: nothing may change places."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    place = np.array([[0.1, 0.2], [0.9, 0.3], [0.4, 0.8], [0.7, 0.65]])
    source = np.array([0.35, 0.55])

    def response(x):
        return jnp.exp(-jnp.sum((x - place) ** 2, axis=-1) / (2 * reach**2))

    seen = np.asarray(response(source)) + 0.05 * np.array([0.3, -1.0, 0.6, 0.2])

    def model():
        x = jnp.stack([numpyro.sample(name, dist.Uniform(0.0, 1.0)) for name in ("east", "north")])
        numpyro.sample("seen", dist.Normal(response(x), 0.05), obs=seen)

    side = (np.arange(2000) + 0.5) / 2000
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), -1)
    away = np.exp(-((grid[..., None, :] - place) ** 2).sum(-1) / (2 * reach**2))
    log_like = (-0.5 * ((seen - away) / 0.05) ** 2 - math.log(0.05) - 0.5 * math.log(2 * math.pi)).sum(-1)
    like = np.exp(log_like - log_like.max())
    right, above = like[grid[..., 0] > 0.5].sum() / like.sum(), like[grid[..., 1] > 0.5].sum() / like.sum()

    def events(p):
        return jnp.stack([p["east"] > 0.5, p["north"] > 0.5]).astype(float)

    return Case(model, None, events, (right, above), float(np.log(like.mean()) + log_like.max()))


def wide(width):
    """Most of the mass in a mode up to 200 times as wide as the one where chains start, in eight dimensions."""
    import jax.numpy as jnp

    case = mixture([[0.0] * 8, [6.0] + [0.0] * 7], [width, 1.0], [0.3, 0.7], [0.0] * 8)
    return case._replace(
        events=lambda x: (jnp.sum(x**2) > 8 * (5 * width) ** 2).astype(float)[None], probabilities=(0.7,)
    )


def ball_in_shell(dim=4, radius=8.0, thin=0.2, sd=0.3, mass=0.4):
    """A ball at the middle of a thin shell; started on the shell."""
    import jax.numpy as jnp

    surface = math.log(2) + 0.5 * dim * math.log(math.pi) - math.lgamma(0.5 * dim)

    def log_density(x):
        r = jnp.sqrt(jnp.sum(x**2) + 1e-12)
        shell = normal(r[None], radius, thin) - surface - (dim - 1) * jnp.log(r)
        return jnp.logaddexp(math.log(mass) + normal(x, 0.0, sd), math.log(1 - mass) + shell)

    start = np.array([radius] + [0.0] * (dim - 1), np.float32)
    return Case(log_density, start, lambda x: (jnp.sum(x**2) < (radius / 2) ** 2).astype(float)[None], (mass,))


def unequal_covariances(dim, apart=50.0):
    """Two modes whose covariances have spectra from 0.2 to 5 in random directions."""
    import jax.numpy as jnp

    rng = np.random.default_rng(dim)
    roots = []
    for _ in range(2):
        turned = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
        roots.append(turned * np.exp(rng.uniform(math.log(0.2), math.log(5.0), dim)) ** -0.5)
    way = rng.normal(size=dim)
    means = [np.zeros(dim), apart * way / np.linalg.norm(way)]
    norm = [np.linalg.slogdet(root)[1] - 0.5 * dim * math.log(2 * math.pi) for root in roots]

    def parts(x):
        logs = [n - 0.5 * jnp.sum(((x - m) @ r) ** 2) for m, r, n in zip(means, roots, norm, strict=True)]
        return logs[0] + math.log(0.3), logs[1] + math.log(0.7)

    def heavy(x):
        light, dense = parts(x)
        return (dense > light).astype(float)[None]

    return Case(lambda x: jnp.logaddexp(*parts(x)), np.zeros(dim, np.float32), heavy, (0.7,))


def four_widths():
    """Four modes in eight dimensions, of widths 2, 1, 1 and 0.5, 14 to 32 apart; started in the widest."""
    rng = np.random.default_rng(8)
    while True:
        means = rng.normal(size=(4, 8)) * 7
        apart = np.linalg.norm(means[:, None] - means[None], axis=-1)[np.triu_indices(4, 1)]
        if apart.min() > 14 and apart.max() < 32:
            return mixture(means, [2.0, 1.0, 1.0, 0.5], [0.3, 0.2, 0.2, 0.3], means[0])


def spiral(modes=12):
    """Twelve modes on a spiral in three dimensions, of widths 0.2 to 1.8, up to 70 widths from the next."""
    turn = np.arange(modes)
    means = np.stack([3 * turn * np.cos(turn), 3 * turn * np.sin(turn), 4.0 * turn], axis=1)
    sds = 0.2 + 1.6 * (turn * 7 % modes) / (modes - 1)
    masses = np.random.default_rng(12).dirichlet(np.full(modes, 2.0))
    return mixture(means, sds, masses, means[0])


def spike(width, away):
    """Half of the mass in a spike in the bulk of a unit mode, in eight dimensions."""
    import jax.numpy as jnp

    centre = np.full(8, away / 8**0.5)
    case = mixture([centre, np.zeros(8)], [width, 1.0], [0.5, 0.5], [-1.0] * 8)
    inside = lambda x: (jnp.sum((x - centre) ** 2) < 8 * (2.5 * width) ** 2).astype(float)[None]  # noqa: E731
    return case._replace(events=inside, probabilities=(0.5,))


def student_pair(df=2.0, dim=4, apart=20.0):
    """Two t modes; the events are the mode and tails of one coordinate."""
    import jax.numpy as jnp
    from scipy import stats

    means = np.array([[0.0] * dim, [apart] + [0.0] * (dim - 1)])
    norm = math.lgamma((df + dim) / 2) - math.lgamma(df / 2) - 0.5 * dim * math.log(df * math.pi)

    def parts(x):
        return norm - 0.5 * (df + dim) * jnp.log1p(jnp.sum((x - means) ** 2, axis=1) / df)

    def events(x):
        tails = [jnp.abs(x[1]) > cut for cut in (5.0, 10.0, 30.0)]
        return jnp.stack([x[0] < apart / 2, *tails]).astype(float)

    left = 0.4 * stats.t.cdf(apart / 2, df) + 0.6 * stats.t.cdf(-apart / 2, df)
    masses = jnp.log(jnp.array([0.4, 0.6]))
    tails = [2 * stats.t.sf(cut, df) for cut in (5.0, 10.0, 30.0)]
    return Case(lambda x: jnp.logaddexp(*(masses + parts(x))), means[0].astype(np.float32), events, (left, *tails))


def log_gamma():
    """The LogGamma target in thirty dimensions, prior apart."""
    from sahmc.testing.targets.evidence import log_gamma

    target = log_gamma(30)
    return Case(target.model, None, target.answers, tuple(target.truth), target.log_evidence)


def corners(dim=5):
    """A box with walls of minus infinity, the mass heaped up at its corners."""
    import jax
    import jax.numpy as jnp

    rate = 6.0

    def one(x):  # a density on (0, 1) that falls from both walls
        inside = jnp.logaddexp(-rate * x + math.log(0.3), -rate * (1 - x) + math.log(0.7))
        return jnp.where((x > 0) & (x < 1), inside + math.log(rate / (1 - math.exp(-rate))), -jnp.inf)

    low, high = (1 - math.exp(-rate / 2)) / (1 - math.exp(-rate)), math.exp(-rate / 2)
    below = 0.3 * low + 0.7 * (high - math.exp(-rate)) / (1 - math.exp(-rate))
    start = np.full(dim, 0.1, np.float32)
    return Case(lambda x: jnp.sum(jax.vmap(one)(x)), start, lambda x: (x < 0.5).astype(float), (below,) * dim)


def one_factor():
    """A one-factor model as a raw log density: two mirrored modes, of which none may be called missing."""
    from sahmc.testing.targets.raw import one_factor

    target = one_factor()
    return Case(target.log_density, np.float32(target.start), target.indicators, tuple(target.masses), None)


def too_long_steps():
    """Plain steps ten times too long, so that nearly all of them diverge."""
    import sahmc

    case = mixture([[0.0] * 6, [9.0] + [0.0] * 5], [1.0, 1.0], [0.5, 0.5], [0.0] * 6)
    return case._replace(kernel=sahmc.HMC(step_size=40.0))


CASES = {
    "named pair": named_pair,
    "detectors, reach 0.3": lambda: detectors(0.3),
    "detectors, reach 0.2": lambda: detectors(0.2),
    "detectors, reach 0.1": lambda: detectors(0.1),
    "wide beside 0.02": lambda: wide(0.02),
    "wide beside 0.005": lambda: wide(0.005),
    "ball in a shell": ball_in_shell,
    "steps too long": too_long_steps,
    "unequal covariances, d = 100": lambda: unequal_covariances(100),
    "unequal covariances, d = 200": lambda: unequal_covariances(200),
    "four widths, d = 8": four_widths,
    "spiral": spiral,
    "spike of 0.1, 1 from the middle": lambda: spike(0.1, 1.0),
    "spike of 0.1, 2 from the middle": lambda: spike(0.1, 2.0),
    "t with 2 degrees, d = 4": student_pair,
    "LogGamma, d = 30": log_gamma,
    "corners of a box": corners,
    "one factor": one_factor,
}


def run(task):
    """Run one case with some seeds: a row of figures for each."""
    name, seeds = task
    import sahmc

    case, rows = CASES[name](), []
    for seed in seeds:
        began = time.perf_counter()
        row = {"case": name, "seed": seed, "off": math.nan, "z": math.nan, "log_z": math.nan, "log_z_error": math.nan}
        row |= {"z_evidence": 0.0, "power": math.nan, "symmetries": 0, "findings": "", "gradients": 0}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = sahmc.sample(case.model, case.start, random_seed=seed, progressbar=False, kernel=case.kernel)
                found = result.expectation(case.events)
                evidence = result.log_evidence()
        except Exception as error:
            rows.append(row | {"findings": f"{type(error).__name__}: {str(error)[:80]}", "seconds": 0.0, "z": math.inf})
            continue
        off = np.abs(np.ravel(found.mean) - np.asarray(case.probabilities))
        row |= {"off": off.max(), "z": float((off / np.maximum(np.ravel(found.mcse), FLOOR / 4)).max())}
        row |= {"log_z": float(evidence.mean), "log_z_error": float(evidence.mcse)}
        if case.log_z is not None and math.isfinite(row["log_z"]):
            row["z_evidence"] = abs(row["log_z"] - case.log_z) / row["log_z_error"]
            row["log_z"] -= case.log_z
        row["findings"] = " ".join(f.code + "!" * (f.severity == "error") for f in result.findings)
        row |= {"power": result.record.warmup.power.weakest[1], "symmetries": len(result.symmetries)}
        rows.append(row | {"gradients": result.num_gradients, "seconds": time.perf_counter() - began})
        print(rows[-1], flush=True)
    return rows


def table(rows):
    """Print a row for each case."""
    heads = ["case", "runs", "wrong", "wrong and silent", "largest error", "log Z less the truth (stated error)"]
    print("| " + " | ".join([*heads, "stated power", "findings"]) + " |")
    print("|---" * (len(heads) + 2) + "|")
    for name in [name for name in CASES if any(row["case"] == name for row in rows)]:
        mine = sorted((row for row in rows if row["case"] == name), key=lambda row: row["seed"])
        wrong = [row for row in mine if row["z"] > 4 or row["z_evidence"] > 4]
        silent = sum(not row["findings"] for row in wrong)
        log_z = ", ".join(f"{row['log_z']:+.3f} ({row['log_z_error']:.3f})" for row in mine)
        power = ", ".join(f"{row['power']:.2f}" for row in mine)
        findings = "; ".join(row["findings"] or "none" for row in mine)
        worst = max(row["off"] for row in mine)
        print(f"| {name} | {len(mine)} | {len(wrong)} | {silent} | {worst:.4f} | {log_z} | {power} | {findings} |")


def main():
    """Run the cases asked for, side by side."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default="", help="the beginnings of names, with semicolons between them")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    names = [name for name in CASES if name.startswith(tuple(args.cases.split(";")))]
    with multiprocessing.get_context("spawn").Pool(args.jobs, maxtasksperchild=1) as pool:
        rows = [row for some in pool.imap_unordered(run, [(name, range(args.seeds)) for name in names]) for row in some]
    table(rows)
    import jax

    import sahmc

    today = time.strftime("%Y-%m-%d")
    print(f"\nsahmc {sahmc.__version__}, {platform.machine()} CPU, jax {jax.__version__}, {today}.")


if __name__ == "__main__":
    main()
