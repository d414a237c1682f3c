"""Scales are learnt from draws and from gradients, in any units."""

import numpy as np

from sahmc.hamiltonian.spread import Spread

UNIT = np.geomspace(1e-6, 1e6, 5)


def test_no_scale_is_drawn_towards_that_of_others():
    """On a log scale, that is: a five-thousandth of a unit variance would be a billion times the smallest."""
    draws = np.random.default_rng(0).normal(size=(400, 8, 5)) * UNIT
    assert np.allclose(Spread.of(draws).variance(), UNIT**2, rtol=0.2)
    few = Spread.of(draws[:2], believed=UNIT**2)
    assert np.allclose(np.log(few.variance() / UNIT**2), 0, atol=1.5)


def test_gradients_tell_the_scale_of_a_coordinate_that_was_not_crossed():
    """Chains that moved by a thousandth of the scale show it in how little the gradient has changed."""
    rng = np.random.default_rng(0)
    draws = (0.3 + 1e-3 * rng.normal(size=(200, 4, 5))) * UNIT
    grads = draws.reshape(-1, 5) / UNIT**2
    assert np.allclose(Spread.of(draws, grads=grads).variance(), UNIT**2, rtol=0.3)
    assert (Spread.of(draws).variance() < 1e-5 * UNIT**2).all()


def test_what_never_moved_is_as_it_was_believed():
    draws = np.zeros((50, 4, 5))
    assert np.allclose(Spread.of(draws, believed=UNIT**2).variance(), UNIT**2)
    assert np.allclose(Spread.unknown(5).variance(), 1.0)
