"""Integrators: reversible, volume preserving, of second order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sahmc import (
    DenseMetric,
    DiagonalMetric,
    EnergyPartition,
    Leapfrog,
    LinearTilt,
    LowRankMetric,
    MinimumNorm,
    NoTilt,
    StepTilt,
    TemperatureLadder,
    TemperedTilt,
    TiltedTarget,
    UnitMetric,
)
from sahmc.testing import mixture

MATRIX = np.array([[2.0, 0.6], [0.6, 0.5]])


LOW_RANK = LowRankMetric([1.1, 0.7], [[0.6], [0.8]], [1.8])


METRICS = [UnitMetric(), DiagonalMetric(np.array([2.0, 0.5])), DenseMetric(MATRIX), LOW_RANK]


PARTITION = EnergyPartition([3.0, 5.0, 8.0])


TILTS = [NoTilt(), StepTilt(PARTITION), LinearTilt(PARTITION), TemperedTilt(TemperatureLadder([1.0, 0.3]))]


FLOWS = [
    *((tilt, METRICS[1], Leapfrog()) for tilt in TILTS),
    *((TILTS[-1], metric, Leapfrog()) for metric in METRICS if metric is not METRICS[1]),
    *((tilt, METRICS[1], MinimumNorm()) for tilt in TILTS[-2:]),
]
"""Every tilt, and every metric: kicks know nothing of the metric, nor drifts of the tilt."""


@pytest.fixture(params=FLOWS, ids=lambda p: "-".join(part.name for part in p))
def flow(request):
    """The map of an integrator on (position, momentum), in float64, and the energy it should conserve.

    A target of its own: JAX may keep the constants of a function in the size it first saw them in.
    """
    tilt, metric, integrator = request.param
    set1 = mixture(-6.0, 4.0)
    with jax.enable_x64(True):
        target = TiltedTarget.build(set1.log_density, jnp.zeros(2, jnp.float64), tilt)
        target = target.with_theta(jnp.linspace(0.0, -1.0, tilt.num_regions, dtype=jnp.float64))
        level = jnp.int32(len(tilt.step_scale) - 1)

        def forward(z, eps=0.05, steps=20):
            advance = integrator.flow(target, level, metric, jnp.asarray(eps, z.dtype))
            state, y, _ = advance(target.evaluate(z[:2]), z[2:], steps)
            return jnp.concatenate([state.position, y])

        def energy(z):
            return target.potential(target.evaluate(z[:2]), level) + metric.kinetic_energy(z[2:])

        yield forward, energy


Z = [0.4, -0.3, 0.9, 0.2]


def test_integrators_are_reversible(flow):
    forward, _ = flow
    z = jnp.array(Z, jnp.float64)
    flip = jnp.array([1.0, 1.0, -1.0, -1.0])
    assert np.allclose(flip * forward(flip * forward(z)), z, atol=1e-11)


def test_integrators_preserve_volume(flow):
    forward, _ = flow
    assert np.isclose(np.linalg.det(jax.jacfwd(forward)(jnp.array(Z, jnp.float64))), 1.0, atol=1e-9)


def test_energy_error_is_second_order(flow):
    forward, energy = flow
    z = jnp.array(Z, jnp.float64)
    errors = [abs(energy(forward(z, eps, round(0.6 / eps))) - energy(z)) for eps in (0.02, 0.01)]
    assert 3.0 < errors[0] / errors[1] < 5.0


def test_a_minimum_norm_step_is_worth_more_than_two_of_leapfrog():
    """At the same number of gradients its energy error on an oscillator is several times smaller."""
    target = TiltedTarget.build(lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(2), NoTilt())

    def error(integrator, step_size, steps):
        advance = integrator.flow(target, jnp.int32(0), UnitMetric(), jnp.float32(step_size))
        worst = 0.0
        for n in range(1, steps + 1):
            state, y, _ = advance(target.evaluate(jnp.array([1.0, 0.5])), jnp.array([0.3, -0.8]), n)
            worst = max(worst, abs(float(state.energy + 0.5 * y @ y) - (0.625 + 0.365)))
        return worst

    assert error(MinimumNorm(), 0.6, 10) < 0.5 * error(Leapfrog(), 0.3, 20)
