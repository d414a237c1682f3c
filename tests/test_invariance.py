"""Every kernel with every tilt leaves exp(-base - E - Theta(E)) invariant, and the test sees it when one does not."""

import dataclasses
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sahmc import (
    HMC,
    NUTS,
    DenseMetric,
    DiagonalMetric,
    EnergyPartition,
    LinearTilt,
    Model,
    NoTilt,
    RandomWalk,
    StepTilt,
    TemperatureLadder,
    TemperedTilt,
    TiltedTarget,
)
from sahmc.kernels import Jump, Kernel, jump
from sahmc.modes import fit_modes
from sahmc.testing import check_invariance, grid_sampler

FOUR_SIGMA = 6.3e-5
LOW, HIGH = (-9.0, -9.0), (9.0, 9.0)


def log_likelihood(x):
    """Two unequal wells, curved and correlated."""
    left = -0.5 * ((x[0] + 1.5) ** 2 / 0.5 + (x[1] - 0.5 * x[0]) ** 2)
    right = -0.5 * ((x[0] - 1.5) ** 2 / 0.3 + (x[1] + 0.3 * x[0] ** 2) ** 2 / 0.6)
    return jnp.logaddexp(left, right)


def log_prior(x):
    return -0.5 * jnp.sum(x**2) / 4.0


def log_posterior(x):
    return log_likelihood(x) + log_prior(x)


EDGES = EnergyPartition([0.5, 1.0, 2.0, 3.5])
LADDER = TemperatureLadder([1.0, 0.5, 0.25, 0.15], reference=0.4)
TO_THE_PRIOR = TemperatureLadder([1.0, 0.4, 0.1, 0.0], reference=0.4, prior_share=0.1)
CASES = {
    "none": (log_posterior, NoTilt()),
    "step": (log_posterior, StepTilt(EDGES)),
    "linear": (log_posterior, LinearTilt(EDGES)),
    "tempered": (log_posterior, TemperedTilt(LADDER)),
    "step with prior": (Model(log_likelihood, log_prior), StepTilt(EDGES)),
    "linear with prior": (Model(log_likelihood, log_prior), LinearTilt(EDGES)),
    "tempered with prior": (Model(log_likelihood, log_prior), TemperedTilt(TO_THE_PRIOR)),
}
KERNELS = {
    "hmc fixed": HMC(0.5, 5, metric="unit", jitter=0.0),
    "hmc random, diagonal": HMC(0.5, (1, 6), metric=DiagonalMetric([1.5, 0.7])),
    "hmc random, dense": HMC(0.4, (1, 6), metric=DenseMetric([[1.5, 0.4], [0.4, 0.8]])),
    "random walk": RandomWalk(1.0),
    "nuts": NUTS(0.5, DiagonalMetric([1.5, 0.7])),
}


def frozen_target(case, gradient=True):
    """The case with a random theta, wide enough to matter."""
    model, tilt = CASES[case]
    target = TiltedTarget.build(model, jnp.zeros(2), tilt, gradient)
    rng = np.random.default_rng(zlib.crc32(case.encode()))
    return target.with_theta(jnp.asarray(rng.uniform(-1.2, 1.2, tilt.num_regions), jnp.float32))


@pytest.fixture(scope="module", params=CASES)
def case(request):
    target = frozen_target(request.param)
    return request.param, target, grid_sampler(target, LOW, HIGH)


@pytest.mark.parametrize("name", KERNELS)
def test_exact_invariance(case, name):
    label, target, draw = case
    kernel = KERNELS[name]
    if not kernel.uses_gradient:
        target = frozen_target(label, gradient=False)
    assert check_invariance(kernel, target, draw) > FOUR_SIGMA


@dataclasses.dataclass(frozen=True)
class Broken(Kernel):
    """A kernel that is shown another target than the one it should leave invariant."""

    kernel: object
    instead: object

    def tuned(self, step_size, spread):
        return self

    def refresh(self, rng_key):
        return Broken(self.kernel.refresh(rng_key), self.instead)

    def step(self, rng_key, state, target):
        return self.kernel.step(rng_key, state, self.instead(target))


TILTED = [name for name in CASES if name != "none"]


@pytest.mark.parametrize("label", TILTED)
@pytest.mark.parametrize("name", ["hmc fixed", "random walk"])
def test_a_kernel_that_forgets_the_tilt_is_caught(label, name):
    target = frozen_target(label)
    untilted = TiltedTarget(target.program, NoTilt(), jnp.zeros(1), jnp.ones(1))
    broken = Broken(KERNELS[name], lambda target: untilted)
    assert check_invariance(broken, target, grid_sampler(target, LOW, HIGH)) < FOUR_SIGMA


@pytest.mark.parametrize("label", TILTED)
@pytest.mark.parametrize("name", ["hmc fixed", "random walk"])
def test_a_kernel_with_a_stale_theta_is_caught(label, name):
    target = frozen_target(label)
    stale = target.theta + jnp.linspace(0.0, 0.6, target.theta.shape[0])
    broken = Broken(KERNELS[name], lambda target: target.with_theta(stale))
    assert check_invariance(broken, target, grid_sampler(target, LOW, HIGH)) < FOUR_SIGMA


def rough_picture():
    """Of three modes where there are two: neither means nor covariances are right."""
    rng = np.random.default_rng(0)
    centres = np.array([[-1.5, -0.5], [1.5, -0.7], [0.3, 1.0]])
    draws = np.concatenate([c + rng.normal(size=(500, 2)) @ rng.normal(size=(2, 2)) for c in centres])
    return fit_modes(draws, centres, np.ones(2), np.float32)


@pytest.mark.parametrize("label", CASES)
def test_jumps_are_exact_whatever_the_picture(label, monkeypatch):
    monkeypatch.setattr(jump, "SHARE", 0.8)
    target, modes = frozen_target(label), rough_picture()
    draw = grid_sampler(target, LOW, HIGH)
    kernel = KERNELS["hmc fixed"]
    assert check_invariance(Jump(kernel, modes), target, draw) > FOUR_SIGMA
    skewed = dataclasses.replace(modes, log_det=modes.log_det.at[0].add(1.5))
    assert check_invariance(Jump(kernel, skewed), target, draw) < FOUR_SIGMA
    if label != "none":
        untilted = TiltedTarget(target.program, NoTilt(), jnp.zeros(1), jnp.ones(1))
        assert check_invariance(Broken(Jump(kernel, modes), lambda t: untilted), target, draw) < FOUR_SIGMA


def test_a_linear_tilt_decided_on_the_clipped_energy_is_caught():
    """The trajectory conserves the clipped potential; deciding on that, not on U + Theta(U), would be wrong."""

    class Clipped(LinearTilt):
        def decision(self, theta, energy, level):
            return self.potential(theta, energy, level)

    jax.tree_util.register_pytree_node(Clipped, lambda c: ((c.partition,), None), lambda _, leaves: Clipped(*leaves))
    target = frozen_target("linear").with_theta(jnp.array([0.0, -1.0, -2.5, 0.5]))
    draw = grid_sampler(target, LOW, HIGH)
    kernel = KERNELS["hmc fixed"]
    assert check_invariance(kernel, target, draw) > FOUR_SIGMA
    wrong = Broken(kernel, lambda t: TiltedTarget(t.program, Clipped(EDGES), t.theta, t.step_scale))
    assert check_invariance(wrong, target, draw) < FOUR_SIGMA


def test_the_grid_sampler_is_exact_enough():
    """Against a Gaussian whose law is known."""
    target = TiltedTarget.build(lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(2), NoTilt())
    from scipy import stats

    draws = grid_sampler(target, LOW, HIGH)(40_000, np.random.default_rng(0))
    assert stats.kstest(draws[:, 0], "norm").pvalue > FOUR_SIGMA
    assert stats.kstest((draws**2).sum(1), "chi2", args=(2,)).pvalue > FOUR_SIGMA
