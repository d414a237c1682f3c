"""Nanoseconds a gradient with 1 to 100 000 chains: our loop, ``blackjax.hmc`` and the floor, in one run.

The floor is the bare gradient in the fastest of some compiled loops, without random numbers, decisions or draws. All
keep their draws on the device. Runs are interleaved and medians printed, because machines are shared and noisy.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

import sahmc
from sahmc.engine.glimpses import no_glimpses
from sahmc.engine.loop import run_chunk
from sahmc.engine.move import NEVER, RunState, Schedule, Setup
from sahmc.engine.round_trips import init_round_trips
from sahmc.engine.step_size import init_step_size
from sahmc.testing import eight_modes, mixture

STEP, LENGTH = 0.05, 20
NODES = sahmc.EnergyPartition.uniform(0, 20, 2)
TILTS = {
    "step": sahmc.StepTilt(NODES),
    "linear": sahmc.LinearTilt(NODES),
    "tempered": sahmc.TemperedTilt(sahmc.TemperatureLadder.geometric(30, 8)),
}


def logistic(rows=500, columns=20):
    """A regression with data, which costs a thousand times the other two."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(rows, columns)), jnp.float32)
    y = jnp.asarray(rng.random(rows) < 0.5, jnp.float32)
    return lambda b: jnp.sum(y * (x @ b) - jnp.logaddexp(0.0, x @ b)) - 0.5 * b @ b, columns


def targets():
    return {
        "mixture, d = 2": (mixture().log_density, 2),
        "eight modes, d = 11": (eight_modes(11).log_density, 11),
        "logistic regression, 500 x 20": logistic(),
    }


def floor(log_density, dim, chains, moves):
    """Bare leapfrog steps, written out or in a loop."""
    force = jax.vmap(jax.grad(log_density))

    def leap(carry, _):
        x, y = carry
        y = y + STEP * force(x)
        return (x + STEP * y, y), None

    def compiled(unroll):
        def trajectory(carry, _):
            return jax.lax.scan(leap, carry, None, length=LENGTH, unroll=unroll)[0], None

        run = jax.jit(lambda x: jax.lax.scan(trajectory, (x, 0 * x), None, length=moves)[0])
        start = jnp.zeros((chains, dim))
        return lambda: jax.block_until_ready(run(start))

    return [compiled(unroll) for unroll in (1, LENGTH)]


def theirs(log_density, dim, chains, moves):
    hmc = blackjax.hmc(log_density, step_size=STEP, inverse_mass_matrix=jnp.ones(dim), num_integration_steps=LENGTH)

    @jax.jit
    def run(key, state):
        def step(state, t):
            keys = jax.random.split(jax.random.fold_in(key, t), chains)
            state, info = jax.vmap(hmc.step)(keys, state)
            return state, (state.position, info.acceptance_rate)

        return jax.lax.scan(step, state, jnp.arange(moves))

    start = jax.vmap(hmc.init)(jnp.zeros((chains, dim)))
    return lambda: jax.block_until_ready(run(jax.random.key(0), start))


def ours(log_density, dim, chains, moves, tilt, length=LENGTH):
    """The loop of ``sample``, with theta frozen."""
    target = sahmc.TiltedTarget.build(log_density, jnp.zeros(dim), tilt)
    kernel = sahmc.HMC(STEP, length, metric="unit", jitter=0.0)
    desired = jnp.full(tilt.num_regions, 1 / tilt.num_regions)
    setup = Setup(target.energy_fn, tilt, kernel, desired, sahmc.Gain(100), 0.8)
    zero, one = jnp.zeros((), jnp.int32), jnp.ones(len(tilt.step_scale))
    start = sahmc.init(target, jnp.zeros((chains, dim)))
    trips, glimpses = init_round_trips(chains), no_glimpses(start.chains.position)
    state = RunState(start, init_step_size(one, eager=False), trips, glimpses, zero, zero)
    schedule, words = Schedule(top=tilt.num_regions - 1), np.asarray(jax.random.key_data(jax.random.key(0)))
    numbers = tuple(map(np.int32, (moves, 0, NEVER)))
    return lambda: jax.block_until_ready(run_chunk(words, state, setup, schedule, *numbers, moves))


def medians(runs, repeats):
    """Seconds of each, by name."""
    times = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(repeats):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chains", type=int, nargs="+", default=[1, 10, 100, 1000, 10_000, 100_000])
    parser.add_argument("--targets", nargs="+", choices=list(targets()), default=list(targets()))
    parser.add_argument("--tilts", nargs="+", choices=list(TILTS), default=["tempered"])
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    device = jax.devices()[0]
    print(
        f"{device.device_kind} ({platform.machine()}, {os.cpu_count()} cores), jax {jax.__version__}, "
        f"blackjax {blackjax.__version__}, sahmc {sahmc.__version__}, {time.strftime('%Y-%m-%d')}"
    )
    print(f"{LENGTH} leapfrog steps a move, but 1 to 4 in the last column; median of {args.repeats}, seed 0\n")
    names = ["floor, ns", "blackjax", "ours, no tilt", "/ floor", "/ blackjax", *args.tilts, "short moves"]
    print(f"| target | chains | {' | '.join(names)} |\n|---|---:|" + "---:|" * len(names))
    for name in args.targets:
        log_density, dim = targets()[name]
        for chains in args.chains:
            moves = int(np.clip(40_000 // (chains * (1 + 20 * ("logistic" in name))), 16, 400))
            problem = log_density, dim, chains, moves
            bare = floor(*problem)
            runs = {
                "floor, a loop": bare[0],
                "floor, written out": bare[1],
                "blackjax": theirs(*problem),
                "ours": ours(*problem, sahmc.NoTilt()),
                **{tilt: ours(*problem, TILTS[tilt]) for tilt in args.tilts},
                "short": ours(*problem, TILTS["tempered"], None),
            }
            seconds = medians(runs, args.repeats)
            ns = {name: 1e9 * s / (moves * chains * LENGTH) for name, s in seconds.items()}
            spent = int(runs["short"]()[3].counts.gradients)
            short, least = 1e9 * seconds["short"] / spent, min(ns["floor, a loop"], ns["floor, written out"])
            cells = [least, ns["blackjax"], ns["ours"], ns["ours"] / least, ns["ours"] / ns["blackjax"]]
            cells += [*(ns[tilt] for tilt in args.tilts), short]
            print(f"| {name} | {chains} | " + " | ".join(f"{cell:.3g}" for cell in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
