"""The time of whole default runs of two versions, side by side: each in its own process, in turn, several times.

    python benchmarks/speed_of_runs.py OLD/src NEW/src

The first run of a process compiles; the others do not.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys

ONE = """
import json, sys, time, warnings
import jax.numpy as jnp
import sahmc
from sahmc.testing import SUITE
warnings.simplefilter("ignore")
name = sys.argv[1]
if name == "with-prior":
    what = sahmc.Model(
        log_likelihood=lambda x: -20.0 * jnp.sum((x - 1) ** 2), log_prior=lambda x: -0.5 * jnp.sum(x**2)
    )
    start = jnp.zeros(5)
else:
    target = SUITE[name]()
    what, start = target.log_density, jnp.asarray(target.start, jnp.float32)
times, spent = [], 0
for seed in range(6):
    began = time.perf_counter()
    spent = sahmc.sample(what, start, random_seed=seed, progressbar=False).num_gradients
    times.append(time.perf_counter() - began)
print(json.dumps({"times": times, "gradients": spent}))
"""
NAMES = ("mixture-2", "eight-modes-11", "eight-modes-50", "sensor-network", "logistic", "gaussian-10", "with-prior")


def measure(source: str, name: str) -> dict[str, object]:
    """Return the seconds of six runs, the first with compilation, and the gradients of the last."""
    done = subprocess.run(
        [sys.executable, "-c", ONE, name],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    old, new = sys.argv[1:3]
    print("| target | first run: old, s | new | ratio | further runs: old, s | new | ratio | gradients, ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for name in NAMES:
        rounds = [(measure(old, name), measure(new, name)) for _ in range(2)]
        first = [statistics.median(pair[i]["times"][0] for pair in rounds) for i in range(2)]
        later = [statistics.median(t for pair in rounds for t in pair[i]["times"][1:]) for i in range(2)]
        spent = rounds[0][1]["gradients"] / rounds[0][0]["gradients"]
        cells = [f"{x:.2f}" for x in (*first, first[1] / first[0], *later, later[1] / later[0], spent)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
