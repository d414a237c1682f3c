"""The reference is normalised, its draws are its own, and the energy is split without a remainder."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from sahmc.models.energy import trace_energy
from sahmc.models.evaluation import energies
from sahmc.models.model import Model
from sahmc.modes.modes import fit_modes
from sahmc.modes.parts import Parts
from sahmc.modes.reference import around_all, mixture_of, refer


def picture(dim=2, num=3):
    rng = np.random.default_rng(0)
    centres = 6.0 * rng.normal(size=(num, dim))
    draws = np.concatenate([c + rng.normal(size=(500, dim)) @ rng.normal(size=(dim, dim)) for c in centres])
    return fit_modes(draws, centres, np.ones(dim), np.float32), draws


@pytest.fixture(params=["modes", "all"])
def reference(request):
    modes, draws = picture()
    return (
        Parts.of(modes).weighed(np.array([0.7, 0.3, 1e-9]), "f4")
        if request.param == "modes"
        else around_all(draws, 1.5, "f4")
    )


def test_it_is_normalised_and_draws_are_its_own(reference):
    axis = np.linspace(-60, 60, 1501)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    density = np.exp(-np.asarray(jax.jit(jax.vmap(reference.energy))(jnp.asarray(grid, jnp.float32)), float))
    cell = (axis[1] - axis[0]) ** 2
    assert abs(density.sum() * cell - 1) < 1e-3
    near = np.flatnonzero(density > 1e-12)[::97]
    assert np.allclose(reference.energies(grid[near]), -np.log(density[near]), rtol=1e-3, atol=1e-3)
    marginal = np.cumsum(density.reshape(1501, 1501).sum(axis=1) * cell)
    rng = np.random.default_rng(1)
    uniform, noise = jnp.asarray(rng.random(4000), jnp.float32), jnp.asarray(rng.normal(size=(4000, 2)), jnp.float32)
    for draws in (np.asarray(jax.vmap(reference.draw)(uniform, noise)), reference.draws(4000, seed=0)):
        assert stats.kstest(draws[:, 0], lambda x: np.interp(x, axis, marginal)).pvalue > 6e-5
        assert stats.kstest(draws[:, 0] + 0.6, lambda x: np.interp(x, axis, marginal)).pvalue < 6e-5


def test_heavy_parts_are_a_t_with_two_degrees_of_freedom():
    factor, mean = np.array([[2.0, 0.0], [1.0, 0.5]]), np.array([3.0, -1.0])
    q = mixture_of(np.ones(2), np.stack([mean, mean]), np.stack([factor, factor]), np.float32, np.ones(2, bool))
    t = stats.multivariate_t(mean, factor @ factor.T, df=2)
    points = np.concatenate([t.rvs(50, random_state=0), [[1e3, 1e3]]]).astype(np.float32)
    assert np.allclose(jax.vmap(q.energy)(jnp.asarray(points)), -t.logpdf(points), rtol=1e-5)
    assert np.allclose(q.energies(points), -t.logpdf(points), rtol=1e-6)
    rng = np.random.default_rng(1)
    uniform, noise = jnp.asarray(rng.random(4000), jnp.float32), jnp.asarray(rng.normal(size=(4000, 2)), jnp.float32)
    for draws in (np.asarray(jax.vmap(q.draw)(uniform, noise)), q.draws(4000, seed=0)):
        first = (draws[:, 0] - mean[0]) / 2.0
        assert stats.kstest(first, stats.t(2).cdf).pvalue > 6e-5
        assert stats.kstest(first, stats.norm.cdf).pvalue < 6e-5


def test_in_many_dimensions_it_knows_the_sds_alone():
    modes, _ = picture(410, 1)
    reference = Parts.of(modes).weighed(np.ones(1), "f4")
    assert reference.factor.ndim == 2
    draws = reference.draws(2000, seed=0)
    assert np.allclose(draws.std(axis=0), np.asarray(reference.factor[0]), rtol=0.15)


@pytest.mark.parametrize("prior", [False, True])
def test_the_energy_is_split_without_a_remainder(reference, prior):
    def one(x):
        return -jnp.sum(x**4)

    def two(x):
        return -0.5 * jnp.sum(x**2)

    model = Model(one, two) if prior else Model(log_density=lambda x: one(x) + two(x))
    whole = trace_energy(model, lambda flat: flat, jnp.zeros(2), True)
    split = refer(whole, reference)
    points = jnp.asarray(np.random.default_rng(0).normal(size=(50, 2)), jnp.float32)
    for a, b in zip(energies(whole, points), energies(split, points), strict=True):
        assert np.allclose(a, b, rtol=1e-4, atol=1e-4)
    energy, _, base = jax.vmap(split)(points)
    assert np.allclose(base.energy, reference.energies(np.asarray(points)), rtol=1e-4)
    assert np.allclose(energy, -jax.vmap(lambda x: one(x) + two(x))(points) - base.energy, rtol=1e-3, atol=1e-3)
