"""Rejected proposals show what accepted states do not."""

import jax.numpy as jnp
import numpy as np
import pytest

import sahmc
from sahmc.engine.glimpses import no_glimpses, places, update_glimpses
from sahmc.kernels.base import Proposal, TransitionInfo
from sahmc.sampling import outcome
from sahmc.tilt.target import ChainState
from sahmc.warmup import adapt

DIM, WIDTH = 8, 0.1
CENTRE = np.full(DIM, 2.0 / DIM**0.5)
LOG_NORM = -0.5 * DIM * np.log(2 * np.pi) - np.log(2)


def spike_in_slab(x):
    """Half of the mass in a spike of a tenth of the width, inside the bulk of the slab."""
    spike = -0.5 * jnp.sum(((x - CENTRE) / WIDTH) ** 2) - DIM * jnp.log(WIDTH)
    return LOG_NORM + jnp.logaddexp(spike, -0.5 * jnp.sum(x**2))


def in_spike(x):
    return (jnp.sum((x - CENTRE) ** 2) < DIM * (2.5 * WIDTH) ** 2).astype(float)


@pytest.mark.parametrize("glimpsed", [True, False])
def test_a_spike_inside_a_slab_is_found_by_what_was_rejected(glimpsed, monkeypatch):
    """No probe and no accepted state comes near it. The broken twin forgets the rejected proposals."""
    if not glimpsed:
        for room in (adapt, outcome):
            monkeypatch.setattr(room, "places", lambda glimpses: np.zeros((0, DIM), np.float32))
    result = sahmc.sample(spike_in_slab, -jnp.ones(DIM), random_seed=0, progressbar=False)
    mass, evidence = result.expectation(in_spike), result.log_evidence()
    if glimpsed:
        assert abs(mass.mean - 0.5) < 4 * mass.mcse and abs(evidence.mean) < 4 * evidence.mcse
        assert result.warmup.late == 1 and not any(finding.severity == "error" for finding in result.findings)
    else:
        assert mass.mean < 0.01 and evidence.mean < -0.6


def info(accepted, position, energy):
    numbers = dict.fromkeys(TransitionInfo._fields, None)
    return TransitionInfo(**{**numbers, "is_accepted": accepted, "proposal": Proposal(position, energy)})


def test_the_largest_fall_of_a_rejected_cold_trajectory_is_kept():
    before = ChainState(jnp.zeros((4, 1)), jnp.full(4, 10.0), None, None)
    cold, accepted = jnp.array([True, True, True, False]), jnp.array([False, True, False, False])
    energy = jnp.array([3.0, 1.0, jnp.nan, 0.0])
    seen = update_glimpses(no_glimpses(before.position), before, info(accepted, jnp.ones((4, 1)), energy), cold)
    assert np.array_equal(seen.fall, [7, 0, 0, 0]) and np.array_equal(places(seen), [[1.0]])
    less = info(jnp.zeros(4, bool), jnp.full((4, 1), 2.0), jnp.full(4, 4.0))
    later = update_glimpses(seen, before, less, jnp.ones(4, bool))
    assert np.array_equal(later.fall, [7, 6, 6, 6]) and later.position[0, 0] == 1  # its own was deeper
    assert update_glimpses(seen, before, info(accepted, None, None)._replace(proposal=None), cold) is seen
