"""Implicit steps: solved where they say so."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from sahmc import HMC, RMHMC, DenseMetric, GeneralisedLeapfrog, NoTilt, TiltedTarget, fisher_metric
from sahmc._support.pytree import strategy
from sahmc.testing.kernel import FOUR_SIGMA


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
