"""The kernels side by side, each table by one command.

python benchmarks/kernels.py nuts      time per gradient and trees, beside blackjax.nuts
python benchmarks/kernels.py masses    the three modes of mixture set 2 from one, every kernel under two tilts
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np

import sahmc
from sahmc.testing import mixture

DIM = 10
ROOT = np.random.default_rng(0).normal(size=(DIM, DIM)) / np.sqrt(DIM)
COVARIANCE = ROOT @ ROOT.T + 0.1 * np.eye(DIM)
PRECISION = jnp.asarray(np.linalg.inv(COVARIANCE), jnp.float32)


def gaussian(x):
    return -0.5 * x @ PRECISION @ x


def funnel(x):
    return -0.5 * (x[0] / 3) ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 0.5 * (DIM - 1) * x[0]


def exact(name, chains, rng):
    if name == "gaussian":
        return rng.multivariate_normal(np.zeros(DIM), COVARIANCE, chains)
    top = 3 * rng.normal(size=(chains, 1))
    return np.hstack([top, np.exp(top / 2) * rng.normal(size=(chains, DIM - 1))])


def compiled(step, states, steps, chains):
    """A scan of moves; returns gradients and depths of all, and the squares of the first coordinate."""

    @jax.jit
    def run(key, states):
        def body(states, t):
            states, grads, depth = jax.vmap(step)(jax.random.split(jax.random.fold_in(key, t), chains), states)
            return states, (grads, depth, states.position[:, 0] ** 2)

        return jax.lax.scan(body, states, jnp.arange(steps))[1]

    return lambda seed: jax.block_until_ready(run(jax.random.key(seed), states))


def ours(log_density, step_size, start, steps):
    target = sahmc.TiltedTarget.build(log_density, jnp.zeros(DIM), sahmc.NoTilt())
    kernel = sahmc.NUTS(step_size, metric=sahmc.DiagonalMetric(np.ones(DIM)))

    def step(key, state):
        state, info = kernel.step(key, state, target)
        return state, info.n_steps, info.tree_depth

    return compiled(step, jax.vmap(target.evaluate)(start), steps, len(start))


def theirs(log_density, step_size, start, steps):
    import blackjax

    kernel = blackjax.nuts(log_density, step_size=step_size, inverse_mass_matrix=jnp.ones(DIM))

    def step(key, state):
        state, info = kernel.step(key, state)
        return state, info.num_integration_steps, info.num_trajectory_expansions

    return compiled(step, jax.vmap(kernel.init)(start), steps, len(start))


def mean_and_error(values):
    """Of all moves (move, chain), with the error from batches of moves and chains."""
    values = np.asarray(values, float)
    batches = np.array([part.mean() for part in np.array_split(values.T.reshape(-1), 50)])
    return values.mean(), batches.std(ddof=1) / np.sqrt(len(batches))


def table_nuts(args):
    print(
        "| target | chains | blackjax, us a gradient | ours | ours / blackjax | depth, theirs | ours | apart, sigma |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, log_density, step_size in (("gaussian", gaussian, 0.25), ("funnel", funnel, 0.25)):
        for chains, steps in ((1, 4000), (10, 800), (100, 200)):
            start = jnp.asarray(exact(name, chains, np.random.default_rng(1)), jnp.float32)
            runs = {"theirs": theirs, "ours": ours}
            runs = {who: make(log_density, step_size, start, steps) for who, make in runs.items()}
            cost, found = {who: [] for who in runs}, {who: [] for who in runs}
            for run in runs.values():
                run(0)
            for seed in range(args.repeats):
                for who, run in runs.items():
                    began = time.perf_counter()
                    grads, depth, square = run(seed)
                    cost[who].append(1e6 * (time.perf_counter() - began) / int(np.asarray(grads).sum()))
                    found[who].append((np.asarray(depth), np.asarray(square)))
            us = {who: statistics.median(values) for who, values in cost.items()}
            depth = {who: mean_and_error(np.concatenate([d for d, _ in found[who]])) for who in runs}
            apart = (depth["ours"][0] - depth["theirs"][0]) / np.hypot(depth["ours"][1], depth["theirs"][1])
            print(
                f"| {name} | {chains} | {us['theirs']:.2f} | {us['ours']:.2f} | {us['ours'] / us['theirs']:.2f} "
                f"| {depth['theirs'][0]:.3f} | {depth['ours'][0]:.3f} | {apart:+.1f} |",
                flush=True,
            )


def table_masses(args):
    target = mixture(-8.0, 6.0)
    print("| kernel | tilt | largest error of a mass, by seed | largest z | gradients | findings |")
    print("|---|---|---|---:|---:|---|")
    for kernel in args.kernels.split(","):
        for tilt in ("tempered", "linear", "step"):
            errors, worst, gradients, codes = [], 0.0, [], set()
            for seed in range(args.seeds):
                result = quiet(target.log_density, target.start, kernel=kernel, tilt=tilt, random_seed=seed)
                errors.append(np.abs(result.expectation(target.indicators).mean - target.masses).max())
                worst = max(worst, target.worst_z(result))
                gradients.append(result.num_gradients)
                codes |= {finding.code for finding in result.findings}
            found = ", ".join(f"{error:.4f}" for error in errors)
            print(
                f"| {kernel} | {tilt} | {found} | {worst:.1f} | {np.mean(gradients) / 1e6:.2f} M "
                f"| {', '.join(sorted(codes)) or 'none'} |",
                flush=True,
            )


def quiet(*args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sahmc.sample(*args, progressbar=False, **kwargs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tables = {"nuts": table_nuts, "masses": table_masses}
    parser.add_argument("table", choices=tables)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--kernels", default="hmc,nuts,rmhmc")
    args = parser.parse_args()
    device = jax.devices()[0]
    print(
        f"{device.device_kind} ({platform.machine()}, {os.cpu_count()} cores), jax {jax.__version__}, "
        f"sahmc {sahmc.__version__}, seeds from 0, {time.strftime('%Y-%m-%d')}; "
        f"made by `python benchmarks/kernels.py {args.table}`\n"
    )
    tables[args.table](args)


if __name__ == "__main__":
    main()
