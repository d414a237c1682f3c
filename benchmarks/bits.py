"""Checksums of seeded runs, to show that a change of the code has not changed a bit of what is drawn.

    python benchmarks/bits.py > before.json     # at one commit
    python benchmarks/bits.py before.json       # at another: names every run that differs

Only public names are used, so that the file runs unchanged at both. Bits differ between machines and versions of JAX.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import sahmc
from sahmc.testing import eight_modes, mixture, sensor_network

SHORT = dict(draws=300, tune=300, random_seed=1, progressbar=False)
PAPER = dict(
    chains=4,
    draws=500,
    thin=5,
    tune=1000,
    tilt="step",
    partition=sahmc.EnergyPartition.uniform(0, 20, 2),
    gain=500,
    theta="per-chain",
    adapt="always",
    kernel=sahmc.HMC(step_size=0.3, num_integration_steps=20, metric="unit", jitter=0),
    random_seed=1,
    progressbar=False,
)


def galaxies(speed: Any) -> None:
    """A mixture of two Gaussians whose components can change places."""
    centre = numpyro.sample("centre", dist.Normal(0, 5).expand([2]).to_event(1))
    share = numpyro.sample("share", dist.Beta(2, 2))
    parts = dist.MixtureSameFamily(dist.Categorical(jnp.stack([share, 1 - share])), dist.Normal(centre, 1.0))
    with numpyro.plate("galaxy", len(speed)):
        numpyro.sample("speed", parts, obs=speed)


def from_target(target: Any, **options: Any) -> Any:
    return sahmc.sample(target.log_density, jnp.asarray(target.start), **{**SHORT, **options})


def in_64_bits() -> Any:
    with jax.enable_x64(True):
        return from_target(eight_modes(5))


SPEED = np.random.default_rng(0).normal(np.repeat([-2.0, 2.0], 20), 1.0)
RUNS: dict[str, Callable[[], Any]] = {
    "mixture": lambda: from_target(mixture()),
    "eight modes, d = 11": lambda: from_target(eight_modes(11)),
    "sensor network": lambda: from_target(sensor_network()),
    "NumPyro, prior apart": lambda: sahmc.sample(galaxies, model_args=(SPEED,), **SHORT),
    "NUTS": lambda: from_target(mixture(), kernel="nuts"),
    "the paper's form": lambda: sahmc.sample(mixture().log_density, jnp.zeros(2), **PAPER),
    "RMHMC": lambda: from_target(mixture(), kernel="rmhmc", draws=100, tune=100),
    "linear tilt, dense metric": lambda: from_target(mixture(), tilt="linear", kernel=sahmc.HMC(metric="dense")),
    "random walk": lambda: from_target(mixture(), tilt="step", kernel="random_walk", target_accept=0.3),
    "a ladder given": lambda: from_target(mixture(), partition=sahmc.TemperatureLadder.geometric(50, 8)),
    "64 bits": in_64_bits,
}


def checksums(result: Any) -> dict[str, str]:
    """Of draws, weights and energies; theta; what was found wrong; and what it cost."""
    parts = {
        "draws": jax.tree.leaves(result.draws),
        "log_weight": [result.log_weight],
        "log_density": [result.log_density],
        "theta": [result.theta],
        "summary": [str(result.summary().table())],
        "gradients": [str(result.num_gradients)],
    }
    return {name: _checksum(values) for name, values in parts.items()}


def _checksum(values: Any) -> str:
    digest = hashlib.sha256()
    for value in values:
        digest.update(value.encode() if isinstance(value, str) else np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()[:16]


def main() -> int:
    warnings.simplefilter("ignore")
    before = json.loads(Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else None
    found = {}
    for name, run in RUNS.items():
        found[name] = checksums(run())
        if before is not None:
            off = [part for part, value in found[name].items() if before[name][part] != value]
            print(f"{name}: {'differs in ' + ', '.join(off) if off else 'the same bits'}", flush=True)
    if before is None:
        print(json.dumps(found, indent=1))
    return int(before is not None and found != before)


if __name__ == "__main__":
    sys.exit(main())
