"""Metrics that follow the position."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sahmc import fisher_metric
from sahmc.hamiltonian.riemannian import PointKinetic, softabs

RNG = np.random.default_rng(0)


def symmetric(eigenvalues):
    vectors = np.linalg.qr(RNG.normal(size=(len(eigenvalues),) * 2))[0]
    return vectors @ np.diag(eigenvalues) @ vectors.T


@pytest.mark.parametrize(
    "eigenvalues", [[2.0, -1.0, 0.3], [1.0, 1.0, 1.0], [1.0, -1.0, 1.0], [0.0, 0.0, 1e-4], [300.0, -0.01, 5.0]]
)
def test_softabs_and_its_derivative_also_where_eigenvalues_meet(eigenvalues):
    alpha = 1.7
    with jax.enable_x64(True):
        matrix, change = jnp.asarray(symmetric(eigenvalues)), jnp.asarray(symmetric([1.0, -0.5, 0.2]))
        found = np.linalg.eigvalsh(softabs(matrix, jnp.asarray(alpha)))
        truth = [1 / alpha if abs(x) < 1e-9 else x / np.tanh(alpha * x) for x in eigenvalues]
        assert np.allclose(found, np.sort(truth), rtol=1e-6)
        h = 1e-5
        ends = [softabs(matrix + s * h * change, jnp.asarray(alpha)) for s in (1, -1)]
        slope = jax.jvp(lambda m: softabs(m, jnp.asarray(alpha)), (matrix,), (change,))[1]
        assert np.allclose(slope, (ends[0] - ends[1]) / (2 * h), atol=1e-5)
        pulled = jax.vjp(lambda m: softabs(m, jnp.asarray(alpha)), matrix)[1](change)[0]
        assert np.isfinite(pulled).all() and np.allclose(pulled, slope, atol=1e-8)  # the map is its own transpose


def test_the_kinetic_energy_is_minus_the_log_density_of_the_momentum():
    matrix = symmetric([0.5, 2.0, 3.0])
    kinetic = PointKinetic.of(jnp.asarray(matrix, jnp.float32))
    y = jnp.array([0.3, -1.0, 0.5])
    truth = 0.5 * y @ np.linalg.inv(matrix) @ y + 0.5 * np.linalg.slogdet(matrix)[1]
    assert np.isclose(kinetic.kinetic_energy(y), truth, rtol=1e-5)
    momenta = np.stack([kinetic.momentum(jnp.asarray(e, jnp.float32)) for e in np.eye(3)])
    assert np.allclose(momenta.T @ momenta, matrix, atol=1e-5)
    assert np.allclose(kinetic.velocity(y), np.linalg.solve(matrix, y), atol=1e-5)


def test_the_fisher_metric_of_a_logistic_regression():
    design = jnp.asarray(RNG.normal(size=(40, 3)), jnp.float32)
    metric = fisher_metric(lambda b: 2 * jnp.arcsin(jnp.sqrt(jax.nn.sigmoid(design @ b))), precision=0.25)
    beta = jnp.array([0.5, -1.0, 0.2])
    p = jax.nn.sigmoid(design @ beta)
    truth = design.T @ (design * (p * (1 - p))[:, None]) + 0.25 * np.eye(3)
    assert np.allclose(metric.function(beta), truth, atol=1e-4)
