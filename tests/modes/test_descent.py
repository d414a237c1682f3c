"""Ways downhill."""

import jax.numpy as jnp
import numpy as np

import sahmc
from sahmc.models.energy import trace_energy
from sahmc.modes.quench import best_way, come_down
from sahmc.testing.targets import eight_modes


def test_absurd_starts_come_down_and_others_stay():
    target = eight_modes(5)
    energy_fn = trace_energy(sahmc.Model(log_density=target.log_density), lambda x: x, jnp.zeros(5), True)
    high = jnp.stack([jnp.full(5, 800.0), jnp.asarray(target.start, jnp.float32) + 1.5])
    low, _, _ = come_down(energy_fn, high)
    assert -target.log_density(high[0]) > 1e6 and -target.log_density(low[0]) < 2000
    assert np.array_equal(low[1], high[1])
    result = sahmc.sample(target.log_density, high[0], random_seed=0)
    found = result.expectation(target.indicators)
    assert np.abs(found.mean - 1 / 8).max() < 0.03 and result.findings == ()


def far_normal(x):
    """Six units wide at three million in the first coordinate, and no gradient where the second is below -5."""
    edge = jnp.where(x[1] < -5, jnp.maximum(x[1], 0.0), 1.0)
    return -0.5 * ((x[0] - 3e6) / 6) ** 2 - 0.5 * x[1] ** 2 + jnp.sqrt(edge)


def test_absurd_starts_give_way_to_better_draws_of_the_prior():
    energy_fn = trace_energy(sahmc.Model(log_density=far_normal), lambda x: x, jnp.zeros(2), True)
    starts = jnp.array([[0.0, 0.0], [1.0, 0.5], [3e6, 1.0], [0.0, -0.5]])
    drawn = np.array([[3e6 + 8, 0.3], [9e9, 0.0], [3e6 - 4, 0.0], [3e6, -9.0]], np.float32)
    found, _, _ = come_down(energy_fn, starts, lambda: drawn)
    assert np.array_equal(found[0], drawn[0])
    assert np.array_equal(found[2], starts[2])  # nothing is wrong with it
    energy = [-far_normal(x) for x in found]
    assert not np.array_equal(found[1], drawn[1]) and energy[1] < 2000  # a draw that is higher still is of no use
    assert not np.array_equal(found[3], drawn[3]) and energy[3] < 2000  # nor one from which no gradient leads on


def test_the_mass_around_a_point_is_not_its_depth():
    def log_density(x):
        narrow = 50.0 - 0.5 * jnp.sum((x / 1e-4) ** 2)
        return jnp.logaddexp(narrow, -0.5 * jnp.sum((x - 20.0) ** 2))

    energy_fn = trace_energy(sahmc.Model(log_density=log_density), lambda x: x, jnp.zeros(6), True)
    deep, wide = np.zeros((3, 6), np.float32), np.full((3, 6), 20.0, np.float32)
    assert log_density(deep[0]) > log_density(wide[0]) + 45
    assert (best_way(energy_fn, np.stack([deep, wide]), None)[0] == 1).all()
    assert (best_way(energy_fn, np.stack([wide, deep]), None)[0] == 0).all()
    assert (best_way(energy_fn, np.stack([wide, deep]), 1)[0] == 1).all()  # not so much worse that it matters
    absurd = np.full((3, 6), 1e4, np.float32)
    assert (best_way(energy_fn, np.stack([wide, absurd]), 1)[0] == 0).all()


def curved_valley(x):
    """A valley that bends, in units of a million; the straight way down from far starts ends beside it."""
    y = x / 1e6
    return -2000.0 * (y[1] - y[0] ** 2) ** 2 - 0.5 * (y[0] - 1.0) ** 2 * 1e3


def test_minima_below_absurd_starts_are_returned():
    energy_fn = trace_energy(sahmc.Model(log_density=curved_valley), lambda x: x, jnp.zeros(2), True)
    starts = 1e8 * jnp.array([[1.0, 1.0], [-1.0, 2.0], [0.5, -1.0], [2.0, 0.1]])
    found = come_down(energy_fn, starts)
    assert len(found.minima) and np.abs(found.minima / 1e6 - 1.0).max() < 0.02
    low = come_down(energy_fn, jnp.full((4, 2), 1e6))  # nothing is absurd: nothing is looked for
    assert low.minima.shape == (0, 2) and np.array_equal(low.positions, jnp.full((4, 2), 1e6))
