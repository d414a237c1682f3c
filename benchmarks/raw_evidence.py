"""The log of the integral of raw densities in public use, from one start in one mode, nothing set, beside the truth.

    python benchmarks/raw_evidence.py --seeds 5

GMM40, MoS (Beyond ELBOs), many well (FAB), two modes (SLIPS), the funnel, and coin flips on the logit scale (Pigeons).
"""

from __future__ import annotations

import argparse
import math
import platform
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import digamma

import sahmc
from sahmc.testing.targets.raw import far_gaussians, student_modes


def many_well():
    """Sixteen pairs; the check is P(a > 0), 0.84431 for each."""
    grid = np.linspace(-6, 6, 240001)
    density = np.exp(0.5 * grid + 6 * grid**2 - grid**4)
    truth = 16 * (math.log(density.sum() * (grid[1] - grid[0])) + 0.5 * math.log(2 * math.pi))
    right = density[grid > 0].sum() / density.sum()

    def log_density(x):
        a, b = x[:16], x[16:]
        return jnp.sum(0.5 * a + 6 * a**2 - a**4 - 0.5 * b**2)

    start = jnp.concatenate([jnp.full(16, -1.7), jnp.zeros(16)])
    return log_density, start, truth, lambda x: (x[:16] > 0).astype(float), np.full(16, right)


def funnel():
    """Ten dimensions, v ~ N(0, 9); the check is the mean of v."""

    def log_density(x):
        v, rest = x[0], x[1:]
        return -0.5 * (v / 3) ** 2 - 0.5 * jnp.sum(rest**2) * jnp.exp(-v) - 4.5 * v

    return log_density, jnp.zeros(10), 5 * math.log(2 * math.pi) + math.log(3), lambda x: x[:1], np.zeros(1)


def coin(n, y):
    """p1 p2 is the chance of heads; the check is P(p1 > p2) = 1/2."""

    def log_density(z):
        p = jnp.sum(jax.nn.log_sigmoid(z))
        both = jnp.sum(jax.nn.log_sigmoid(z) + jax.nn.log_sigmoid(-z))
        log_choose = math.lgamma(n + 1) - math.lgamma(y + 1) - math.lgamma(n - y + 1)
        return log_choose + y * p + (n - y) * jnp.log1p(-jnp.exp(p)) + both

    truth = math.log((digamma(n + 2) - digamma(y + 1)) / (n + 1))
    return log_density, jnp.zeros(2), truth, lambda z: (z[:1] > z[1]).astype(float), np.full(1, 0.5)


def two_modes(dim):
    """2/3 N(-2/3, 0.05 I) + 1/3 N(4/3, 0.05 I): the check is the weight of the first."""

    def parts(x):
        centres = jnp.array([[-2 / 3], [4 / 3]])
        log_norm = jnp.log(jnp.array([2 / 3, 1 / 3])) - 0.5 * dim * math.log(2 * math.pi * 0.05)
        return log_norm - 0.5 * jnp.sum((x - centres) ** 2, axis=1) / 0.05

    def first(x):
        return (jnp.argmax(parts(x))[None] == 0).astype(float)

    return lambda x: jax.nn.logsumexp(parts(x)), jnp.full(dim, -2 / 3), 0.0, first, np.full(1, 2 / 3)


def of(target):
    return target.log_density, jnp.asarray(target.start, jnp.float32), 0.0, target.indicators, target.masses


TARGETS = {
    "GMM40, d = 2": lambda: of(far_gaussians(2)),
    "GMM40, d = 50": lambda: of(far_gaussians(50)),
    "MoS, d = 2": lambda: of(student_modes(2)),
    "MoS, d = 50": lambda: of(student_modes(50)),
    "many well 32": many_well,
    "two modes, d = 128": lambda: two_modes(128),
    "coin flip, n = 100": lambda: coin(100, 50),
    "coin flip, n = 1e5": lambda: coin(100_000, 50_000),
    "funnel, d = 10": funnel,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="a part of the names")
    args = parser.parse_args()
    print("| target | log Z less the truth (stated error), each seed | largest error of the check | findings |")
    print("|---|---|---|---|")
    for name, build in TARGETS.items():
        if args.only not in name:
            continue
        log_density, start, truth, check, answer = build()
        cells, worst, codes = [], 0.0, []
        for seed in range(args.seeds):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = sahmc.sample(log_density, start, random_seed=seed, progressbar=False)
            found = result.log_evidence()
            cells.append(f"{float(found.mean) - truth:+.3f} ({float(found.mcse):.3f})")
            worst = max(worst, float(np.abs(result.expectation(check).mean - answer).max()))
            codes += [f.code + ("!" if f.severity == "error" else "") for f in result.findings]
        said = ", ".join(f"{code} {codes.count(code)}" for code in dict.fromkeys(codes))
        print(f"| {name} | {', '.join(cells)} | {worst:.4f} | {said} |", flush=True)
    print(f"\nsahmc {sahmc.__version__}, {platform.machine()} CPU, jax {jax.__version__}, {time.strftime('%Y-%m-%d')}.")


if __name__ == "__main__":
    main()
