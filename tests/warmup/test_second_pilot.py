"""The pilot is run again where a single known minimum has far more mass than the chains saw."""

import jax.numpy as jnp
import numpy as np
from plans import at_starts

from sahmc.models.model import Model
from sahmc.warmup import second_pilot
from sahmc.warmup.pilot import run_pilot
from sahmc.warmup.second_pilot import pilot_again

NARROW = 1e-4
"""The width of modes, in units of that of the plateau on which the pilot runs."""


def plateau(*modes):
    """A wide plateau around 0 in the plane, with narrow modes far above it."""

    def log_density(x):
        heights = [80.0 - 0.5 * jnp.sum(((x - 3.0 * (1 + k)) / NARROW) ** 2) for k in modes]
        return jnp.logaddexp(-0.5 * jnp.sum(x**2), jnp.logaddexp(*heights) if len(heights) > 1 else heights[0])

    return log_density


def piloted(log_density):
    context, state = at_starts(Model(log_density=log_density), np.zeros((8, 2), np.float32), tune=400)
    return context, run_pilot(context, state)


def minima(*modes):
    return np.array([2 * [3.0 * (1 + k)] for k in modes], np.float32)


def test_it_begins_in_the_one_mode_with_far_more_mass():
    """The lengths of the plateau are 10 000 times as long; those of the mode are found."""
    context, first = piloted(plateau(0))
    second, again = pilot_again(context, first, minima(0))
    assert again and second.gradients > first.gradients
    assert np.abs(first.draws).max() < 8 and np.abs(second.draws - 3.0).max() < 10 * NARROW
    assert 0.5 * NARROW < second.draws.std(axis=(0, 1)).max() < 2 * NARROW


def test_not_among_several_modes_nor_where_no_minimum_is_heavier():
    context, first = piloted(plateau(0, 1))
    same, again = pilot_again(context, first, minima(0, 1))
    assert not again and same.draws is first.draws and same.gradients > first.gradients
    assert pilot_again(context, first, minima(0))[1]  # as far as is known, it is the only one
    context, first = piloted(lambda x: plateau(0)(x) - jnp.where(jnp.sum((x - 3.0) ** 2) < 1e-3, 70.0, 0.0))
    assert not pilot_again(context, first, minima(0))[1]  # the mode is deeper by ten nats, but has far less mass
    assert not pilot_again(context, first, np.zeros((0, 2), np.float32))[1]


def test_a_second_one_that_finds_less_mass_does_not_count(monkeypatch):
    """As where chains stay stuck at the minimum."""
    context, first = piloted(plateau(0))
    stuck = first._replace(draws=1e-3 * first.draws, gradients=7)
    monkeypatch.setattr(second_pilot, "run_pilot", lambda *_: stuck)
    same, again = pilot_again(context, first, minima(0))
    assert not again and same.draws is first.draws and same.gradients > first.gradients + stuck.gradients
