"""Paths relax, and their highest points climb to saddles."""

import jax
import jax.numpy as jnp
from wells import ORIGIN, B, barrier_between, bent_wells, well

import sahmc
from sahmc.barrier import string_method


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
