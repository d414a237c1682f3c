"""A kernel of your own in one class, held to the contract of a kernel, and then used.

The Barker proposal (Livingstone and Zanella 2022): a random walk whose steps lean downhill.
"""

import argparse
import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

import sahmc
from sahmc.kernels.base import Kernel, conclude, draw_noise, require_step_size
from sahmc.pytree import strategy
from sahmc.testing import check_kernel, mixture


@strategy
class Barker(Kernel):
    """x* = x + z: the size of each z_i is that of N(0, s_i^2), its sign is drawn with odds exp(-z_i dU/dx_i).

    One gradient a move. The gradient only chooses the side, so a step that is too long is turned down, not thrown far
    away. s = ``step_size`` times ``scale``, both found by a pilot run where they are None; it wants target_accept=0.57.
    """

    step_size: Any = None
    scale: Any = None
    name: ClassVar[str] = "barker"
    uses_gradient: ClassVar[bool] = True
    moves: ClassVar[int] = 10  # to an iteration of sample: about the gradients that HMC takes for one

    def __post_init__(self):
        require_step_size(self.step_size)

    @property
    def uses_spread(self):
        return self.scale is None

    def tuned(self, step_size, spread):
        return dataclasses.replace(
            self,
            step_size=step_size if self.step_size is None else self.step_size,
            scale=jnp.sqrt(spread.variance()) if self.scale is None else self.scale,
        )

    def step(self, rng_key, state, target):
        dim, dtype = len(state.position), state.position.dtype
        noise, uniform = draw_noise(rng_key, state.position, 2 + dim)
        level = target.draw_level(uniform[0], state)
        step_size = jnp.asarray(self.step_size * target.step_scale_at(level), dtype)
        slope = target.kick(level, step_size)  # step_size times the gradient of what drives moves at this level

        z = jnp.asarray(self.scale, dtype) * noise
        z = jnp.where(uniform[2:] < jax.nn.sigmoid(-z * slope(state)), z, -z)
        proposal = target.evaluate(state.position + step_size * z)

        # -log of the chances of the signs there and back; that of the sizes is the same and cancels
        there, back = jax.nn.softplus(z * slope(state)).sum(), jax.nn.softplus(-z * slope(proposal)).sum()
        return conclude(
            uniform[1], target, level, state, proposal, kinetic=(there, back), n_steps=1, divergence=jnp.inf
        )


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="the cheapest checks and a shorter run")
    args = parser.parse_args(argv)
    checks, run = {}, dict(draws=1000, tune=1000)
    if args.quick:
        checks, run = dict(only=("keys",)), dict(draws=300, tune=300)

    for check in check_kernel(Barker(), **checks):
        print(check)

    target = mixture(-8, 6)
    result = sahmc.sample(
        target.log_density, jnp.zeros(2), kernel=Barker(), target_accept=0.57, random_seed=args.seed, **run
    )
    mass, mcse = result.expectation(target.indicators)
    print(result)
    print("masses of the three modes", mass.round(3), "+-", mcse.round(3), "(exactly 1/3 each)")
    return mass, mcse


if __name__ == "__main__":
    main()
