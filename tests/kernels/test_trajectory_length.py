"""How long trajectories are: given, drawn, or chosen by the warm-up."""

import dataclasses

import jax
import numpy as np
import pytest

from sahmc import HMC, RMHMC
from sahmc.kernels.trajectory_length import TrajectoryLength, trajectory_length


@pytest.mark.parametrize(
    ("given", "low", "most", "is_open"),
    [(5, 5, 5, False), ((3, 3), 3, 3, False), ((2, 6), 2, 6, False), (None, 1, 4, True)],
)
def test_what_a_user_may_ask_for(given, low, most, is_open):
    made = trajectory_length(given)
    assert vars(made) == vars(TrajectoryLength(low, most, is_open)) and trajectory_length(made) is made


@pytest.mark.parametrize("given", [0, 2.5, (4, 2), (0, 3), "long", (1, 2, 3), True])
def test_what_makes_no_sense_is_refused(given):
    with pytest.raises(ValueError, match=r"num_integration_steps|pair"):
        HMC(num_integration_steps=given)


def test_lengths_are_drawn_evenly_between_their_bounds():
    uniforms = jax.random.uniform(jax.random.key(0), (6000,))
    drawn = np.asarray(jax.vmap(lambda uniform: TrajectoryLength(2, 5).drawn(uniform).num_steps)(uniforms))
    count = np.bincount(drawn, minlength=7)
    assert (count[:2] == 0).all() and (count[6:] == 0).all()
    assert (np.abs(count[2:6] - 1500) < 4 * np.sqrt(6000 * 0.25 * 0.75)).all()


def test_a_length_that_was_chosen_outlives_other_changes():
    longer = HMC(0.1).lengthened(6.0)
    assert longer.num_integration_steps.most == 16 and longer.moves == 1 and HMC(0.1).moves == 4
    again = dataclasses.replace(longer, step_size=0.2)
    assert again.num_integration_steps.most == 16 and again.moves == 1


def test_only_an_open_length_is_changed():
    assert HMC(0.1, 7).lengthened(6.0).num_integration_steps.num_steps == 7
    assert HMC(0.1, (1, 3)).lengthened(6.0).num_integration_steps.num_steps == 3
    assert RMHMC(0.1).lengthened(6.0).num_integration_steps.num_steps == 4
