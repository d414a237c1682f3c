"""Whether stopping when the precision asked for is reached spoils the errors that are stated: coverage of intervals.

Three targets, each run until a precision holds, from many seeds; 95 % intervals, 1.96 standard errors to either side,
should hold the truth in 95 % of the runs.

python benchmarks/stopping.py --seeds 0:140 --out out/stopping.csv
"""

from __future__ import annotations

import argparse
import csv
import platform
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import sahmc
from sahmc.testing import SUITE

SHORT = dict(chains=32, tune=400, progressbar=False)
CASES = {
    "mixture-2, mass = 0.008": ("mixture-2", 50, sahmc.Precision(mass=0.008)),
    "logistic, ess = 4000": ("logistic", 50, sahmc.Precision(ess=4000)),
    "eight-modes-11, log_evidence = 0.008": ("eight-modes-11", 50, sahmc.Precision(log_evidence=0.008)),
}


def one(case, seed):
    """Return rows (quantity, error in stated errors, draws) of one run."""
    name, draws, until = CASES[case]
    target = SUITE[name]()
    start = jnp.asarray(target.start, jnp.float32)
    result = sahmc.sample(target.log_density, start, draws=draws, until=until, random_seed=seed, **SHORT)
    made = result.log_weight.shape[1]
    if until.log_evidence is not None:
        found = result.log_evidence()
        return [("log evidence", float(found.mean / found.mcse), made)]  # its integral is 1
    found = result.expectation(target.answers)
    z = (found.mean - target.truth) / np.hypot(found.mcse, target.error)
    return [(str(i), float(z[i]), made) for i in range(len(z))]


def table(rows):
    print("| target and precision | runs | draws of a chain: median (least, most) | numbers | 95 % intervals hold |")
    print("|---|---|---|---|---|")
    for case in CASES:
        mine = [row for row in rows if row[0] == case]
        if not mine:
            continue
        runs = len({row[1] for row in mine})
        z, draws = np.array([float(row[3]) for row in mine]), np.array([int(row[4]) for row in mine])
        inside = np.mean(np.abs(z) < 1.96)
        error = np.sqrt(inside * (1 - inside) / runs)
        span = f"{np.median(draws):.0f} ({draws.min()}, {draws.max()})"
        print(f"| {case} | {runs} | {span} | {len(mine) // runs} | {100 * inside:.1f} +- {100 * error:.1f} % |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:140")
    parser.add_argument("--cases", type=int, nargs="*", default=range(len(CASES)))
    parser.add_argument("--out", type=Path, default=Path("out/stopping.csv"))
    parser.add_argument("--table", type=Path, nargs="*", help="make the table of these files, and run nothing")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.table:
        table([row for path in args.table for row in csv.reader(path.open())])
        return
    first, last = map(int, args.seeds.split(":"))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    with args.out.open("w", newline="") as file:
        for case in [list(CASES)[i] for i in args.cases]:
            for seed in range(first, last):
                more = [(case, seed, *row) for row in one(case, seed)]
                csv.writer(file).writerows(more)
                file.flush()
                rows += more
    table([tuple(map(str, row)) for row in rows])
    print(f"\nsahmc {sahmc.__version__}, jax {jax.__version__}, {platform.machine()} CPU, {time.strftime('%Y-%m-%d')}.")


if __name__ == "__main__":
    main()
