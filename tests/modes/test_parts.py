"""Parts of a reference are weighed by the posterior itself, wherever chains have been."""

import numpy as np
import pytest
from scipy.special import logsumexp

from sahmc.modes.parts import Parts, even_weights, fit_reference

DIM = 20


def gaussians(mode, centres, widths):
    factor = np.array(widths)[:, None, None] * np.eye(DIM)
    return Parts(np.array(mode), np.array(centres), factor, np.zeros(len(mode), bool))


def energy_of(mean, width, mass):
    """Return -log density of two round Gaussians."""

    def energy(points):
        square = ((points[:, None] - mean) ** 2).sum(axis=2) / width**2
        return -logsumexp(np.log(mass) - 0.5 * square - DIM * np.log(width), axis=1)

    return energy


E1 = np.eye(DIM)[0]
WIDE, NARROW = gaussians([0], [0 * E1], [1.1]), gaussians([0], [3 * E1], [0.66])
TWO = energy_of(np.stack([0 * E1, 3 * E1]), np.array([1.0, 0.6]), np.array([0.75, 0.25]))
ONE = energy_of(np.stack([0 * E1, 0 * E1]), np.array([1.0, 1.0]), np.array([0.5, 0.5]))


def test_a_narrow_part_that_draws_do_not_show_gets_its_mass():
    """One basin, wide outside and narrow in the middle: draws see the first, curvature the second."""
    reference, spent = fit_reference([WIDE, NARROW], TWO, 4000, 0, np.float32)
    assert reference.num_parts == 2 and spent >= 4000
    weight = np.exp(np.asarray(reference.log_weight, float))
    assert abs(weight[0] - 0.75) < 0.1
    wrong, _ = fit_reference([WIDE, NARROW], lambda x: TWO(x) - 3.0 * (x[:, 0] > 1.7), 4000, 0, np.float32)
    assert not abs(np.exp(float(wrong.log_weight[0])) - 0.75) < 0.1


@pytest.mark.parametrize("pictures", [[WIDE, WIDE], [WIDE, NARROW], [NARROW, WIDE], [WIDE]])
def test_one_picture_does_where_the_other_adds_nothing(pictures):
    reference, _ = fit_reference(pictures, ONE, 2000, 0, np.float32)
    assert reference.num_parts == 1
    assert np.allclose(reference.mean, 0) and np.allclose(np.diag(reference.factor[0]), 1.1)


def test_no_mode_is_left_out():
    parts = gaussians([0, 1, 1, 2], [0 * E1, 3 * E1, 3 * E1, 6 * E1], [1, 1, 2, 1])
    weight = even_weights(parts, np.array([0.9, 0.06, 0.04, 1e-30]))
    assert np.isclose(weight.sum(), 1) and weight[3] > 0.16 and np.isclose(weight[1] / weight[2], 1.5)


def test_where_nothing_is_seen_all_parts_count_alike():
    reference, _ = fit_reference([WIDE, NARROW], lambda x: np.full(len(x), np.inf), 100, 0, np.float32)
    assert np.isfinite(np.asarray(reference.log_weight)).all()


@pytest.mark.parametrize("heavy", [True, False])
def test_heavy_tails_are_taken_where_the_posterior_has_them(heavy):
    """The t curves at its top as the posterior does, so that its width is right too."""
    power = 1 + 0.5 * DIM

    def energy(points):
        height = 0.5 * (points**2).sum(axis=1) / 1.1**2
        return power * np.log1p(height / power) if heavy else height

    reference, _ = fit_reference([WIDE, WIDE.with_heavy_tails()], energy, 4000, 0, np.float32)
    assert reference.num_heavy == heavy and reference.num_parts == 1


def test_parts_that_nobody_wants_are_left_out():
    reference, _ = fit_reference([WIDE, NARROW, WIDE.with_heavy_tails()], TWO, 6000, 0, np.float32)
    assert reference.num_parts == 2 and not reference.num_heavy
