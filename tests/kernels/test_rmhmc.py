"""Metrics that follow the position, the implicit leapfrog, and RMHMC."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from sahmc import HMC, RMHMC, DenseMetric, GeneralisedLeapfrog, NoTilt, SoftAbs, TiltedTarget, fisher_metric, sample
from sahmc._support.pytree import strategy
from sahmc.hamiltonian.riemannian import PointKinetic, softabs
from sahmc.testing import mixture
from sahmc.testing.kernel import FOUR_SIGMA

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


def test_a_metric_that_does_not_move_is_the_dense_metric():
    """Move for move: the same noise makes other momenta of the same law, so with a diagonal matrix."""
    matrix = jnp.diag(jnp.array([2.0, 0.5]))
    target = TiltedTarget.build(lambda x: -0.5 * jnp.sum(x**2) - 0.1 * jnp.sum(x**4), jnp.zeros(2), NoTilt())
    state, key = target.evaluate(jnp.array([0.3, -0.8])), jax.random.key(5)
    curved = RMHMC(0.3, 5, metric=lambda x: matrix + 0.0 * jnp.outer(x, x), jitter=0.0)
    plain = HMC(0.3, 5, metric=DenseMetric(np.linalg.inv(matrix)), jitter=0.0)
    (a, info), (b, _) = (kernel.step(key, state, target) for kernel in (curved, plain))
    assert np.allclose(a.position, b.position, atol=1e-4) and not info.failed
    assert not np.allclose(a.position, state.position)


@strategy
class Hasty(GeneralisedLeapfrog):
    def flow(self, *args):
        advance = super().flow(*args)
        return lambda *start: (*advance(*start)[:2], jnp.ones((), bool))


def banana(x):
    return -0.5 * (x[0] / 10) ** 2 - 0.5 * (x[1] - 0.03 * (x[0] ** 2 - 100)) ** 2


def test_solutions_are_exact_enough_where_iterations_converge_slowly():
    """What the solver leaves over would drift the narrow direction of a banana, as it does for a solver that stops
    after three iterations and says it is done.
    """
    residuals = fisher_metric(lambda x: jnp.stack([x[0] / 10, x[1] - 0.03 * (x[0] ** 2 - 100)]))
    target = TiltedTarget.build(banana, jnp.zeros(2), NoTilt())

    def draw(size, rng):
        along = rng.normal(0, 10, size)
        return np.stack([along, rng.normal(size=size) + 0.03 * (along**2 - 100)], axis=1)

    def across(integrator):
        kernel = RMHMC(0.15, 1, metric=residuals, integrator=integrator)
        start = jnp.asarray(draw(6000, np.random.default_rng(0)), jnp.float32)

        @jax.jit
        def go(key, x):
            def step(state, key):
                return kernel.step(key, state, target)[0], None

            return jax.lax.scan(step, target.evaluate(x), jax.random.split(key, 15))[0].position

        x = np.asarray(jax.vmap(go)(jax.random.split(jax.random.key(1), len(start)), start), float)
        return stats.kstest(x[:, 1] - 0.03 * (x[:, 0] ** 2 - 100), "norm").pvalue

    assert across(GeneralisedLeapfrog()) > FOUR_SIGMA
    assert across(Hasty(max_iterations=3)) < FOUR_SIGMA


def test_steps_too_long_to_be_solved_are_counted_rejections():
    target = TiltedTarget.build(lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(2), NoTilt())
    kernel = RMHMC(4.0, 2, metric=lambda x: jnp.diag(1.0 + 30 * x**2), jitter=0.0)
    states, info = jax.vmap(kernel.step, (0, None, None))(
        jax.random.split(jax.random.key(0), 200), target.evaluate(jnp.array([0.5, 0.5])), target
    )
    assert info.failed.mean() > 0.2
    assert not (info.failed & info.is_accepted).any() and not (info.failed & info.diverging).any()
    assert (states.position[info.failed] == 0.5).all() and (info.mechanical_acceptance[info.failed] == 0).all()


@pytest.mark.slow
def test_all_modes_from_one():
    target = mixture(-8.0, 6.0)
    result = sample(target.log_density, target.start, kernel="rmhmc", draws=300, tune=500, random_seed=0)
    assert target.worst_z(result) < 4
    assert (result.expectation(target.indicators).mean > 0.2).all()
    assert 0 < result.num_failed < 0.2 * result.num_trajectories


def test_a_metric_function_is_given_the_users_structure():
    def log_density(p):
        return -0.5 * p["a"] ** 2 - 0.5 * jnp.sum(p["b"] ** 2) / 4

    def metric_fn(p):
        return jnp.diag(jnp.concatenate([jnp.ones(1) + p["a"] ** 2 / 10, jnp.full(2, 0.25)]))

    start = {"a": jnp.zeros(()), "b": jnp.zeros(2)}
    kernel = RMHMC(metric=metric_fn)
    result = sample(log_density, start, kernel=kernel, tilt="none", draws=200, tune=100, random_seed=0)
    spread = result.expectation(lambda p: p["b"] ** 2)
    assert (np.abs(spread.mean - 4) < 4 * spread.mcse).all()


@pytest.mark.parametrize(
    "metric", [lambda x: -jnp.eye(2), lambda x: jnp.ones(2), lambda x: jnp.full((2, 2), jnp.nan), lambda x: jnp.eye(3)]
)
def test_a_metric_that_is_none_is_refused_before_anything_compiles(metric):
    with pytest.raises(ValueError, match=r"symmetric positive definite matrix of shape \(2, 2\)"):
        sample(lambda x: -jnp.sum(x**2), jnp.zeros(2), kernel=RMHMC(metric=metric))


@pytest.mark.parametrize(
    "make, match",
    [
        (lambda: RMHMC(metric="diagonal"), "metric must be a function"),
        (lambda: RMHMC(integrator="leapfrog"), "GeneralisedLeapfrog"),
        (lambda: SoftAbs(-1.0), "alpha"),
        (lambda: GeneralisedLeapfrog(tolerance=2.0), "tolerance"),
        (lambda: GeneralisedLeapfrog(max_iterations=0), "max_iterations"),
        (lambda: fisher_metric(3), "residuals"),
    ],
)
def test_bad_parts_are_refused(make, match):
    with pytest.raises(ValueError, match=match):
        make()
