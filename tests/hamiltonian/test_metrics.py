"""Metrics: momenta, velocities, and what is estimated from draws."""

import jax.numpy as jnp
import numpy as np
import pytest

from sahmc import (
    DenseMetric,
    DiagonalMetric,
    LowRankMetric,
    UnitMetric,
)
from sahmc.hamiltonian.spread import Spread

MATRIX = np.array([[2.0, 0.6], [0.6, 0.5]])


LOW_RANK = LowRankMetric([1.1, 0.7], [[0.6], [0.8]], [1.8])


METRICS = [UnitMetric(), DiagonalMetric(np.array([2.0, 0.5])), DenseMetric(MATRIX), LOW_RANK]


INVERSE_MASS = {
    "unit": np.eye(2),
    "diagonal": np.diag([2.0, 0.5]),
    "dense": MATRIX,
    "low_rank": np.diag([1.1, 0.7]) @ (np.eye(2) + 0.8 * np.outer([0.6, 0.8], [0.6, 0.8])) @ np.diag([1.1, 0.7]),
}


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.name)
def test_momentum_has_covariance_m_and_velocity_is_inverse_mass_times_momentum(metric):
    momentum = np.stack([metric.momentum(jnp.asarray(row, jnp.float32)) for row in np.eye(2)])
    assert np.allclose(momentum.T @ momentum, np.linalg.inv(INVERSE_MASS[metric.name]), atol=1e-5)
    y = jnp.array([0.3, -1.2])
    assert np.allclose(metric.velocity(y), INVERSE_MASS[metric.name] @ y, atol=1e-6)
    assert np.isclose(metric.kinetic_energy(y), 0.5 * y @ INVERSE_MASS[metric.name] @ y, atol=1e-6)


@pytest.mark.parametrize(
    "matrix",
    [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.3], [0.0, 1.0]], [1.0, 1.0], [[1.0, np.nan], [np.nan, 1.0]], np.zeros((2, 2))],
)
def test_a_dense_metric_must_be_positive_definite(matrix):
    with pytest.raises(ValueError, match="symmetric positive definite"):
        DenseMetric(matrix)


def test_a_dense_metric_may_be_in_any_units():
    """Its own smallest eigenvalue is lost in rounding, and may come out below 0."""
    units = np.array([1e12, 1e-6, 1.0, 1e10, 1e-3, 1e11, 1e9, 1e-5])
    correlated = (np.full((8, 8), 0.5) + 0.5 * np.eye(8)) * units * units[:, None]
    assert DenseMetric(correlated).inverse_mass.shape == (8, 8)
    opposed = correlated.copy()
    opposed[:2, :2] *= [[1, -4], [-4, 1]]
    with pytest.raises(ValueError, match="symmetric positive definite"):
        DenseMetric(opposed)


def test_a_diagonal_metric_must_be_positive():
    with pytest.raises(ValueError, match="positive variances"):
        DiagonalMetric([1.0, 0.0])


def planted(dim, spread, num=200, chains=8, seed=0):
    """Draws (draw, chain, dim), correlated along one direction, in coordinates of different scale."""
    rng = np.random.default_rng(seed)
    direction = np.ones(dim) / np.sqrt(dim)
    scale = np.geomspace(0.1, 10, dim)
    noise = rng.normal(size=(num, chains, dim)) + (spread - 1) * rng.normal(size=(num, chains, 1)) * direction
    return scale * noise + 100 * rng.normal(size=(chains, dim))


def test_the_low_rank_metric_finds_the_direction_that_stands_out():
    draws = planted(40, spread=20.0)
    metric = LowRankMetric.fit(Spread.of(draws))
    standing = np.asarray(metric.values) != 1
    assert standing.sum() == 1
    truth = np.cov((draws - draws.mean(axis=0)).reshape(-1, 40).T)
    kinds = {kind: kind.fit(Spread.of(draws)) for kind in (LowRankMetric, DiagonalMetric)}
    condition = {}
    for kind, fitted in kinds.items():
        velocity = np.stack([fitted.velocity(jnp.asarray(e, jnp.float32)) for e in np.eye(40)])
        ratio = np.linalg.eigvals(np.linalg.solve(truth, velocity)).real
        condition[kind] = ratio.max() / ratio.min()
    assert condition[LowRankMetric] < 5
    assert condition[DiagonalMetric] > 50


def test_the_low_rank_metric_of_independent_coordinates_is_diagonal():
    assert (LowRankMetric.fit(Spread.of(planted(40, spread=1.0))).values == 1).all()


def test_without_draws_every_metric_is_the_unit_metric():
    y = jnp.array([0.3, -1.2, 2.0])
    for kind in (UnitMetric, DiagonalMetric, DenseMetric, LowRankMetric):
        assert np.allclose(kind.fit(Spread.unknown(3)).velocity(y), y)


@pytest.mark.parametrize(
    "parts",
    [
        ([1.0, 1.0], [[1.0], [1.0]], [2.0]),
        ([1.0, -1.0], [[1.0], [0.0]], [2.0]),
        ([1.0, 1.0], [[1.0], [0.0]], [0.0]),
        ([1.0, 1.0], [1.0, 0.0], [2.0]),
    ],
)
def test_a_low_rank_metric_must_make_sense(parts):
    with pytest.raises(ValueError, match="low-rank metric"):
        LowRankMetric(*parts)
