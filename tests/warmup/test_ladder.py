"""The ladder: how high its top is, and that every tilt has one."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from climbs import climb, rung
from plans import plan_for

import sahmc
from sahmc.results.warmup_record import Climb, Pilot
from sahmc.warmup.ladder import LOWEST_TOP, TOP_OVER_MELTING, build_ladder, find_top


def test_the_top_lies_above_where_chains_forget():
    found = climb([1, 3, 9, 27, 81], [0.1, 0.5, 0.3, 0.95, 0.99])
    assert math.isclose(found.melting, 9) and find_top(found, 32, True, False) == TOP_OVER_MELTING * 9
    assert find_top(found, 32, False, False) == LOWEST_TOP and math.isinf(find_top(found, 32, True, True))
    never = climb([1, 3, 9], [0.9, 0.95, 0.99])
    assert math.isinf(never.melting) and math.isclose(find_top(never, 32, True, False), 9)


def pilot(prior_share):
    return Pilot(dim=6.0, mean_energy=6.0, u_min=3.0, prior_share=prior_share, step_size=0.5)


@pytest.mark.parametrize("tilt", ["linear", "step", "tempered"])
def test_every_tilt_has_a_ladder_up_to_the_prior(tilt):
    """Its top temperature is infinite; nodes and subregions must end all the same, where the prior's energies are."""
    model = sahmc.Model(lambda x: -jnp.sum(x**2), lambda x: -0.01 * jnp.sum(x**2))
    plan = plan_for(model, tilt=tilt)
    share = 0.01
    betas = np.geomspace(share, 1 + share, 8) - share
    betas[0] = 0.0
    down = tuple(rung(beta) if beta else rung(1e-3) for beta in betas)
    ladder = build_ladder(plan, pilot(share), Climb((), down, False, False), many=True)
    assert math.isinf(ladder.top) and 4 <= ladder.tilt.num_regions < 200
    if tilt != "tempered":
        highest = float(ladder.tilt.partition.edges[-1])
        assert abs(highest - (3.0 + 3.0 * (1 + share) / share)) < 2.5
