"""The pilot is run again where a single known minimum has far more mass than the chains saw."""

import jax
import jax.numpy as jnp
import numpy as np
from plans import at_starts

from sahmc.engine.start import evaluate_starts
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
    second, again, heavier = pilot_again(context, first, minima(0))
    assert heavier and again and second.gradients > first.gradients
    assert np.abs(first.draws).max() < 8 and np.abs(second.draws - 3.0).max() < 10 * NARROW
    assert 0.5 * NARROW < second.draws.std(axis=(0, 1)).max() < 2 * NARROW


def test_one_chain_that_came_further_down_than_all_others_counts():
    """The minima that are passed lead nowhere; only that chain shows where the posterior is."""
    context, first = piloted(plateau(0))
    assert not pilot_again(context, first, np.zeros((1, 2), np.float32)).again
    places = np.asarray(first.state.sahmc.chains.position).copy()
    places[3] = minima(0)
    chains = evaluate_starts(context.energy_fn, jnp.asarray(places))[1].chains
    ahead = first._replace(state=first.state._replace(sahmc=first.state.sahmc._replace(chains=chains)))
    second, again, _ = pilot_again(context, ahead, np.zeros((1, 2), np.float32))
    assert again and np.abs(second.draws - 3.0).max() < 10 * NARROW


def test_not_among_several_modes_nor_where_no_minimum_is_heavier():
    context, first = piloted(plateau(0, 1))
    same, again, heavier = pilot_again(context, first, minima(0, 1))
    assert heavier and not again and same.draws is first.draws and same.gradients > first.gradients
    assert pilot_again(context, first, minima(0)).again  # as far as is known, it is the only one
    context, first = piloted(lambda x: plateau(0)(x) - jnp.where(jnp.sum((x - 3.0) ** 2) < 1e-3, 70.0, 0.0))
    assert not pilot_again(context, first, minima(0)).again  # the mode is deeper by ten nats, but has far less mass
    assert not pilot_again(context, first, np.zeros((0, 2), np.float32)).again


def test_a_second_one_that_finds_less_mass_does_not_count(monkeypatch):
    """As where chains stay stuck at the minimum."""
    context, first = piloted(plateau(0))
    stuck = first._replace(draws=1e-3 * first.draws, gradients=7)
    monkeypatch.setattr(second_pilot, "run_pilot", lambda *_: stuck)
    same, again, heavier = pilot_again(context, first, minima(0))
    assert not again and same.draws is first.draws and same.gradients > first.gradients + stuck.gradients
    assert not heavier


def schools(x):
    """Group means around a common mean, as close as exp(x_0): the density grows for ever as they come together."""
    log_sd, mean, means = x[0], x[1], x[2:]
    prior = log_sd - jnp.log1p(jnp.exp(2 * log_sd) / 25) - 0.5 * (mean / 5) ** 2
    inner = -0.5 * jnp.sum(((means - mean) * jnp.exp(-log_sd)) ** 2) - len(means) * log_sd
    return prior + inner - 0.5 * jnp.sum(((means - 5) / 12) ** 2)


def test_a_bottomless_pit_is_not_heavier():
    """Far down its curvature is nothing but rounding, so no mass can be told from it."""
    with jax.enable_x64(True):
        context, state = at_starts(Model(log_density=schools), np.tile([1.0, *9 * [5.0]], (8, 1)), tune=400)
        pit = np.append(-31.0, np.full(9, 7.385))[None]
        same, again, heavier = pilot_again(context, first := run_pilot(context, state), pit)
    assert not heavier and not again and same.draws is first.draws
