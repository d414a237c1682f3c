"""Time of one HMC transition on the paper's mixture: ours, with each tilt, beside blackjax.hmc, in one run.

Same step size, same trajectory length, same number of chains, both as a compiled scan that keeps the draws. Runs are
interleaved, and medians and ratios of them are printed, because machines are shared and noisy.
"""

import argparse
import os
import platform
import statistics
import time

import blackjax
import jax
import jax.numpy as jnp

import sahmc
from sahmc.testing import mixture

STEP_SIZE, LENGTH = 0.3, 20
NODES = sahmc.EnergyPartition.uniform(0, 20, 2)
TILTS = {
    "no tilt": sahmc.NoTilt(),
    "step": sahmc.StepTilt(NODES),
    "linear": sahmc.LinearTilt(NODES),
    "tempered": sahmc.TemperedTilt(sahmc.TemperatureLadder.geometric(30, 6, reference=2.1)),
}
LOG_DENSITY = mixture().log_density


def ours(tilt, chains, steps):
    target = sahmc.TiltedTarget.build(LOG_DENSITY, jnp.zeros(2), tilt)
    kernel = sahmc.HMC(STEP_SIZE, LENGTH, metric="unit", jitter=0.0)
    desired = jnp.full(tilt.num_regions, 1 / tilt.num_regions)
    gain = sahmc.Gain(100)

    @jax.jit
    def run(key, state):
        def step(state, t):
            key_t = jax.random.fold_in(key, t)
            state, info = sahmc.sahmc_step(key_t, state, kernel, target, gain(t + 1), desired)
            return state, (state.chains.position, info.acceptance_rate)

        return jax.lax.scan(step, state, jnp.arange(steps))

    start = sahmc.init(target, jnp.zeros((chains, 2)))
    return lambda: jax.block_until_ready(run(jax.random.key(0), start))


def theirs(chains, steps):
    hmc = blackjax.hmc(LOG_DENSITY, step_size=STEP_SIZE, inverse_mass_matrix=jnp.ones(2), num_integration_steps=LENGTH)

    @jax.jit
    def run(key, state):
        def step(state, t):
            keys = jax.random.split(jax.random.fold_in(key, t), chains)
            state, info = jax.vmap(hmc.step)(keys, state)
            return state, (state.position, info.acceptance_rate)

        return jax.lax.scan(step, state, jnp.arange(steps))

    start = jax.vmap(hmc.init)(jnp.zeros((chains, 2)))
    return lambda: jax.block_until_ready(run(jax.random.key(0), start))


def medians(runs, steps, repeats):
    """Microseconds for one transition of all chains."""
    times = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(repeats):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - began)
    return {name: 1e6 * statistics.median(values) / steps for name, values in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chains", type=int, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--repeats", type=int, default=15)
    args = parser.parse_args()
    device = jax.devices()[0]
    print(
        f"{device.device_kind} ({platform.machine()}, {os.cpu_count()} cores), jax {jax.__version__}, "
        f"blackjax {blackjax.__version__}, sahmc {sahmc.__version__}, {time.strftime('%Y-%m-%d')}"
    )
    print(f"mixture (-8, 6), step size {STEP_SIZE}, {LENGTH} leapfrog steps, median of {args.repeats}, seed 0\n")
    print("| chains | blackjax.hmc, us | ours, us | ours / blackjax | step / ours | linear / ours | tempered / ours |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for chains in args.chains:
        steps = max(100, int(4000 / chains**0.5))
        runs = {"blackjax": theirs(chains, steps), **{name: ours(tilt, chains, steps) for name, tilt in TILTS.items()}}
        us = medians(runs, steps, args.repeats)
        own = us["no tilt"]
        ratios = [own / us["blackjax"], *(us[name] / own for name in ("step", "linear", "tempered"))]
        print(
            f"| {chains} | {us['blackjax']:.1f} | {own:.1f} | " + " | ".join(f"{r:.2f}" for r in ratios) + " |",
            flush=True,
        )


if __name__ == "__main__":
    main()
