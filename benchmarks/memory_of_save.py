"""The memory that saving a run takes, against the size of its draws, which lie on disk; and the time to read it back.

python benchmarks/memory_of_save.py [MIB]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import jax.numpy as jnp

import sahmc

AGAIN = """
import sys, time, warnings
warnings.simplefilter("ignore")
began = time.perf_counter()
import sahmc
result = sahmc.resume(sys.argv[1], progressbar=False)
print(f"read back in a fresh process, imports included: {time.perf_counter() - began:.1f} s, {result.draws.shape}")
"""


def anonymous() -> float:
    """Return the memory of this process that is no map of a file, in MiB."""
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("RssAnon"))
    return int(line.split()[1]) / 1024


class Peak(threading.Thread):
    """The largest memory seen while it runs."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen, self.over = anonymous(), False

    def run(self) -> None:
        while not self.over:
            self.seen = max(self.seen, anonymous())
            time.sleep(0.005)


def normal(x):
    return -0.5 * jnp.sum(x**2)


def main() -> None:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 781
    warnings.simplefilter("ignore")
    dim, chains = 1000, 32
    draws = size * 2**20 // (dim * chains * 4)
    with tempfile.TemporaryDirectory() as folder:
        result = sahmc.sample(
            normal,
            jnp.zeros(dim),
            draws=draws,
            tune=200,
            chains=chains,
            random_seed=0,
            tilt="none",
            kernel=sahmc.HMC(0.3, 3),
            checkpoint=Path(folder) / "run",
            progressbar=False,
        )
        for name in ("run.nc", "run.zarr"):
            before, peak, began = anonymous(), Peak(), time.perf_counter()
            peak.start()
            result.save(Path(folder) / name)
            peak.over = True
            spent = time.perf_counter() - began
            print(f"{name}: draws {result.draws.nbytes / 2**20:.0f} MiB, memory grew by {peak.seen - before:.0f} MiB, ")
            print(f"  {spent:.1f} s", flush=True)
        sys.stdout.flush()
        subprocess.run([sys.executable, "-c", AGAIN, str(Path(folder) / "run")], check=True)


if __name__ == "__main__":
    main()
