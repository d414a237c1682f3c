"""CPU seconds until the first result of two versions, side by side: nothing compiled, programs kept, a second run.

    python benchmarks/first_run.py OLD/src NEW/src [--target mixture-2] [--repeats 3]

Each run has a process of its own, the versions take turns, and each has a cache of its own. Seconds are of the call of
``sample``, on all cores together; importing JAX and the library comes before.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ONE = """
import json, sys, time, warnings
import jax.numpy as jnp
import sahmc
from sahmc.testing import SUITE
warnings.simplefilter("ignore")
target = SUITE[sys.argv[1]]()
start, seconds = jnp.asarray(target.start, jnp.float32), []
for seed in range(2):
    began = time.process_time()
    sahmc.sample(target.log_density, start, random_seed=seed, progressbar=False)
    seconds.append(time.process_time() - began)
print(json.dumps(seconds))
"""


def measure(source: str, target: str, cache: str) -> list[float]:
    """Return the CPU seconds of the first and the second run of a process."""
    path = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", ONE, target],
        env={**os.environ, "PYTHONPATH": path, "SAHMC_PROGRAM_CACHE": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs=2)
    parser.add_argument("--target", default="mixture-2")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    rows: list[list[tuple[float, float, float]]] = [[], []]
    for _ in range(args.repeats):
        for source, found in zip(args.sources, rows, strict=True):
            with tempfile.TemporaryDirectory() as cache:
                cold, second = measure(source, args.target, cache)
                found.append((cold, measure(source, args.target, cache)[0], second))
    print(f"| {args.target}: CPU seconds | old | new |\n|---|---:|---:|")
    for i, name in enumerate(("nothing compiled yet", "another process has run it", "a second run")):
        old, new = (statistics.median(row[i] for row in found) for found in rows)
        print(f"| {name} | {old:.1f} | {new:.1f} |")


if __name__ == "__main__":
    main()
