"""Round trips are travel: a level that is merely drawn anew is none."""

import jax
import jax.numpy as jnp
import numpy as np

from sahmc.engine.round_trips import init_round_trips, update_round_trips
from sahmc.tilt.partition import EnergyPartition, TemperatureLadder
from sahmc.tilt.tilts import StepTilt, TemperedTilt

TILT = TemperedTilt(TemperatureLadder([1.0, 0.4, 0.1]))
THETA = jnp.log(jnp.array([1.0, 2.5, 10.0]))  # two dimensions, where Z goes as 1 / beta


def trips(tilt, theta, energies, regions, top):
    now = init_round_trips(energies.shape[1])
    for energy, region in zip(energies, regions, strict=True):
        ends = jax.vmap(tilt.at_ends, (None, 0, 0, None, None))(theta, energy, region, 0, top)
        now = update_round_trips(now, *ends)
    return np.asarray(now.trips)


def test_a_chain_that_stays_where_it_is_makes_none():
    """In two dimensions all levels overlap: the level goes up and down while the energy does not move."""
    rng = np.random.default_rng(0)
    energies = jnp.full((200, 4), 1.5)
    regions = jnp.asarray(rng.integers(3, size=(200, 4)))
    assert (trips(TILT, THETA, energies, regions, 2) == 0).all()


def test_a_chain_whose_energy_rises_and_falls_makes_one_each_time():
    energies = jnp.tile(jnp.array([[0.5], [9.0]]), (10, 1))
    regions = jnp.tile(jnp.array([[0], [2]]), (10, 1))
    assert trips(TILT, THETA, energies, regions, 2).tolist() == [9]


def test_zero_likelihood_is_at_the_top_alone():
    at_bottom, at_top = TemperedTilt(TemperatureLadder([1.0, 0.0])).at_ends(
        jnp.zeros(2), jnp.asarray(jnp.inf), jnp.asarray(1), 0, 1
    )
    assert bool(at_top) and not bool(at_bottom)


def test_regions_of_energy_are_where_a_chain_is():
    tilt = StepTilt(EnergyPartition([1.0, 2.0]))
    energies = jnp.tile(jnp.array([[0.5], [2.5]]), (3, 1))
    regions = jnp.tile(jnp.array([[0], [2]]), (3, 1))
    assert trips(tilt, jnp.zeros(3), energies, regions, 2).tolist() == [2]
