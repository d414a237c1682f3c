"""The memory of a process that samples one new model after the other.

python benchmarks/memory_of_models.py [RUNS]
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import jax.numpy as jnp

import sahmc


def resident() -> float:
    """Return the resident memory of this process, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    warnings.simplefilter("ignore")
    seen = []
    for i in range(runs):

        def log_density(x, i=i):
            for _ in range(i + 1):  # a program that was not seen before
                x = jnp.sin(x) + x
            return -0.5 * jnp.sum(x**2)

        sahmc.sample(log_density, jnp.zeros(3), draws=100, tune=100, chains=8, random_seed=0, progressbar=False)
        seen.append(resident())
        print(f"{i + 1:3d} {seen[-1]:8.0f} MiB", flush=True)
    half = len(seen) // 2
    print(f"a model of the second half leaves {(seen[-1] - seen[half]) / max(1, len(seen) - 1 - half):.1f} MiB")


if __name__ == "__main__":
    main()
