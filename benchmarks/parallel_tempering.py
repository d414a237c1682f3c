"""Hand-tuned parallel tempering with HMC moves beside `sahmc.sample` with nothing set, at equal gradients.

    python benchmarks/parallel_tempering.py --seeds 5

Parallel tempering has 16 geometric levels and alternates swaps of even and of odd pairs; its top temperature, step size
(scaled with sqrt(T)), scales and trajectory lengths were chosen by hand for each target, the best of those tried. All
chains start in one mode; the first fifth of its sweeps is dropped. Our gradients include the whole warm-up.
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import sahmc
from sahmc.testing import SUITE, Target

LEVELS, REPLICAS = 16, 4
TUNED: dict[str, dict[str, Any]] = {
    "mixture-2": {"t_max": 40.0, "step": 0.9, "length": 4},
    "eight-modes-5": {"t_max": 40.0, "step": 1.0, "length": 2},
    "eight-modes-11": {"t_max": 120.0, "step": 0.85, "length": 2},
    "eight-modes-21": {"t_max": 120.0, "step": 0.7, "length": 2},
    "sensor-network": {"t_max": 40.0, "step": 0.018, "length": 8},
}


@partial(jax.jit, static_argnames=("log_density", "sweeps", "length"))
def temper(key: Any, log_density: Any, start: Any, t_max: Any, step: Any, sweeps: int, length: int) -> Any:
    """Positions (sweep, replica, dim) of the coldest level."""
    beta = t_max ** -jnp.linspace(0.0, 1.0, LEVELS)
    value_and_grad = jax.vmap(jax.vmap(jax.value_and_grad(lambda x: -log_density(x))))
    size = step / jnp.sqrt(beta)[None, :, None]

    def move(key: Any, x: Any) -> Any:
        k_momentum, k_length, k_accept, k_jitter = jax.random.split(key, 4)
        eps = size * jax.random.uniform(k_jitter, (*x.shape[:2], 1), minval=0.7, maxval=1.3)
        momentum = jax.random.normal(k_momentum, x.shape)
        energy, grad = value_and_grad(x)

        def leap(_: Any, carry: Any) -> Any:
            x, p, grad, _ = carry
            p = p - 0.5 * eps * beta[None, :, None] * grad
            x = x + eps * p
            energy, grad = value_and_grad(x)
            return x, p - 0.5 * eps * beta[None, :, None] * grad, grad, energy

        steps = jax.random.randint(k_length, (), 1, length + 1)
        new, p, _, new_energy = jax.lax.fori_loop(0, steps, leap, (x, momentum, grad, energy))
        change = beta * (new_energy - energy) + 0.5 * jnp.sum(p**2 - momentum**2, axis=2)
        accept = jnp.log(jax.random.uniform(k_accept, change.shape)) < -change
        return jnp.where(accept[..., None], new, x), jnp.where(accept, new_energy, energy), steps

    def swap(key: Any, x: Any, energy: Any, parity: Any) -> Any:
        """Level i with i + 1 for i of one parity."""
        gain = (beta[1:] - beta[:-1]) * (energy[:, 1:] - energy[:, :-1])
        now = (jnp.arange(LEVELS - 1) % 2 == parity) & (jnp.log(jax.random.uniform(key, gain.shape)) < gain)
        up = jnp.pad(now, ((0, 0), (0, 1)))
        down = jnp.pad(now, ((0, 0), (1, 0)))
        source = jnp.arange(LEVELS) + up - down
        return jnp.take_along_axis(x, source[..., None], axis=1)

    def sweep(carry: Any, i: Any) -> Any:
        x, spent = carry
        k_move, k_swap = jax.random.split(jax.random.fold_in(key, i))
        x, energy, steps = move(k_move, x)
        x = swap(k_swap, x, energy, i % 2)
        return (x, spent + steps), x[:, 0]

    first = jnp.tile(start, (REPLICAS, LEVELS, 1))
    (_, spent), cold = jax.lax.scan(sweep, (first, 0), jnp.arange(sweeps))
    return cold, spent * REPLICAS * LEVELS


def parallel_tempering(target: Target, settings: dict[str, Any], gradients: int, seed: int) -> tuple[np.ndarray, int]:
    sweeps = int(gradients / (REPLICAS * LEVELS * (1 + settings["length"]) / 2))
    cold, spent = temper(
        jax.random.key(seed),
        target.log_density,
        jnp.asarray(target.start, jnp.float32),
        settings["t_max"],
        settings["step"],
        sweeps,
        settings["length"],
    )
    kept = cold[sweeps // 5 :].reshape(-1, cold.shape[-1])
    return np.asarray(jax.vmap(target.indicators)(kept)).mean(axis=0), int(spent)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--draws", type=int, default=8000)
    parser.add_argument("--tune", type=int, default=4000)
    parser.add_argument("--targets", default=",".join(TUNED))
    args = parser.parse_args()
    print("| target | gradients, million | rmse of masses: sahmc | jumps=False | parallel tempering, by hand | ratio |")
    print("|---|---|---|---|---|---|")
    for name in args.targets.split(","):
        target = SUITE[name]()
        ours, without, theirs, spent = [], [], [], []
        for seed in range(args.seeds):
            for errors, jumps in ((without, False), (ours, True)):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    result = sahmc.sample(
                        target.log_density,
                        jnp.asarray(target.start, jnp.float32),
                        draws=args.draws,
                        tune=args.tune,
                        random_seed=seed,
                        jumps=jumps,
                        progressbar=False,
                    )
                errors.append(result.expectation(target.indicators).mean - target.masses)
            masses, used = parallel_tempering(target, TUNED[name], result.num_gradients, seed)
            theirs.append(masses - target.masses)
            spent += [result.num_gradients, used]
        one, no, two = (float(np.sqrt(np.mean(np.square(x)))) for x in (ours, without, theirs))
        cells = f"{np.mean(spent) / 1e6:.2f} | {one:.4f} | {no:.4f} | {two:.4f} | {two / one:.1f}"
        print(f"| {target.name} | {cells} |", flush=True)
    print(
        f"\nsahmc {sahmc.__version__}, jax {jax.__version__}, {platform.machine()} CPU, seeds 0 to {args.seeds - 1}, ",
        end="",
    )
    print(f"{time.strftime('%Y-%m-%d')}; made by `python benchmarks/parallel_tempering.py`.")


if __name__ == "__main__":
    main()
