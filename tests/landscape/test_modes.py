"""Modes are found without being told how many, in any dimension and of any width."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sahmc.landscape.basins import find_minima
from sahmc.landscape.modes import fit_modes, nearest_modes
from sahmc.models.energy import trace_energy
from sahmc.models.model import Model
from sahmc.testing.targets import eight_modes, gaussian, mixture, two_widths


def program_of(target):
    example = jnp.asarray(target.start, jnp.float32)
    return trace_energy(Model(log_density=target.log_density), lambda flat: flat, example, True)


def gaussians(centres, widths, num, seed=0):
    rng = np.random.default_rng(seed)
    parts = [c + w * rng.normal(size=(num, len(c))) for c, w in zip(centres, widths, strict=True)]
    return np.concatenate(parts).astype(np.float32)


def corners(dim):
    """The eight centres, from where the target's own modes are."""
    target = eight_modes(dim)
    bits = np.array(np.meshgrid([0, 10], [0, 10], [0, 10])).reshape(3, -1).T
    tails = [np.where(b[2] == 10, 10 - 10 * (np.arange(3, dim) % 2), 10 * (np.arange(3, dim) % 2)) for b in bits]
    centres = np.hstack([bits, np.array(tails)]) if dim > 3 else bits
    assert sorted(int(target.mode(jnp.asarray(c, jnp.float32))) for c in centres) == list(range(8))
    return centres.astype(float)


@pytest.mark.parametrize(
    ("target", "centres", "widths"),
    [
        (mixture(), [[-8.0, -8.0], [6.0, 6.0], [0.0, 0.0]], [0.5] * 3),
        (eight_modes(11), corners(11), [1.0] * 8),
        (eight_modes(50), corners(50), [1.0] * 8),
        (two_widths(10, 0.3), [np.zeros(10), np.r_[8.0, np.zeros(9)]], [0.3, 1.0]),
        (gaussian(100), [np.zeros(100)], [1.0]),
    ],
    ids=["mixture", "eight modes, d = 11", "eight modes, d = 50", "two widths", "one mode, d = 100"],
)
def test_minima_are_counted_and_placed(target, centres, widths):
    draws = gaussians(centres, widths, 12)
    minima, label, spent = find_minima(program_of(target), draws, np.ones(draws.shape[1]), 100)
    assert len(minima) == len(centres) and spent >= 101 * len(draws)
    assert len(np.unique(label.reshape(len(centres), 12), axis=1).T) == 1
    if len(centres) > 1:
        assert all(np.abs(minima - c).max(axis=1).min() < 0.3 for c in np.asarray(centres))


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
