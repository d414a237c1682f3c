"""Many data sets of one shape: seconds of ``sample_many``, the first of them with compilation, and how right it is.

Each data set is 40 numbers from two Gaussians whose means are to be found, so that every posterior has two modes.
"""

import argparse
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np

import sahmc


def log_density(mean, data):
    parts = -0.5 * (data[:, None] - mean) ** 2
    return jnp.sum(jax.nn.logsumexp(parts, axis=1)) - jnp.sum(mean**2) / 50


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num", type=int, default=20)
    parser.add_argument("--cores", type=int, default=None, help="processes on the CPU, rather than here one by one")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    sets = [rng.normal(np.repeat([-2.0, 2.0], 20), 1.0).astype(np.float32) for _ in range(args.num)]
    options = dict(initvals=jnp.array([-2.0, 2.0]), random_seed=0, symmetries=None, progressbar=False)
    first = 0.0
    if args.cores is None:
        began = time.perf_counter()
        sahmc.sample_many(log_density, sets[:1], **options)
        first = time.perf_counter() - began
    began = time.perf_counter()
    results = sahmc.sample_many(log_density, sets, cores=args.cores, **options)
    seconds = time.perf_counter() - began
    swapped = np.array([result.expectation(lambda x: x[0] > x[1]) for result in results])
    off = np.abs(swapped[:, 0] - 0.5)
    versions = f"jax {jax.__version__}, sahmc {sahmc.__version__}, {time.strftime('%Y-%m-%d')}"
    if args.cores is None:
        print(f"{jax.devices()[0].device_kind}, {versions}: first {first:.1f} s")
    else:
        print(f"{args.cores} processes on CPU cores, {versions}; the start of processes and compilation included")
    print(f" {args.num} data sets in {seconds:.1f} s, {seconds / args.num:.2f} s each")
    print(f"the mass of a mode, 1/2, is off by {off.max():.4f} at most, {(off / swapped[:, 1]).max():.1f} errors")
    print(f"{sum(bool(result.findings) for result in results)} with findings")


if __name__ == "__main__":
    main()
