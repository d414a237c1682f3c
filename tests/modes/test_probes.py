"""A needle beside a wide mode is seen by one gradient, if a probe is in its basin."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

from sahmc.models.energy import trace_energy
from sahmc.models.model import Model
from sahmc.modes import probes
from sahmc.modes.basins import BasinMap
from sahmc.modes.discovery import counting
from sahmc.modes.probes import FAR_REACH, MOST_COORDINATES, NEAREST_WIDTH, REACH, Pictures, look_around
from sahmc.testing.targets import two_widths


def basins_of(log_density, start):
    start = np.asarray(start, np.float32)
    fn = trace_energy(Model(log_density=log_density), lambda flat: flat, jnp.asarray(start), True)
    basins = BasinMap(fn, np.ones(len(start)), np.float32)
    basins.settle(start[None], 100)
    return basins


@pytest.fixture(scope="module")
def correlated():
    """A Gaussian whose axes are oblique, and its covariance."""
    cov = 0.9 ** np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    precision = np.linalg.inv(cov)
    return basins_of(lambda x: -0.5 * x @ precision @ x, np.zeros(5)), cov


def test_a_needle_in_ten_dimensions_is_found(monkeypatch):
    target = two_widths(10, 0.3, "wide")
    seen = []
    for blind in (False, True):
        if blind:  # the same probes, and as many descents, but from points that are not strange
            monkeypatch.setattr(Pictures, "strangeness", lambda self, points, energy, grad: points[:, 3])
        basins = basins_of(target.log_density, target.start)
        looks = look_around(basins, 80_000, seed=0)
        seen.append((len(counting(basins)), any(look.found for look in looks)))
    assert seen == [(2, True), (1, False)]


def test_one_mode_is_strange_nowhere(correlated):
    basins, cov = correlated
    pictures = Pictures.of(basins)
    points = 3 * np.random.default_rng(0).multivariate_normal(np.zeros(5), cov, 500)
    energy, grad = 0.5 * np.sum(points * np.linalg.solve(cov, points.T).T, axis=1), np.linalg.solve(cov, points.T).T
    strange = pictures.strangeness(points, energy, grad)
    assert strange.max() < 0.1
    needle = pictures.strangeness(points, energy, grad / 0.3**2 + 0 * points)
    assert needle.min() > strange.max() + 2.0
    assert not any(look.found for look in look_around(basins, 20_000, seed=1))


def test_probes_are_where_they_are_said_to_be(correlated):
    basins, cov = correlated
    pictures, rng = Pictures.of(basins), np.random.default_rng(2)
    near = pictures.draw(4000, "near", rng)
    radius = np.sqrt(np.sum(near * np.linalg.solve(cov, near.T).T, axis=1) / 5)
    widest = NEAREST_WIDTH + REACH / np.sqrt(5)
    assert np.median(radius) == pytest.approx(np.sqrt(NEAREST_WIDTH * widest), rel=0.15)
    far = pictures.draw(4000, "far", rng)
    radius = np.sqrt(np.sum(far * np.linalg.solve(cov, far.T).T, axis=1) / 5)
    furthest = NEAREST_WIDTH + FAR_REACH / np.sqrt(5)
    assert np.median(radius) == pytest.approx(np.sqrt(widest * furthest), rel=0.15)
    step = pictures._sparse(1000, rng)
    assert ((step != 0).sum(axis=1) <= MOST_COORDINATES).all() and (step != 0).any(axis=1).all()


def test_points_below_a_known_minimum_are_strange(correlated):
    """In the middle of a needle there is no slope, but nothing known is so low."""
    pictures = Pictures.of(correlated[0])
    middle = np.full((1, 5), 4.0)
    low, usual = (pictures.strangeness(middle, np.array([e]), np.zeros((1, 5)))[0] for e in (-20.0, 5.0))
    assert low > 1.0 > usual


def test_there_is_room_for_all_probes(correlated, monkeypatch):
    monkeypatch.setattr(probes, "MOST_NUMBERS", 5000)
    assert sum(len(look.energy) for look in look_around(correlated[0], 80_000, seed=0)) == 1000


def test_a_cliff_is_strange_and_no_warning(correlated):
    """Far out the square of a gradient, and twice an energy, may be larger than the largest number."""
    pictures, points = Pictures.of(correlated[0]), np.zeros((3, 5))
    grad = np.array([1.0, 1e200, 1.0])[:, None] * np.ones((3, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        strange = pictures.strangeness(points, np.array([1.0, 1.0, 1.7e308]), grad)
    assert np.isfinite(strange).all() and strange[1] > 600 and strange[2] < -600


def test_distances_between_modes_are_in_widths_of_the_wider():
    """In widths of the narrow mode, 8 would be 40."""

    def log_density(x):
        wide, narrow = -0.5 * jnp.sum(x**2), -0.5 * jnp.sum((x - 8.0 * jnp.eye(2)[0]) ** 2) / 0.2**2
        return jnp.logaddexp(wide, narrow - 2 * jnp.log(0.2))

    basins = basins_of(log_density, np.zeros(2))
    assert Pictures.of(basins).furthest == 0.0
    basins.settle(np.float32([[8.0, 0.0]]), 100)
    pictures = Pictures.of(basins)
    assert pictures.narrowest == pytest.approx(0.2, rel=0.01) and pictures.furthest == pytest.approx(8.0, rel=0.01)
