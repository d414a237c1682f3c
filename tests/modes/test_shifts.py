"""A few displacements are found that lead between more modes than can be known."""

import jax
import jax.numpy as jnp
import numpy as np

from sahmc.models.energy import trace_energy
from sahmc.models.model import Model
from sahmc.modes.shifts import MOST_SHIFTS, find_shifts

WELLS, DIM = 6, 8


def wells(x):
    """2^6 modes: six wells in pairs, beside two coordinates that have one."""
    return jnp.sum(0.5 * x[:WELLS] + 6 * x[:WELLS] ** 2 - x[:WELLS] ** 4) - 0.5 * jnp.sum(x[WELLS:] ** 2)


def known(log_density, minima):
    program = trace_energy(Model(log_density=log_density), lambda flat: flat, jnp.zeros(DIM, jnp.float32), True)
    rng = np.random.default_rng(0)
    draws = minima[rng.integers(len(minima), size=500)] + 0.2 * rng.normal(size=(500, DIM))
    scale = np.where(np.arange(DIM) < WELLS, 0.23, 1.0)
    return find_shifts(program, minima, scale, draws.astype(np.float32))


def corners(num):
    signs = np.random.default_rng(1).choice([-1.0, 1.0], size=(num, WELLS))
    return np.concatenate([1.73 * signs + 0.02, np.zeros((num, DIM - WELLS))], axis=1)


def test_one_displacement_for_each_pair_of_wells():
    shifts, spent = known(wells, corners(40))
    vectors = np.asarray(shifts.vector)
    assert vectors.shape == (MOST_SHIFTS, DIM) and spent > 0
    single = vectors[(np.abs(vectors) > 1).sum(axis=1) == 1]
    assert set(np.abs(single).argmax(axis=1)) == set(range(WELLS))
    assert np.allclose(np.abs(single).max(axis=1), 3.46, atol=0.1)


def test_both_directions_have_the_same_chance():
    shifts, _ = known(wells, corners(40))
    drawn = np.asarray(jax.vmap(shifts.draw)(jnp.linspace(0, 1, 4 * MOST_SHIFTS + 1)[:-1] + 1e-4))
    assert np.allclose(drawn.sum(axis=0), 0, atol=1e-4)
    assert np.isfinite(np.asarray(shifts.draw(jnp.float32(1.0)))).all()


def test_none_where_modes_have_no_common_displacement():
    places = np.random.default_rng(2).normal(size=(150, DIM)) * 20

    def scattered(x):
        return jax.nn.logsumexp(-0.5 * jnp.sum((x - jnp.asarray(places, x.dtype)) ** 2, axis=1) / 0.04)

    assert known(scattered, places)[0] is None
