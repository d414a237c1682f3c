"""Basins are counted and placed."""

import jax.numpy as jnp
import numpy as np
import pytest

from sahmc.landscape.basins import find_minima
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
