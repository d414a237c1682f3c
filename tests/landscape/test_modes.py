"""The picture of modes is that of the draws."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from sahmc.landscape.modes import fit_modes, nearest_modes


def test_the_picture_is_that_of_the_draws():
    rng = np.random.default_rng(1)
    factor = np.array([[2.0, 0.0], [1.5, 0.4]])
    draws = np.concatenate([rng.normal(size=(4000, 2)) @ factor.T, [20.0, 0.0] + 0.1 * rng.normal(size=(1000, 2))])
    modes = fit_modes(draws.astype(np.float32), np.array([[0.1, 0.0], [19.0, 0.0]]), np.ones(2), np.float32)
    assert int(modes.num) == 2 and np.allclose(modes.weight[:2], [0.8, 0.2], atol=0.01)
    assert np.allclose(modes.mean[:2], [[0, 0], [20, 0]], atol=0.15)
    assert np.allclose(modes.colour[0] @ modes.colour[0].T, factor @ factor.T, rtol=0.1)
    assert np.allclose(modes.log_det[0], np.log(0.8), atol=0.05)
    there = modes.carry(jnp.array([1.0, 2.0]), 0, 1)
    assert int(modes.nearest(there)) == 1 and np.allclose(modes.carry(there, 1, 0), [1.0, 2.0], atol=1e-3)
    jacobian = jax.jacobian(lambda x: modes.carry(x, 0, 1))(jnp.zeros(2))
    assert np.allclose(np.linalg.slogdet(jacobian)[1], modes.log_det[1] - modes.log_det[0], atol=1e-4)


def test_many_dimensions_have_a_diagonal_picture():
    rng = np.random.default_rng(2)
    draws = np.concatenate([rng.normal(size=(300, 150)), 9 + 2 * rng.normal(size=(300, 150))])
    modes = fit_modes(draws, np.stack([np.zeros(150), np.full(150, 9.0)]), np.ones(150), np.float32)
    assert modes.colour.ndim == 2
    assert np.allclose(modes.carry(modes.carry(jnp.ones(150), 0, 1), 1, 0), 1.0, atol=1e-3)
    assert np.allclose(modes.log_det[1] - modes.log_det[0], 150 * np.log(2), rtol=0.05)
    between = rng.uniform(2.0, 4.0, size=(7, 40, 1)) + 0.1 * rng.normal(size=(7, 40, 150))
    mixed = (1e4 + between).astype(np.float32)  # far from 0, where sums of squares must not cancel
    far = dataclasses.replace(modes, mean=modes.mean + 1e4)
    label = nearest_modes(far, mixed)
    assert (label == jax.vmap(jax.vmap(far.nearest))(jnp.asarray(mixed))).mean() > 0.99 and 0.02 < label.mean() < 0.98
