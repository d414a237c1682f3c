"""Paths relax, and their highest points climb to saddles."""

import jax
import jax.numpy as jnp

import sahmc
from sahmc.landscape import string_method

A, ORIGIN, B = "at (a, a)", "at the origin", "at (b, b)"


def modes_of(target):
    low, high = (-6.0, 4.0) if "-6" in target.name else (-8.0, 6.0)
    return {A: jnp.full(2, low), ORIGIN: jnp.zeros(2), B: jnp.full(2, high)}


def barrier_between(target, one, other, **settings):
    modes = modes_of(target)
    return sahmc.energy_barrier(target.log_density, modes[one], modes[other], **settings)


SCALES = {"tiny": 1e-4, "plain": 1.0, "huge": 1e4}


def bent_wells(position):
    """Wells at plain = -1 and 1, joined by a valley, bent in the other two, over a saddle of height 8 at plain = 0."""
    tiny, plain, huge = (jnp.sum(position[name]) / scale for name, scale in SCALES.items())
    across = 12.5 * (tiny - 2 * plain**2) ** 2 + 0.5 * (huge - 3 * plain - 4 * (1 - plain**2)) ** 2
    return -(8 * (plain**2 - 1) ** 2 + across)


def well(side):
    return {"tiny": jnp.array([2e-4]), "plain": jnp.asarray(1.0 * side), "huge": jnp.array([[3e4 * side]])}


def test_without_relaxation_the_barrier_is_overstated():
    """The broken twin: the straight line, which the search begins with, goes over 66."""
    line = jax.tree.map(lambda a, b: jnp.linspace(a, b, 101), well(-1), well(1))
    straight = -float(jnp.min(jax.vmap(bent_wells)(line)))
    assert straight > 65 and sahmc.energy_barrier(bent_wells, well(-1), well(1)).height < 8.01


def test_the_highest_point_climbs_to_a_saddle_that_three_images_would_miss(set1, monkeypatch):
    """The broken twin relaxes alone: with one image between the ends it steps over the ridge, and does not see it."""
    found = barrier_between(set1, ORIGIN, B, images=3)
    monkeypatch.setattr(string_method, "_to_saddle", lambda land, start, chord: (start, land(start[None])[0][0]))
    string_method.relax_round.clear_cache()
    broken = barrier_between(set1, ORIGIN, B, images=3)
    string_method.relax_round.clear_cache()
    assert found.converged and abs(found.saddle_energy - 11.44) < 0.01
    assert not broken.converged and abs(broken.saddle_energy - 11.44) > 0.1
