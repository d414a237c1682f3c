"""A kernel of your own in one class, held to the contract of a kernel, and then used.

The Barker proposal (Livingstone and Zanella 2022): a random walk whose steps lean downhill.
"""

import argparse
import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

import sahmc
from sahmc.kernels.base import Kernel, checked_step_size, conclude, converted, draw_noise, strategy
from sahmc.testing import check_kernel, mixture


@strategy
class Barker(Kernel):
    """x* = x + z, where z_i ~ N(0, s_i^2) keeps its sign with probability 1 / (1 + exp(z_i dU/dx_i)), else turns round.

    One gradient a move, which chooses the side of a step and not its length: a bad ``step_size`` does little harm. s is
    ``step_size`` times ``scale``; both are found by a pilot run where they are None.
    """

    step_size: Any = converted(checked_step_size, default=None)
    scale: Any = None
    name: ClassVar[str] = "barker"
    uses_gradient: ClassVar[bool] = True
    moves: ClassVar[int] = 10  # for one iteration of sample, which is ten gradients for HMC too

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
        gradient = target.kick(level, jnp.ones((), dtype))  # of what drives moves at this level: beta U, say

        z = jnp.asarray(self.step_size * target.step_scale_at(level) * self.scale, dtype) * noise
        z = jnp.where(uniform[2:] < jax.nn.sigmoid(-z * gradient(state)), z, -z)
        proposal = target.evaluate(state.position + z)

        # -log q up to what both ways share: conclude adds them to the energies, as it would kinetic energies
        there, back = jax.nn.softplus(z * gradient(state)).sum(), jax.nn.softplus(-z * gradient(proposal)).sum()
        return conclude(
            uniform[1], target, level, state, proposal, kinetic=(there, back), n_steps=1, divergence=jnp.inf
        )


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="some of the checks, and a shorter run")
    args = parser.parse_args(argv)
    checks, run = {}, dict(draws=1000, tune=1000)
    if args.quick:
        checks = dict(only=("invariance",), cases=("tempered with prior",), chains=10_000)
        run = dict(draws=300, tune=300)

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
