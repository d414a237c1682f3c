"""Runs of every kind, killed by the operating system at random moments and begun again: the same bits and counts?

    python benchmarks/kills.py run --kills 5
    python benchmarks/kills.py run --kinds plain,hosts --kills 10

Each kind of run is made once undisturbed. It is then killed with SIGKILL ``--kills`` times, at a random one of its
reports of progress and a moment after it, and begun again in the same folder until it comes to its end. A run counts
as the same if all of its record is, but for the time that it took: draws, weights, findings, the number of gradients.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path

KINDS = ("plain", "symmetric", "late", "until", "until-gradients", "until-time", "warm", "hosts", "many")
TWO_MODES = {"draws": 60, "tune": 100, "chains": 8, "random_seed": 1, "progressbar": False}


# The run that is killed


def once(kind: str, folder: Path, process: int, port: int, report: int, after: float) -> None:
    """Make one run, print its digest, and die on the way: ``after`` seconds from its report number ``report``."""
    warnings.simplefilter("ignore")
    import jax.numpy as jnp

    import sahmc
    from sahmc.checkpoint import journal
    from sahmc.engine import loop

    if kind == "hosts":
        sahmc.join_hosts(f"localhost:{port}", 2, process, timeout=20)
    journal.RECORD_SECONDS, loop.CHUNK_SECONDS = 0.0, 0.0
    count = 0

    def arm(_: object) -> None:
        nonlocal count
        count += 1
        if count == report:
            threading.Timer(after, os.kill, (os.getpid(), signal.SIGKILL)).start()

    def log_density(x):
        return jnp.logaddexp(-0.5 * jnp.sum((x + 4) ** 2), -0.5 * jnp.sum((x - 4) ** 2))

    def log_mixture(p):  # two components that may change places
        a, b = p["place"][0], p["place"][1]
        data = jnp.array([-2.2, -1.9, -2.0, 1.8, 2.1, 2.3])
        each = jnp.logaddexp(-2.0 * (data - a) ** 2, -2.0 * (data - b) ** 2)
        return jnp.sum(each) - 0.02 * (a**2 + b**2)

    options = {**TWO_MODES, "checkpoint": folder, "callback": arm}
    start: object = jnp.array([-4.0, -4.0])
    if kind == "symmetric":
        results = [sahmc.sample(log_mixture, {"place": jnp.array([-2.0, 2.0])}, **options)]
    elif kind == "many":
        options.pop("callback")
        data = [jnp.array(shift) for shift in (0.0, 0.5, 1.0)]
        loop.run_chunk = _counted(loop.run_chunk, arm)
        results = sahmc.sample_many(lambda x, shift: log_density(x - shift), data, start, **options)
    elif kind == "late":
        results = [_late(options)]
    else:
        if kind.startswith("until"):
            options |= {"until": sahmc.Precision(mass=0.01)}  # some rounds; 90,000 gradients end the last one early
            options |= {"until-gradients": {"max_gradients": 90_000}, "until-time": {"max_time": 1e4}}.get(kind, {})
        if kind == "warm":
            start = sahmc.sample(lambda x: log_density(x - 0.3), start, **TWO_MODES)
        results = [sahmc.sample(log_density, start, **options)]
    print(
        "digest", "+".join(f"{digest(result.record)}:{result.num_gradients}" for result in results), count, flush=True
    )


def _counted(run_chunk, arm):
    """Return ``run_chunk``, counted: data sets do not report their progress."""

    def counted(*args):
        arm(None)
        return run_chunk(*args)

    return counted


def _late(options: dict):
    """Return a run with a second pass: its draws are said to show a mode that its warm-up does not know."""
    import jax.numpy as jnp
    import numpy as np

    import sahmc
    from sahmc.engine.plan import Plan
    from sahmc.sampling import outcome
    from sahmc.testing.targets import two_widths

    target, needle = two_widths(10, 0.3, "wide"), np.zeros((1, 10), np.float32)
    Plan.probes = 0
    outcome.missed_modes = lambda record: needle[: 1 - record.warmup.late]
    return sahmc.sample(target.log_density, jnp.asarray(target.start, jnp.float32), **options)


def digest(record: object) -> str:
    """Return a checksum of all that a record holds, but for the seconds that the run took."""
    sys.path.append(str(Path(__file__).parent.parent / "tests" / "helpers"))
    import numpy as np
    from records import parts

    found = hashlib.sha256()
    for name, value in sorted(parts(record), key=lambda part: part[0]):
        if "sampling_time" not in name:
            array = np.asarray(value)
            found.update(f"{name} {array.dtype} {array.shape}".encode())
            found.update(
                str(array.tolist()).encode() if array.dtype == object else np.ascontiguousarray(array).tobytes()
            )
    return found.hexdigest()[:16]


# Those who kill it


def run(args: argparse.Namespace) -> None:
    """Print a line for each kind of run."""
    moments, bad = random.Random(args.seed), 0
    with tempfile.TemporaryDirectory() as place:
        for kind in args.kinds.split(","):
            whole, reports = attempt(kind, Path(place, kind, "whole"))
            killed = other = runs = 0
            while killed < args.kills:
                folder, found, runs = Path(place, kind, str(runs)), "", runs + 1
                while not found:
                    report = moments.randint(1, reports) if killed < args.kills else 0
                    found, _ = attempt(kind, folder, report, moments.uniform(0.0, 0.02))
                    killed += not found
                other += found != whole
            print(f"{kind:16s} {killed} kills, runs that came to another end: {other}   {whole}", flush=True)
            bad += other
    sys.exit(bad > 0)


def attempt(kind: str, folder: Path, report: int = 0, after: float = 0.0) -> tuple[str, int]:
    """Return the digest of a run and how often it reported its progress, or "" and 0 if it was killed on its way."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [sys.executable, __file__, "once", kind, str(folder)]
    numbers = range(2 if kind == "hosts" else 1)
    started = [
        subprocess.Popen(
            [*command, str(i), str(port), str(report if i == 0 else 0), str(after)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in numbers
    ]
    said, error = started[0].communicate()
    if started[0].returncode == -signal.SIGKILL:
        for other in started[1:]:  # as a cluster ends all processes of a job when one is gone
            other.kill()
            other.communicate()
        return "", 0
    for other in started[1:]:
        other.communicate()
    found = [line.split()[1:] for line in said.splitlines() if line.startswith("digest")]
    if not found:
        raise RuntimeError(f"{kind} ended without a result:\n{error[-2000:]}")
    return found[0][0], int(found[0][1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run")
    one.add_argument("--kinds", default=",".join(KINDS))
    one.add_argument("--kills", type=int, default=5, help="of each kind")
    one.add_argument("--seed", type=int, default=0)
    one.set_defaults(call=run)
    two = commands.add_parser("once")
    for name, kind in (("kind", str), ("folder", Path), ("process", int), ("port", int), ("report", int)):
        two.add_argument(name, type=kind)
    two.add_argument("after", type=float)
    two.set_defaults(call=lambda a: once(a.kind, a.folder, a.process, a.port, a.report, a.after))
    args = parser.parse_args()
    args.call(args)


if __name__ == "__main__":
    main()
