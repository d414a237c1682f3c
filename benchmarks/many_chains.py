"""Eight modes in eleven dimensions with more and more chains, all started in one mode: error, time, gradients."""

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
    args = parser.parse_args()
    target = eight_modes(11)
    start = jnp.asarray(target.start, jnp.float32)
    device = jax.devices()[0].device_kind
    versions = f"jax {jax.__version__}, sahmc {sahmc.__version__}"
    print(f"{device}, {versions}, {time.strftime('%Y-%m-%d')}; seeds 0 to {args.seeds - 1}")
    print(f"eight modes, d = 11, edge 10; draws = tune = {args.draws}; seconds without compilation\n")
    print("| chains | rmse of the masses | largest error | round trips | gradients, millions | seconds | findings |")
    print("|---:|---:|---:|---:|---:|---:|---|")
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
        print(f"| {chains} | {cells} | {', '.join(findings)} |", flush=True)


if __name__ == "__main__":
    main()
