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
from sahmc.hamiltonian.spread import Spread
from sahmc.testing import mixture

MATRIX = np.array([[2.0, 0.6], [0.6, 0.5]])
LOW_RANK = LowRankMetric([1.1, 0.7], [[0.6], [0.8]], [1.8])
METRICS = [UnitMetric(), DiagonalMetric(np.array([2.0, 0.5])), DenseMetric(MATRIX), LOW_RANK]
PARTITION = EnergyPartition([3.0, 5.0, 8.0])
TILTS = [NoTilt(), StepTilt(PARTITION), LinearTilt(PARTITION), TemperedTilt(TemperatureLadder([1.0, 0.3]))]


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


def test_a_diagonal_metric_must_be_positive():
    with pytest.raises(ValueError, match="positive variances"):
        DiagonalMetric([1.0, 0.0])


FLOWS = [(t, m, Leapfrog()) for t in TILTS for m in METRICS] + [(t, METRICS[1], MinimumNorm()) for t in TILTS]


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
