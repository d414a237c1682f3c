"""Which period? Velocities of a star with one planet, nothing set: how often is the period wrong, and is it said?

    python benchmarks/periods.py --seeds 6

Nearly every period is a mode, hundreds of nats less probable than the right one, and chains start from the prior. A
period is right within one per cent. Prints a row for each data set.
"""

from __future__ import annotations

import argparse
import math
import platform
import statistics
import time
import warnings
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import sahmc

NOISE = 3.0
DATA = {"A": (12, 50, 15.0, 4.2, 1000.0), "B": (1, 60, 30.0, 31.4, 400.0), "C": (21, 25, 10.0, 12.3, 200.0)}
"""For each data set: its seed, the number of data, the amplitude, the period, and the days that were observed."""


def orbit(seed: int, num: int, amplitude: float, period: float, days: float) -> Callable[[], None]:
    """Return the NumPyro model of a circular orbit, with data."""
    rng = np.random.default_rng(seed)
    day = np.sort(rng.uniform(0, days, num))
    velocity = amplitude * np.cos(2 * np.pi * day / period + 1) + NOISE * rng.normal(size=num) + 2

    def model() -> None:
        wanted = numpyro.sample("period", dist.LogUniform(1.25, 1e4))
        size = numpyro.sample("amplitude", dist.LogUniform(1.0, 100.0))
        phase = numpyro.sample("phase", dist.Uniform(0, 2 * math.pi))
        offset = numpyro.sample("offset", dist.Normal(0, 30))
        wave = size * jnp.cos(2 * math.pi * day / wanted + phase)
        numpyro.sample("velocity", dist.Normal(wave + offset, NOISE), obs=velocity)

    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6)
    args = parser.parse_args()
    print(
        "| data | period | runs | right and quiet | right, `search` | right, other findings | wrong, with a finding ",
        end="",
    )
    print("| wrong and silent | gradients |\n" + "|---" * 9 + "|")
    for name, (seed, num, amplitude, period, days) in DATA.items():
        model, counts, gradients = orbit(seed, num, amplitude, period, days), [0] * 5, []
        for run in range(args.seeds):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = sahmc.sample(model, random_seed=run, progressbar=False)
            right = abs(float(result.expectation(lambda x: x["period"]).mean) / period - 1) < 0.01
            codes = {finding.code for finding in result.findings}
            kind = (2 if codes - {"search"} else int(bool(codes))) if right else 3 if codes else 4
            counts[kind] += 1
            gradients.append(result.num_gradients)
        middle = f"{statistics.median(gradients):,.0f}"
        print(
            f"| {name} | {period:g} of {days:g} days | {args.seeds} | {' | '.join(map(str, counts))} | {middle} |",
            flush=True,
        )
    print(f"\nsahmc {sahmc.__version__}, jax {jax.__version__}, {platform.machine()} CPU, ", end="")
    print(f"seeds 0 to {args.seeds - 1}, {time.strftime('%Y-%m-%d')}; by `benchmarks/periods.py`.")


if __name__ == "__main__":
    main()
