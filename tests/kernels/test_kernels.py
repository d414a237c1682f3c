"""Every kernel of the registry keeps the contract, and the contract sees what is broken."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sahmc import (
    HMC,
    NUTS,
    RMHMC,
    DenseMetric,
    DiagonalMetric,
    GeneralisedLeapfrog,
    LowRankMetric,
    MinimumNorm,
    NoTilt,
    SoftAbs,
    TiltedTarget,
)
from sahmc._support.pytree import strategy
from sahmc.kernels import KERNELS
from sahmc.kernels.base import Kernel
from sahmc.testing import check_invariance, check_kernel, grid_sampler
from sahmc.testing.cases import CASES, HIGH, LOW, frozen_target
from sahmc.testing.kernel import FOUR_SIGMA, SAME_FLOW
from sahmc.tilt import TILTS

OBLIQUE = LowRankMetric([1.2, 0.8], [[0.6], [0.8]], [2.5])


def curved_metric(x):
    return jnp.array([[1.5, 0.3], [0.3, 1.0]]) + jnp.outer(jnp.tanh(x), jnp.tanh(x))


SPECIMENS = {
    "hmc": HMC(0.5, (1, 6)),
    "nuts": NUTS(0.5),
    "random_walk": KERNELS["random_walk"](1.0),
    "rmhmc": RMHMC(0.4, 3, metric=curved_metric),
}


EVERY_TILT = ("none", "step", "linear", "tempered with prior")
SIZES = {
    "hmc": {"cases": EVERY_TILT},
    "nuts": {"chains": 10_000, "cases": EVERY_TILT},
    "rmhmc": {"chains": 10_000, "steps": 2, "cases": ("linear", "tempered with prior")},
}
"""Of kernels whose moves take long to compile; the other cases, with and without a prior, are among the variants."""


def test_every_kernel_of_the_registry_is_checked_and_knows_its_name():
    assert set(SPECIMENS) == set(KERNELS)
    assert {name: KERNELS[name].name for name in KERNELS} == {name: name for name in KERNELS}
    assert {name: TILTS[name].name for name in TILTS} == {name: name for name in TILTS}


@pytest.mark.parametrize("name", SPECIMENS)
def test_the_contract(name):
    checks = check_kernel(SPECIMENS[name], **SIZES.get(name, {}))
    assert all(check.passed for check in checks)
    cases = SIZES.get(name, {}).get("cases", CASES)
    named = {part: [check for check in checks if check.name.startswith(part)] for part in ("invariance", "reversible")}
    assert len(named["invariance"]) == len(cases)
    flows = [case for case in cases if case not in SAME_FLOW] if name != "random_walk" else []
    assert len(named["reversible"]) == len(flows)


def test_a_random_walk_takes_a_scale_for_each_coordinate():
    kernel = KERNELS["random_walk"](0.5, [1.0, 2.0])
    assert all(check.passed for check in check_kernel(kernel, only=("invariance", "dtypes"), cases=("step",)))


@strategy
class Forgetful(HMC):
    """Moves and decides as if there were no tilt."""

    def step(self, rng_key, state, target):
        untilted = TiltedTarget(target.energy_fn, NoTilt(), jnp.zeros(1, target.theta.dtype), target.step_scale[:1])
        return super().step(rng_key, state, untilted)


@strategy
class Pushed(LowRankMetric):
    """Draws momenta that are too large, and a little to one side."""

    def momentum(self, noise):
        return 1.1 * super().momentum(noise) + 0.1


@strategy
class Hasty(GeneralisedLeapfrog):
    """Takes one iteration of an implicit equation for its solution."""

    max_iterations: int = 1

    def flow(self, *args):
        advance = super().flow(*args)
        return lambda *start: (*advance(*start)[:2], jnp.ones((), bool))


BUGS = {
    "the tilt forgotten": (Forgetful(0.5, 5), ("invariance",), "invariance, step"),
    "a biased momentum": (HMC(0.5, 5, metric=Pushed([1.2, 0.8], [[0.6], [0.8]], [2.5])), ("invariance",), "invariance"),
    "an unconverged step": (RMHMC(0.4, 3, metric=curved_metric, integrator=Hasty()), ("flow",), "reversible"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_caught(bug):
    kernel, only, caught = BUGS[bug]
    with pytest.raises(AssertionError, match=f"FAILED  {caught}"):
        check_kernel(kernel, only=only, cases=("none", "step"), steps=3)


@strategy
class Still(Kernel):
    """Leaves everything invariant, by doing nothing."""

    kernel: Kernel
    step_size: float = 1.0
    name = "still"
    uses_gradient = True

    def tuned(self, step_size, spread):
        return self

    def step(self, rng_key, state, target):
        return state, self.kernel.step(rng_key, state, target)[1]


@strategy
class Deaf(Still):
    """Uses the same random numbers in every chain."""

    def step(self, rng_key, state, target):
        return self.kernel.step(jax.random.key(0), state, target)


@strategy
class Widening(Still):
    """Returns a position of another type."""

    def step(self, rng_key, state, target):
        state, info = self.kernel.step(rng_key, state, target)
        return state._replace(energy=state.energy.astype(jnp.float16)), info


class Retracing(Still):
    """Never looks the same to the compiler."""


jax.tree_util.register_pytree_node(
    Retracing, lambda k: ((k.kernel, k.step_size), object()), lambda _, leaves: Retracing(*leaves)
)


@pytest.mark.parametrize(
    "kernel, only, caught",
    [
        (Still(HMC(0.5, 5, metric="unit")), ("keys",), "other keys"),
        (Deaf(HMC(0.5, 5, metric="unit")), ("keys",), "other keys"),
        (Widening(HMC(0.5, 5, metric="unit")), ("dtypes",), "dtypes"),
        (Retracing(HMC(0.5, 5, metric="unit")), ("traces",), "traces"),
    ],
    ids=["still", "deaf", "widening", "retracing"],
)
def test_other_faults_are_caught(kernel, only, caught):
    with pytest.raises(AssertionError, match=f"FAILED  {caught}"):
        check_kernel(kernel, only=only)


def test_a_kernel_that_forgets_to_reject_is_caught_at_energies_that_are_not_numbers():
    class Reckless(HMC):
        def step(self, rng_key, state, target):
            noise = jax.random.normal(rng_key, state.position.shape)
            return target.evaluate(state.position + noise), super().step(rng_key, state, target)[1]

    with pytest.raises(AssertionError, match="FAILED  energies, not a number"):
        check_kernel(strategy(Reckless)(0.5, 5), only=("energies",))


def test_the_parts_to_check_must_be_known():
    with pytest.raises(ValueError, match="only must be one of"):
        check_kernel(HMC(0.5, 5), only=("beauty",))
    for given in ({"only": np.zeros(2)}, {"cases": jax.random.key(0)}):
        with pytest.raises(ValueError, match="must be a list of names"):
            inspect.unwrap(check_kernel)(HMC(0.5, 5), **given)


VARIANTS = {
    "hmc, dense": ("step", HMC(0.4, (1, 6), metric=DenseMetric([[1.5, 0.4], [0.4, 0.8]]))),
    "hmc, diagonal": ("step with prior", HMC(0.5, (1, 6), metric=DiagonalMetric([1.5, 0.8]))),
    "hmc, low rank": ("linear with prior", HMC(0.5, (1, 6), metric=OBLIQUE)),
    "hmc, minimum norm": ("tempered", HMC(0.9, 3, integrator=MinimumNorm(), metric="unit")),
    "nuts, low rank, minimum norm": ("step", NUTS(0.8, metric=OBLIQUE, integrator="minimum_norm")),
    "nuts, shallow": ("linear with prior", NUTS(0.2, metric="unit", max_tree_depth=2)),
    "rmhmc, softabs": ("step", RMHMC(0.4, 2, metric=SoftAbs(2.0))),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_variants_are_invariant(name):
    case, kernel = VARIANTS[name]
    target = frozen_target(case)
    chains = 5000 if "softabs" in name else 20_000
    p_value, moved = check_invariance(kernel, target, grid_sampler(target, LOW, HIGH), chains=chains, steps=4)
    assert p_value > FOUR_SIGMA and moved > 0.5
