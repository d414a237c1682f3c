"""Eight modes with more and more chains, all started in one mode: error, time, gradients, memory of the device."""

import argparse
import time
import warnings
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np

import sahmc
from sahmc.testing import eight_modes


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chains", type=int, nargs="+", default=[32, 256, 2048])
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--dim", type=int, default=11)
    args = parser.parse_args()
    target = eight_modes(args.dim)
    start = jnp.asarray(target.start, jnp.float32)
    device = jax.devices()[0].device_kind
    versions = f"jax {jax.__version__}, sahmc {sahmc.__version__}"
    print(f"{device}, {versions}, {time.strftime('%Y-%m-%d')}; seeds 0 to {args.seeds - 1}")
    print(f"eight modes, d = {args.dim}, edge 10; draws = tune = {args.draws}; seconds without compilation\n")
    print("| chains | rmse | largest error | round trips | gradients, M | seconds | memory, GiB | findings |")
    print("|---:|---:|---:|---:|---:|---:|---:|---|")
    for chains in args.chains:
        errors, seconds, trips, gradients = [], [], [], []
        findings: Counter[str] = Counter()
        for seed in range(-1, args.seeds):  # the first run compiles
            began = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                result = sahmc.sample(
                    target.log_density,
                    start,
                    draws=args.draws,
                    tune=args.draws,
                    chains=chains,
                    random_seed=max(seed, 0),
                )
            if seed >= 0:
                seconds.append(time.perf_counter() - began)
                errors.append(result.expectation(target.indicators).mean - target.masses)
                trips.append(result.round_trips.sum())
                findings.update(f.code for f in result.findings)
                gradients.append(result.num_gradients / 1e6)
        rmse, worst = np.sqrt(np.mean(np.square(errors))), np.abs(errors).max()
        cells = f"{rmse:.4f} | {worst:.4f} | {np.mean(trips):.0f} | {np.mean(gradients):.1f} | {np.mean(seconds):.1f}"
        stats = jax.devices()[0].memory_stats() or {}
        peak = stats.get("peak_bytes_in_use", float("nan")) / 2**30
        print(f"| {chains} | {cells} | {peak:.2f} | {', '.join(findings)} |", flush=True)


if __name__ == "__main__":
    main()
