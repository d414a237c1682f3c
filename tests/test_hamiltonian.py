import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sahmc import (
    DenseMetric,
    DiagonalMetric,
    EnergyPartition,
    LinearTilt,
    NoTilt,
    StepTilt,
    TemperatureLadder,
    TemperedTilt,
    TiltedTarget,
    UnitMetric,
)
from sahmc.hamiltonian.integrator import Leapfrog
from sahmc.testing import mixture

MATRIX = np.array([[2.0, 0.6], [0.6, 0.5]])
METRICS = [UnitMetric(), DiagonalMetric(np.array([2.0, 0.5])), DenseMetric(MATRIX)]
PARTITION = EnergyPartition([3.0, 5.0, 8.0])
TILTS = [NoTilt(), StepTilt(PARTITION), LinearTilt(PARTITION), TemperedTilt(TemperatureLadder([1.0, 0.3]))]


def inverse_mass(metric):
    return (
        np.eye(2)
        if isinstance(metric, UnitMetric)
        else np.diag([2.0, 0.5])
        if isinstance(metric, DiagonalMetric)
        else MATRIX
    )


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.name)
def test_momentum_has_covariance_m_and_velocity_is_inverse_mass_times_momentum(metric):
    momentum = np.stack([metric.momentum(jnp.asarray(row, jnp.float32)) for row in np.eye(2)])
    assert np.allclose(momentum.T @ momentum, np.linalg.inv(inverse_mass(metric)), atol=1e-5)
    y = jnp.array([0.3, -1.2])
    assert np.allclose(metric.velocity(y), inverse_mass(metric) @ y, atol=1e-6)
    assert np.isclose(metric.kinetic_energy(y), 0.5 * y @ inverse_mass(metric) @ y, atol=1e-6)


@pytest.mark.parametrize(
    "matrix",
    [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.3], [0.0, 1.0]], [1.0, 1.0], [[1.0, np.nan], [np.nan, 1.0]], np.zeros((2, 2))],
)
def test_a_dense_metric_must_be_positive_definite(matrix):
    with pytest.raises(ValueError, match="symmetric positive definite"):
        DenseMetric(matrix)


def test_a_diagonal_metric_must_be_positive():
    with pytest.raises(ValueError, match="positive variances"):
        DiagonalMetric([1.0, 0.0])


@pytest.fixture(params=[(t, m) for t in TILTS for m in METRICS], ids=lambda p: f"{p[0].name}-{p[1].name}")
def flow(request):
    """The leapfrog map on (position, momentum), in float64, and the energy it should conserve.

    A target of its own: JAX may keep the constants of a function in the size it first saw them in.
    """
    tilt, metric = request.param
    set1 = mixture(-6.0, 4.0)
    with jax.enable_x64(True):
        target = TiltedTarget.build(set1.log_density, jnp.zeros(2, jnp.float64), tilt)
        target = target.with_theta(jnp.linspace(0.0, -1.0, tilt.num_regions, dtype=jnp.float64))
        level = jnp.int32(len(tilt.step_scale) - 1)

        def forward(z, eps=0.05, steps=20):
            advance = Leapfrog().flow(target, level, metric, jnp.asarray(eps, z.dtype))
            state, y, _ = advance(target.evaluate(z[:2]), z[2:], steps)
            return jnp.concatenate([state.position, y])

        def energy(z):
            return target.potential(target.evaluate(z[:2]), level) + metric.kinetic_energy(z[2:])

        yield forward, energy


Z = [0.4, -0.3, 0.9, 0.2]


def test_leapfrog_is_reversible(flow):
    forward, _ = flow
    z = jnp.array(Z, jnp.float64)
    flip = jnp.array([1.0, 1.0, -1.0, -1.0])
    assert np.allclose(flip * forward(flip * forward(z)), z, atol=1e-11)


def test_leapfrog_preserves_volume(flow):
    forward, _ = flow
    assert np.isclose(np.linalg.det(jax.jacfwd(forward)(jnp.array(Z, jnp.float64))), 1.0, atol=1e-9)


def test_energy_error_is_second_order(flow):
    forward, energy = flow
    z = jnp.array(Z, jnp.float64)
    errors = [abs(energy(forward(z, eps, round(0.6 / eps))) - energy(z)) for eps in (0.02, 0.01)]
    assert 3.0 < errors[0] / errors[1] < 5.0
