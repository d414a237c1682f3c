"""Basins are counted and placed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sahmc.models.energy import trace_energy
from sahmc.models.model import Model
from sahmc.modes.basins import BasinMap, find_minima
from sahmc.testing.targets import eight_modes, gaussian, mixture, two_widths


def program_of(target):
    return program(target.log_density, len(target.start))


def program(log_density, dim):
    return trace_energy(Model(log_density=log_density), lambda flat: flat, jnp.zeros(dim, jnp.float32), True)


def gaussians(centres, widths, num, seed=0):
    rng = np.random.default_rng(seed)
    parts = [c + w * rng.normal(size=(num, len(c))) for c, w in zip(centres, widths, strict=True)]
    return np.concatenate(parts).astype(np.float32)


def corners(dim):
    """The eight centres, from where the target's own modes are."""
    target = eight_modes(dim)
    bits = np.array(np.meshgrid([0, 10], [0, 10], [0, 10])).reshape(3, -1).T
    tails = [np.where(b[2] == 10, 10 - 10 * (np.arange(3, dim) % 2), 10 * (np.arange(3, dim) % 2)) for b in bits]
    centres = np.hstack([bits, np.array(tails)]) if dim > 3 else bits
    assert sorted(int(target.mode(jnp.asarray(c, jnp.float32))) for c in centres) == list(range(8))
    return centres.astype(float)


@pytest.mark.parametrize(
    ("target", "centres", "widths"),
    [
        (mixture(), [[-8.0, -8.0], [6.0, 6.0], [0.0, 0.0]], [0.5] * 3),
        (eight_modes(11), corners(11), [1.0] * 8),
        (eight_modes(50), corners(50), [1.0] * 8),
        (two_widths(10, 0.3), [np.zeros(10), np.r_[8.0, np.zeros(9)]], [0.3, 1.0]),
        (gaussian(100), [np.zeros(100)], [1.0]),
    ],
    ids=["mixture", "eight modes, d = 11", "eight modes, d = 50", "two widths", "one mode, d = 100"],
)
def test_minima_are_counted_and_placed(target, centres, widths):
    draws = gaussians(centres, widths, 12)
    minima, label, spent = find_minima(program_of(target), draws, np.ones(draws.shape[1]), 100)
    assert len(minima) == len(centres) and spent >= 26 * len(draws)
    assert len(np.unique(label.reshape(len(centres), 12), axis=1).T) == 1
    if len(centres) > 1:
        assert all(np.abs(minima - c).max(axis=1).min() < 0.3 for c in np.asarray(centres))


def ten_on_a_line(x):
    return jax.nn.logsumexp(-0.5 * jnp.sum((x - 6.0 * jnp.arange(10)[:, None] * jnp.array([1.0, 0.0])) ** 2, axis=1))


def seventeen_phases(x):
    return 200 * jnp.cos(x[0]) - 0.5 * (x[0] / 25) ** 2


@pytest.mark.parametrize("scale", [0.07, 1.0, 10.0])
@pytest.mark.parametrize(
    ("log_density", "centres"),
    [
        (ten_on_a_line, 6.0 * np.arange(10)[:, None] * [1.0, 0.0]),
        (seventeen_phases, 2 * np.pi * np.arange(-8, 9)[:, None]),
    ],
    ids=["ten on a line", "seventeen phases"],
)
def test_a_lattice_of_modes_is_not_out_of_step_with_where_the_line_is_looked_at(log_density, centres, scale):
    draws = gaussians(centres, [0.07] * len(centres), 96 // len(centres))
    minima, _, _ = find_minima(program(log_density, centres.shape[1]), draws, np.full(centres.shape[1], scale), 100)
    assert len(minima) == len(centres)
    assert all(np.abs(minima - centre).max(axis=1).min() < 0.1 for centre in centres)


def test_a_narrow_mode_far_away_is_told_apart():
    """The way out of it climbs within a thousandth of the line; then the line runs level."""

    def log_density(x):
        return jnp.logaddexp(-0.5 * jnp.sum(x**2), 3 - 0.5 * jnp.sum((x - 300.0) ** 2) / 0.3**2)

    draws = np.concatenate([np.zeros((4, 2)), np.full((4, 2), 300.1)]).astype(np.float32)
    assert len(find_minima(program(log_density, 2), draws, np.ones(2), 100)[0]) == 2


def test_a_bent_valley_is_one_mode():
    """A banana whose tips no straight line joins, with points all along it."""

    def log_density(x):
        return -0.5 * (x[0] / 4) ** 2 - 0.5 * ((x[1] - x[0] ** 2) / 0.5) ** 2

    along = np.linspace(-8, 8, 40)
    draws = np.stack([along, along**2], axis=1).astype(np.float32)
    minima, label, _ = find_minima(program(log_density, 2), draws, np.ones(2), 25)
    assert len(minima) == 1 and (label == 0).all()


def test_points_without_a_finite_energy_are_left_out():
    def log_density(x):
        return jnp.where(x[0] > 5, -jnp.inf, -0.5 * jnp.sum(x**2))

    draws = np.array([[9.0, 0.0], [1.0, 1.0], [np.nan, 0.0], [-1.0, 2.0]], np.float32)
    minima, label, _ = find_minima(program(log_density, 2), draws, np.ones(2), 100)
    assert list(label) == [-1, 0, -1, 0] and np.abs(minima).max() < 0.01


def spike_in_slab(dim=8, width=0.1, away=2.0):
    """A spike of half the mass inside a slab of unit width; no barrier of two nats stands between them."""
    centre = jnp.full(dim, away / dim**0.5)

    def log_density(x):
        spike = -0.5 * jnp.sum(((x - centre) / width) ** 2) - dim * jnp.log(width)
        return jnp.logaddexp(spike, -0.5 * jnp.sum(x**2))

    return log_density, np.asarray(centre)


@pytest.mark.parametrize("inner", [True, False])
def test_a_narrow_basin_inside_a_wide_one_is_its_own_without_a_barrier(inner):
    log_density, centre = spike_in_slab()
    basins = BasinMap(program(log_density, 8), np.ones(8), np.dtype(np.float32))
    ends = basins.add(np.array([np.full(8, -0.5), centre + 0.01], np.float32), inner=inner)
    assert len(set(basins.basin[ends])) == (2 if inner else 1)
    again = basins.add(np.array([np.full(8, -0.4), centre - 0.02, centre], np.float32), inner=inner)
    assert len(set(basins.basin)) == (2 if inner else 1)
    if inner:
        assert basins.basin[again[0]] == basins.basin[ends[0]] and set(basins.basin[again[1:]]) == {
            basins.basin[ends[1]]
        }
        assert basins.narrow == {basins.basin[ends[1]]}


def test_one_basin_stays_one_wherever_points_come_from():
    """Nor are two alike torn apart that only a low saddle divides."""
    rng = np.random.default_rng(0)
    for log_density in (lambda x: -0.5 * jnp.sum(x**2), lambda x: -jnp.sum((x**2 - 1.0) ** 2) / 4):
        basins = BasinMap(program(log_density, 3), np.ones(3), np.dtype(np.float32))
        basins.add(rng.normal(size=(40, 3)).astype(np.float32), inner=True)
        assert len(set(basins.basin)) == 1 and not basins.inner


def together(x):
    """Numbers around a common mean, as close as exp(x_0): the density grows for ever as they come together."""
    inner = -0.5 * jnp.sum(((x[2:] - x[1]) * jnp.exp(-x[0])) ** 2) - len(x[2:]) * x[0]
    return inner + x[0] - jnp.log1p(jnp.exp(2 * x[0])) - 0.5 * x[1] ** 2 - 0.5 * jnp.sum(x[2:] ** 2)


@pytest.mark.parametrize(("log_density", "bottom"), [(together, False), (lambda x: -0.5 * jnp.sum(x**2), True)])
def test_a_place_on_the_way_into_a_bottomless_pit_is_no_minimum(log_density, bottom):
    """The Hessian there is a fine one, seen from one place."""
    rng, dim = np.random.default_rng(0), 50
    points = np.concatenate([np.tile([-8.0, 0.0], (8, 1)), np.exp(-8.0) * rng.normal(size=(8, dim - 2))], axis=1)
    basins = BasinMap(program(log_density, dim), np.ones(dim), np.float32)
    basins.settle(points.astype(np.float32), 400)
    lowest = int(basins.lowest()[0])
    assert basins.is_sound(lowest) and basins.is_bottom(lowest) == bottom
