"""The invariance test sees what is not invariant; jumps are."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sahmc import HMC, NUTS, LinearTilt, Model, NoTilt, RandomWalk, TemperedTilt, TiltedTarget
from sahmc._support.pytree import strategy, updated
from sahmc.hamiltonian.metrics import DiagonalMetric, LadderMetric
from sahmc.hamiltonian.spread import Spread
from sahmc.kernels import jump
from sahmc.kernels.base import Kernel
from sahmc.kernels.jump import Jump
from sahmc.models.energy import trace_energy
from sahmc.modes.modes import fit_modes
from sahmc.modes.parts import Parts
from sahmc.modes.reference import refer
from sahmc.modes.shifts import Shifts
from sahmc.testing import check_invariance, grid_sampler
from sahmc.testing.cases import CASES, EDGES, HIGH, LOW, TO_THE_PRIOR, frozen_target, log_posterior
from sahmc.testing.kernel import FOUR_SIGMA

KERNELS = {"hmc": HMC(0.5, 5, metric="unit", jitter=0.0), "random walk": RandomWalk(1.0)}


def p_value(kernel, target, draw):
    return check_invariance(kernel, target, draw)[0]


@dataclasses.dataclass(frozen=True)
class Broken(Kernel):
    """A kernel that is shown another target than the one it should leave invariant."""

    kernel: object
    instead: object

    def tuned(self, step_size, spread):
        return self

    @property
    def shared(self):
        return self.kernel.shared

    def refresh(self, uniforms):
        return Broken(self.kernel.refresh(uniforms), self.instead)

    def step(self, rng_key, state, target):
        return self.kernel.step(rng_key, state, self.instead(target))


TILTED = [name for name in CASES if name != "none"]


@pytest.mark.parametrize(
    ("label", "name"), [*((label, "hmc") for label in TILTED), ("step", "random walk"), ("tempered", "random walk")]
)
def test_a_kernel_with_a_stale_theta_is_caught(label, name):
    target = frozen_target(label)
    stale = target.theta + jnp.linspace(0.0, 0.6, target.theta.shape[0])
    broken = Broken(KERNELS[name], lambda target: target.with_theta(stale))
    assert p_value(broken, target, grid_sampler(target, LOW, HIGH)) < FOUR_SIGMA


@pytest.mark.parametrize("kernel", [HMC(0.5, 5, metric="diagonal", jitter=0.0), NUTS(0.5, max_tree_depth=4)])
def test_a_metric_for_every_level_is_exact_if_the_level_is_that_of_the_move(kernel):
    target = frozen_target("tempered with prior")
    draw = grid_sampler(target, LOW, HIGH)
    variances = np.geomspace(0.2, 3.0, len(target.theta))[:, None] * np.array([1.0, 2.0])
    kernel = kernel.tuned(0.5, Spread.unknown(2)).with_variances(variances)
    assert isinstance(kernel.metric, LadderMetric)
    assert p_value(kernel, target, draw) > FOUR_SIGMA
    astray = updated(kernel, metric=Astray(kernel.metric.inverse_mass))
    assert p_value(astray, target, draw) < FOUR_SIGMA


@strategy
class AstrayLevel(DiagonalMetric):
    momentum_mass: object = None

    def momentum(self, noise):
        return noise / jnp.sqrt(self.momentum_mass)


@strategy
class Astray(LadderMetric):
    """A metric whose momenta are drawn as those of the next level."""

    def at_level(self, level):
        here, there = self.inverse_mass[level], self.inverse_mass[(level + 1) % len(self.inverse_mass)]
        return updated(AstrayLevel([1.0]), inverse_mass=here, momentum_mass=there)


def rough_picture():
    """Of three modes where there are two: neither means nor covariances are right."""
    rng = np.random.default_rng(0)
    centres = np.array([[-1.5, -0.5], [1.5, -0.7], [0.3, 1.0]])
    draws = np.concatenate([c + rng.normal(size=(500, 2)) @ rng.normal(size=(2, 2)) for c in centres])
    return fit_modes(draws, centres, np.ones(2), np.float32)


@pytest.mark.parametrize("label", ["step", "linear", "tempered with prior"])
def test_jumps_are_exact_whatever_the_picture(label, monkeypatch):
    monkeypatch.setattr(jump, "JUMP_SHARE", 0.8)
    target, modes = frozen_target(label), rough_picture()
    draw = grid_sampler(target, LOW, HIGH)
    kernel = KERNELS["hmc"]
    assert p_value(Jump(kernel, modes), target, draw) > FOUR_SIGMA
    skewed = dataclasses.replace(modes, log_det=modes.log_det.at[0].add(1.5))
    assert p_value(Jump(kernel, skewed), target, draw) < FOUR_SIGMA
    if label != "none":
        untilted = TiltedTarget(target.energy_fn, NoTilt(), jnp.zeros(1), jnp.ones(1))
        assert p_value(Broken(Jump(kernel, modes), lambda t: untilted), target, draw) < FOUR_SIGMA


def referred_target(reference):
    """The target whose ladder ends in a reference."""
    whole = trace_energy(Model(log_density=log_posterior), lambda flat: flat, jnp.zeros(2), True)
    tilt = TemperedTilt(TO_THE_PRIOR)
    return TiltedTarget(refer(whole, reference), tilt, jnp.array([0.3, -0.5, 0.4, -0.2]), tilt.step_scale)


def test_draws_of_the_reference_are_exact_however_bad_it_is(monkeypatch):
    """q knows three modes where there are two, and the ladder ends in it; draws of another q are caught."""
    monkeypatch.setattr(jump, "JUMP_SHARE", 0.8)
    modes = rough_picture()
    reference = Parts.of(modes).weighed(np.ones(3), "f4")
    target = referred_target(reference)
    draw = grid_sampler(target, LOW, HIGH)
    kernel = KERNELS["hmc"]
    assert p_value(Jump(kernel, modes, reference), target, draw) > FOUR_SIGMA
    other = dataclasses.replace(reference, mean=reference.mean + 1.0)
    assert p_value(Jump(kernel, modes, other), target, draw) < FOUR_SIGMA


@strategy
class OneWay(Shifts):
    """Displacements that are proposed forwards alone."""

    def draw(self, uniform):
        return self.vector[0]


def test_shifts_are_exact_wherever_they_lead(monkeypatch):
    monkeypatch.setattr(jump, "SHIFT_SHARE", 0.8)
    modes = rough_picture()
    reference = Parts.of(modes).weighed(np.ones(3), "f4")
    target = referred_target(reference)
    draw = grid_sampler(target, LOW, HIGH)
    vector = jnp.array([[2.1, 0.3], [0.4, -1.0]])
    assert p_value(Jump(KERNELS["hmc"], modes, reference, shifts=Shifts(vector)), target, draw) > FOUR_SIGMA
    assert p_value(Jump(KERNELS["hmc"], modes, reference, shifts=OneWay(vector)), target, draw) < FOUR_SIGMA


def test_a_linear_tilt_decided_on_the_clipped_energy_is_caught():
    """The trajectory conserves the clipped potential; deciding on that, not on U + Theta(U), would be wrong."""

    class Clipped(LinearTilt):
        def decision(self, theta, energy, level):
            return self.potential(theta, energy, level)

    jax.tree_util.register_pytree_node(Clipped, lambda c: ((c.partition,), None), lambda _, leaves: Clipped(*leaves))
    target = frozen_target("linear").with_theta(jnp.array([0.0, -1.0, -2.5, 0.5]))
    draw = grid_sampler(target, LOW, HIGH)
    kernel = KERNELS["hmc"]
    assert p_value(kernel, target, draw) > FOUR_SIGMA
    wrong = Broken(kernel, lambda t: TiltedTarget(t.energy_fn, Clipped(EDGES), t.theta, t.step_scale))
    assert p_value(wrong, target, draw) < FOUR_SIGMA


def test_the_grid_sampler_is_exact_enough():
    """Against a Gaussian whose law is known."""
    target = TiltedTarget.build(lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(2), NoTilt())
    from scipy import stats

    draws = grid_sampler(target, LOW, HIGH)(40_000, np.random.default_rng(0))
    assert stats.kstest(draws[:, 0], "norm").pvalue > FOUR_SIGMA
    assert stats.kstest((draws**2).sum(1), "chi2", args=(2,)).pvalue > FOUR_SIGMA
