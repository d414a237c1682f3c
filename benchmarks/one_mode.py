"""What looking for modes costs where there is one: effective sample size per gradient, beside our own plain HMC.

python benchmarks/one_mode.py --seeds 5
python benchmarks/one_mode.py --models --seeds 3     (NumPyro models of the tests, NumPyro's NUTS beside)
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import sahmc
from sahmc.testing import SUITE
from sahmc.tilt.importance import weighted_mean

MODELS = ("regression", "schools", "simplex", "ordered", "correlation", "missing", "bounded", "positive")
NUTS_CHAINS, NUTS_DRAWS = 4, 1000


def rate_of(result):
    """Return the smallest ESS over all numbers, of a thousand gradients; those of the warm-up count."""
    least = min(float(np.min(ess)) for ess in jax.tree.leaves(result.ess()))
    return 1000 * least / result.num_gradients


def quietly(*args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sahmc.sample(*args, progressbar=False, **options)


def rate_of_nuts(model, args, seed):
    """Return the same of NumPyro's NUTS with its defaults."""
    from numpyro.infer import MCMC, NUTS

    mcmc = MCMC(
        NUTS(model),
        num_warmup=NUTS_DRAWS,
        num_samples=NUTS_DRAWS,
        num_chains=NUTS_CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    gradients = 0
    mcmc.warmup(jax.random.key(seed), *args, collect_warmup=True, extra_fields=("num_steps",))
    gradients += int(mcmc.get_extra_fields()["num_steps"].sum())
    mcmc.run(mcmc.post_warmup_state.rng_key, *args, extra_fields=("num_steps",))
    gradients += int(mcmc.get_extra_fields()["num_steps"].sum())
    even = np.full((NUTS_CHAINS, NUTS_DRAWS), 1 / (NUTS_CHAINS * NUTS_DRAWS))
    least = np.inf
    for drawn in mcmc.get_samples(group_by_chain=True).values():
        values = np.asarray(drawn, float).reshape(NUTS_CHAINS, NUTS_DRAWS, -1)
        values = values[..., np.ptp(values, axis=(0, 1)) > 0]  # the root of a correlation has constants in it
        least = min(least, float(np.min(values.var(axis=(0, 1)) / weighted_mean(values, even).mcse ** 2)))
    return 1000 * least / gradients


def models(seeds):
    sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))
    from models_numpyro import MODELS as KNOWN

    print("| model | plain HMC | sahmc | ratio | NUTS of NumPyro | weight efficiency | findings |")
    print("|---|---|---|---|---|---|---|")
    for name in MODELS:
        model, args = KNOWN[name]
        rates, efficiency, findings = [], [], 0
        for seed in range(seeds):
            plain = quietly(model, model_args=args, tilt="none", random_seed=seed)
            ours = quietly(model, model_args=args, random_seed=seed)
            rates.append((rate_of(plain), rate_of(ours), rate_of_nuts(model, args, seed)))
            efficiency.append(1 / (ours.weight.size * np.sum(ours.weight**2)))
            findings += len(ours.findings)
        plain, ours, nuts = np.median(rates, axis=0)
        print(
            f"| {name} | {plain:.2f} | {ours:.2f} | {ours / plain:.2f} | {nuts:.2f} "
            f"| {np.median(efficiency):.2f} | {findings} |",
            flush=True,
        )


def targets(names, seeds):
    print("| target | plain HMC | sahmc | ratio | largest z of a mean |")
    print("|---|---|---|---|---|")
    for name in names:
        target, rates, worst = SUITE[name](), [], 0.0
        start = jnp.asarray(target.start, jnp.float32)
        for seed in range(seeds):
            plain = quietly(target.log_density, start, tilt="none", random_seed=seed)
            ours = quietly(target.log_density, start, random_seed=seed)
            rates.append((rate_of(plain), rate_of(ours)))
            worst = max(worst, target.worst_z(ours))
        plain, ours = np.median(rates, axis=0)
        print(f"| {target.name} | {plain:.2f} | {ours:.2f} | {ours / plain:.2f} | {worst:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--models", action="store_true")
    parser.add_argument("--targets", default="gaussian-10,logistic,gaussian-2,gaussian-100")
    args = parser.parse_args()
    print("The smallest ESS over all numbers of 1000 gradients, warm-up counted, median over seeds.\n")
    if args.models:
        models(args.seeds)
    else:
        targets(args.targets.split(","), args.seeds)
    print(f"\nsahmc {sahmc.__version__}, jax {jax.__version__}, {platform.machine()} CPU, ", end="")
    print(f"seeds 0 to {args.seeds - 1}, {time.strftime('%Y-%m-%d')}.")


if __name__ == "__main__":
    main()
