"""What looking for modes costs where there is one: effective sample size per gradient, beside our own plain HMC.

python benchmarks/one_mode.py --seeds 5
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np

import sahmc
from sahmc.testing import SUITE


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--targets", default="gaussian-10,logistic,gaussian-2,gaussian-100")
    args = parser.parse_args()
    print("| target | ESS per 1000 gradients, plain HMC | sahmc | ratio | largest z of a mean |")
    print("|---|---|---|---|---|")
    for name in args.targets.split(","):
        target = SUITE[name]()
        rate: dict[str, list[float]] = {"none": [], "tempered": []}
        worst = 0.0
        for seed in range(args.seeds):
            for tilt, rates in rate.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    result = sahmc.sample(
                        target.log_density,
                        jnp.asarray(target.start, jnp.float32),
                        tilt=tilt,
                        random_seed=seed,
                        progressbar=False,
                    )
                rates.append(1000 * float(np.min(result.ess())) / result.num_gradients)
                worst = max(worst, target.worst_z(result)) if tilt == "tempered" else worst
        plain, ours = (float(np.mean(rate[tilt])) for tilt in ("none", "tempered"))
        print(f"| {target.name} | {plain:.2f} | {ours:.2f} | {ours / plain:.2f} | {worst:.1f} |", flush=True)
    print(
        f"\nThe smallest ESS over coordinates, warm-up counted. sahmc {sahmc.__version__}, jax {jax.__version__}, ",
        end="",
    )
    print(f"{platform.machine()} CPU, seeds 0 to {args.seeds - 1}, {time.strftime('%Y-%m-%d')}; ", end="")
    print("made by `python benchmarks/one_mode.py`.")


if __name__ == "__main__":
    main()
