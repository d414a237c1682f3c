"""Lengths and covariances are those of the Gaussian, whatever its units."""

import jax.numpy as jnp
import numpy as np
import pytest

from sahmc.models.energy import trace_energy
from sahmc.models.model import Model
from sahmc.modes import curvature
from sahmc.modes.curvature import correlated_covariance, laplace_covariance, nat_lengths


def program(log_density, dim):
    return trace_energy(Model(log_density=log_density), lambda flat: flat, jnp.zeros(dim, jnp.float32), True)


def test_lengths_are_found_over_twelve_orders_of_magnitude():
    unit = np.geomspace(1e-6, 1e6, 7)
    fn = program(lambda x: -0.5 * jnp.sum((x / unit) ** 2), 7)
    for point in (np.zeros(7), 3 * unit):
        found, spent = nat_lengths(fn, point.astype(np.float32))
        assert np.allclose(found, unit, rtol=0.2) and spent < 300


def test_what_cannot_be_measured_is_one():
    """A coordinate that does not matter, and one between walls nearer than any length that is tried."""
    fn = program(lambda x: jnp.where(jnp.abs(x[1]) < 1e-12, 0.0, -jnp.inf) - 0.5 * (x[2] / 4) ** 2, 3)
    assert np.allclose(nat_lengths(fn, np.zeros(3, np.float32))[0], [1.0, 1.0, 4.0], rtol=0.05)


def test_the_covariance_is_that_of_a_gaussian():
    unit = np.array([1e-3, 1.0, 1e3])
    factor = np.array([[1.0, 0.0, 0.0], [0.9, 0.5, 0.0], [-0.3, 0.2, 2.0]])
    inverse = jnp.asarray(np.linalg.inv(factor), jnp.float32)
    fn = program(lambda x: -0.5 * jnp.sum((inverse @ (x / unit)) ** 2), 3)
    assert np.allclose(
        laplace_covariance(fn, np.zeros(3, np.float32), unit)[0], factor @ factor.T, rtol=0.02, atol=0.01
    )


@pytest.mark.parametrize("entry", [np.inf, np.nan, 1e308])
def test_a_hessian_that_overflows_tells_nothing(entry, monkeypatch):
    """Eigenvalues of huge entries are infinite, or are not found at all: a run once ended there."""
    monkeypatch.setattr(curvature, "curvature", lambda *_: np.full((6, 6), entry))
    fn = program(lambda x: -0.5 * jnp.sum(x**2), 6)
    assert np.array_equal(laplace_covariance(fn, np.zeros(6, np.float32), np.ones(6))[0], np.eye(6))


def test_a_saddle_has_the_usual_width():
    fn = program(lambda x: -0.5 * x[0] ** 2 + 0.5 * x[1] ** 2, 2)
    assert np.allclose(laplace_covariance(fn, np.zeros(2, np.float32), np.ones(2))[0], np.eye(2), atol=0.01)


def test_a_covariance_is_wanted_where_axes_are_oblique_whatever_the_units():
    unit, oblique = np.array([1e-3, 1e3]), np.array([[1.0, 0.98], [0.98, 1.0]])
    found = correlated_covariance(np.linalg.inv(oblique)[None], unit)
    assert np.allclose(found, oblique * unit * unit[:, None])
    for round_enough in (np.eye(2), np.array([[1.0, 0.6], [0.6, 1.0]]), np.diag([1.0, 1e3])):
        assert correlated_covariance(np.linalg.inv(round_enough)[None], unit) is None
    assert correlated_covariance(np.diag([1.0, -0.5])[None], unit) is None


def test_modes_of_crossed_axes_want_none():
    one, two = np.array([[1.0, 0.98], [0.98, 1.0]]), np.array([[1.0, -0.98], [-0.98, 1.0]])
    assert correlated_covariance(np.linalg.inv(np.stack([one, two])), np.ones(2)) is None


def test_a_covariance_can_be_factored_however_steep_the_energy():
    """Between a width of one and one of 1e-11 there are more digits than numbers have."""
    fn = program(lambda x: -0.5 * x[0] ** 2 - 0.5e22 * (x[0] + x[1]) ** 2, 2)
    found = laplace_covariance(fn, np.zeros(2, np.float32), np.ones(2))[0]
    assert np.isfinite(np.linalg.cholesky(found)).all()


def test_a_mode_much_wider_than_the_scale_has_its_own_width():
    """The scale may be that of a narrower mode; an axis that does not rise at all keeps the largest width."""
    fn = program(lambda x: -0.5 * jnp.sum((x[:2] / jnp.array([300.0, 50.0])) ** 2) + 0 * x[2], 3)
    found = np.sqrt(np.diag(laplace_covariance(fn, np.zeros(3, np.float32), np.ones(3))[0]))
    assert np.allclose(found[:2], [300, 50], rtol=0.05) and found[2] <= 10
