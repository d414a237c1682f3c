"""Draws tell where the posterior is if it is far from every minimum, and minima do if the draws are elsewhere."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from sahmc.models.energy import trace_energy
from sahmc.models.model import Model
from sahmc.modes.bulk import Bulk
from sahmc.modes.finder import ModeFinder
from sahmc.modes.modes import no_modes

DIM = 20


def funnel(x):
    """The other numbers are as wide as exp(-x_0): density is highest where x_0 is largest, and volume is not."""
    return -0.5 * (x[0] / 6) ** 2 - 0.5 * jnp.sum((x[1:] * jnp.exp(x[0])) ** 2)


def well(x):
    return -0.5 * jnp.sum(x**2)


def program(log_density):
    return trace_energy(Model(log_density=log_density), lambda flat: flat, jnp.zeros(DIM), True)


def draws_of(place, width, seed=0):
    """Draws (draw, chain, dim) of eight chains in one place."""
    rng = np.random.default_rng(seed)
    return (place + width * rng.normal(size=(60, 8, DIM))).astype(np.float32)


def found(log_density, draws):
    fn = program(log_density)
    finder = dataclasses.replace(ModeFinder.of(fn, draws), bulk=Bulk.of(fn, draws))
    return finder.find(draws[-1], no_modes(DIM, np.float32))


IN_THE_FUNNEL = draws_of(np.eye(DIM)[0] * -4, np.append(0.5, np.full(DIM - 1, np.exp(4.0))))
AWAY = draws_of(np.full(DIM, 5.0), 0.2)


@pytest.mark.parametrize(
    ("log_density", "draws", "displaced", "elsewhere"),
    [(well, draws_of(0.0, 1.0), False, False), (funnel, IN_THE_FUNNEL, True, False), (well, AWAY, False, True)],
)
def test_draws_and_minima_are_weighed_against_each_other(log_density, draws, displaced, elsewhere):
    seen = found(log_density, draws)
    assert (seen.displaced, seen.elsewhere) == (displaced, elsewhere)


def test_the_mass_is_that_of_a_gaussian():
    """exp(-x^2 / 2 s^2) has the mass s^d, less the constant of Gaussians."""
    bulk = Bulk.of(program(lambda x: -0.5 * jnp.sum((x / 3) ** 2)), draws_of(0.0, 3.0))
    assert abs(bulk.log_mass - DIM * np.log(3)) < 1.5 and bulk.together


def test_chains_in_two_places_are_not_together():
    draws = draws_of(0.0, 1.0)
    draws[:, ::2, 0] += 50
    assert not Bulk.of(program(well), draws).together


def test_too_few_draws_tell_nothing():
    assert Bulk.of(program(well), draws_of(0.0, 1.0)[:1]) is None and Bulk.of(program(well), 0 * AWAY) is None
