import math

import jax.numpy as jnp
import numpy as np
import pytest

from sahmc import EnergyPartition, TemperatureLadder


def test_regions_are_those_of_the_paper():
    partition = EnergyPartition.uniform(0, 20, 2)
    energies = jnp.array([-1.0, 0.0, 1e-6, 2.0, 2.1, 20.0, 20.1, 1e9])
    assert partition.region(energies).tolist() == [0, 0, 1, 1, 2, 10, 11, 11]


def test_uniform_edges():
    assert np.allclose(EnergyPartition.uniform(-4, 30, 2).edges, np.arange(-4, 31, 2))


@pytest.mark.parametrize("edges", [[2.0, 1.0], [1.0, 1.0], [[1.0, 2.0]], [0.0, np.nan], jnp.array([3.0, 2.0])])
def test_bad_edges_are_refused(edges):
    with pytest.raises(ValueError, match="increasing"):
        EnergyPartition(edges)


def test_width_must_divide_the_range():
    with pytest.raises(ValueError, match="whole number of widths"):
        EnergyPartition.uniform(0, 5, 2)


def test_geometric_ladder():
    betas = np.asarray(TemperatureLadder.geometric(30, 6).betas)
    assert betas[0] == 1 and np.isclose(betas[-1], 1 / 30)
    assert np.allclose(np.diff(np.log(betas)), -math.log(30) / 5, rtol=1e-5)


def test_ladder_to_the_prior_is_geometric_in_beta_plus_share():
    ladder = TemperatureLadder.geometric(math.inf, 7, prior_share=0.01)
    betas = np.asarray(ladder.betas, float)
    assert betas[-1] == 0
    assert np.allclose(np.diff(np.log(betas + 0.01)), -math.log(101) / 6, rtol=1e-4)
    assert np.allclose(ladder.step_scale, np.sqrt(1.01 / (betas + 0.01)), rtol=1e-5)


@pytest.mark.parametrize("betas", [[0.9, 0.5], [1.0, 1.0], [1.0, 0.5, 0.6], [1.0, -0.1], [], [1.0, np.nan]])
def test_bad_ladders_are_refused(betas):
    with pytest.raises(ValueError, match="inverse temperatures"):
        TemperatureLadder(betas)


def test_geometric_ladder_cannot_reach_zero_without_a_prior():
    with pytest.raises(ValueError, match="prior_share"):
        TemperatureLadder.geometric(math.inf, 5)
