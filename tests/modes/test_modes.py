"""The picture of modes is that of the draws."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sahmc.modes.gaussians import sort_and_fit
from sahmc.modes.modes import ENOUGH_DRAWS, SIZES, fit_modes


def covariance(modes, k):
    """The covariance of mode k, from what it makes of unit vectors in a mode that is standard normal."""
    dim = modes.mean.shape[1]
    zero = jnp.zeros(dim)
    plain = dataclasses.replace(
        modes,
        mean=modes.mean.at[SIZES[0] - 1].set(zero),
        sd=modes.sd.at[SIZES[0] - 1].set(1.0),
        axes=modes.axes.at[SIZES[0] - 1].set(0.0),
    )
    colour = jax.jacobian(lambda x: plain.carry(x, SIZES[0] - 1, k))(zero) @ modes.common
    return np.asarray(colour @ colour.T)


def correlated(dim, rho):
    return rho ** np.abs(np.subtract.outer(np.arange(dim), np.arange(dim)))


def test_the_picture_is_that_of_the_draws():
    rng = np.random.default_rng(1)
    factor = np.array([[2.0, 0.0], [1.5, 0.4]])
    draws = np.concatenate([rng.normal(size=(4000, 2)) @ factor.T, [20.0, 0.0] + 0.1 * rng.normal(size=(1000, 2))])
    modes = fit_modes(draws.astype(np.float32), np.array([[0.1, 0.0], [19.0, 0.0]]), np.ones(2), np.float32)
    assert int(modes.num) == 2 and np.allclose(modes.weight[:2], [0.8, 0.2], atol=0.01)
    assert np.allclose(modes.mean[:2], [[0, 0], [20, 0]], atol=0.15)
    assert np.allclose(covariance(modes, 0), factor @ factor.T, rtol=0.1)
    assert np.allclose(modes.log_det[0], np.log(0.8), atol=0.05)
    there = modes.carry(jnp.array([1.0, 2.0]), 0, 1)
    assert int(modes.nearest(there)) == 1 and np.allclose(modes.carry(there, 1, 0), [1.0, 2.0], atol=1e-3)
    jacobian = jax.jacobian(lambda x: modes.carry(x, 0, 1))(jnp.zeros(2))
    assert np.allclose(np.linalg.slogdet(jacobian)[1], modes.log_det[1] - modes.log_det[0], atol=1e-4)


@pytest.mark.parametrize("dim", [150, 410])
def test_maps_between_modes_are_exact_in_many_dimensions(dim):
    """Beyond some hundred dimensions there are only some axes; back and forth is still the same point."""
    rng = np.random.default_rng(2)
    stretched = rng.normal(size=(600, 1)) * np.ones(dim)
    draws = np.concatenate([rng.normal(size=(600, dim)), 9 + 2 * rng.normal(size=(600, dim)) + stretched])
    modes = fit_modes(draws, np.stack([np.zeros(dim), np.full(dim, 9.0)]), np.ones(dim), np.float32)
    x = jnp.asarray(rng.normal(size=dim), jnp.float32)
    assert np.allclose(modes.carry(modes.carry(x, 0, 1), 1, 0), x, atol=1e-3)
    assert np.abs(np.log(np.asarray(modes.stretch[:2]))).max() > 0.5
    jacobian = jax.jacobian(lambda x: modes.carry(x, 0, 1))(x)
    assert np.allclose(np.linalg.slogdet(jacobian)[1], modes.log_det[1] - modes.log_det[0], atol=1e-2)


def acceptance(dim, rho, num, seed=0):
    """The mean acceptance of jumps between two Gaussians in ``dim`` dimensions, fitted to ``num`` draws of each."""
    rng = np.random.default_rng(seed)
    truth = [correlated(dim, r) for r in rho]
    factor = [np.linalg.cholesky(c) for c in truth]
    centres = np.zeros((2, dim))
    centres[1, 0] = 10.0
    draws = np.concatenate([c + rng.normal(size=(num, dim)) @ f.T for c, f in zip(centres, factor, strict=True)])
    modes = fit_modes(draws.astype(np.float32), centres.astype(np.float32), np.ones(dim), np.float32)
    z = rng.normal(size=(400, dim))
    here = z @ factor[0].T
    there = np.asarray(jax.vmap(lambda x: modes.carry(x, 0, 1))(jnp.asarray(here, jnp.float32)), float) - centres[1]
    w = np.linalg.solve(factor[1], there.T).T
    log_ratio = 0.5 * (z**2).sum(axis=1) - 0.5 * (w**2).sum(axis=1) + float(modes.log_det[1] - modes.log_det[0])
    log_ratio += np.linalg.slogdet(factor[0])[1] - np.linalg.slogdet(factor[1])[1]
    return np.exp(np.minimum(log_ratio, 0)).mean()


@pytest.mark.parametrize(
    ("dim", "rho", "num", "least"),
    [
        (100, (0.9, 0.9), 1000, 0.8),
        (104, (0.9, 0.9), 1000, 0.8),  # one dimension more than a hundred must not lose the covariance
        (200, (0.9, 0.9), 1000, 0.8),
        (30, (0.9, -0.5), 4000, 0.5),
        (104, (0.9, 0.5), 20_000, 0.2),
    ],
)
def test_jumps_are_accepted_where_coordinates_are_correlated(dim, rho, num, least):
    assert acceptance(dim, rho, num) > least


@pytest.mark.parametrize("num", [0, 1, 6, 20])
def test_hardly_any_draws_make_no_wild_picture(num):
    """A mode of few draws looks like the others: a shape of its own would be noise."""
    rng = np.random.default_rng(3)
    truth = correlated(8, 0.8)
    factor = np.linalg.cholesky(truth)
    centre = np.full(8, 30.0)
    draws = np.concatenate([rng.normal(size=(3000, 8)) @ factor.T, centre + rng.normal(size=(num, 8)) @ factor.T])
    modes = fit_modes(draws.astype(np.float32), np.stack([np.zeros(8), centre]), np.ones(8), np.float32)
    spread = np.linalg.eigvals(np.linalg.solve(truth, covariance(modes, 1))).real
    assert spread.min() > 0.5 and spread.max() < 2.0
    assert np.abs(modes.mean[1] - centre).max() < 1.0


def test_draws_made_before_equilibrium_are_forgotten():
    rng = np.random.default_rng(4)
    early, late = 3 * rng.normal(size=(5000, 3)), rng.normal(size=(2 * ENOUGH_DRAWS, 3))
    stage = np.repeat([0, 1], [len(early), len(late)])
    draws = np.concatenate([early, late]).astype(np.float32)
    modes = fit_modes(draws, np.zeros((1, 3)), np.ones(3), np.float32, stage)
    assert np.allclose(modes.sd[0], 1.0, atol=0.2)
    few = fit_modes(draws[: len(early) + 20], np.zeros((1, 3)), np.ones(3), np.float32, stage[: len(early) + 20])
    assert (np.asarray(few.sd[0]) > 2.5).all()  # twenty late ones are too few to go by


def test_sorting_does_not_run_away_where_draws_are_alike():
    """Slow chains in two correlated modes, one of them too wide by a quarter: sides must not be changed for that."""
    rng = np.random.default_rng(5)
    factor = np.linalg.cholesky(correlated(60, 0.9))
    noise = rng.normal(size=(2, 1500, 60))
    for t in range(1, 1500):
        noise[:, t] = 0.95 * noise[:, t - 1] + np.sqrt(1 - 0.95**2) * noise[:, t]
    draws = noise * np.array([1.0, 1.25])[:, None, None] @ factor.T
    draws[1, :, 0] += 10.0
    minima = np.zeros((2, 60))
    minima[1, 0] = 10.0
    label, _ = sort_and_fit(draws.reshape(-1, 60), minima, np.ones(60))
    assert (label == np.repeat([0, 1], 1500)).mean() > 0.999
