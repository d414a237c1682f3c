"""All modes that draws can tell apart are found, and draws are sorted by basin."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sahmc.models.energy import trace_energy
from sahmc.models.model import Model
from sahmc.modes import finder as mode_finder
from sahmc.modes.finder import DESCENTS, FarLook, ModeFinder, lowest_draws
from sahmc.modes.modes import no_modes
from sahmc.results.warmup_record import SearchPower

LATTICE = 10.0 * np.stack(np.meshgrid(np.arange(7), np.arange(7)), axis=-1).reshape(-1, 2)


def program(log_density, dim=2):
    return trace_energy(Model(log_density=log_density), lambda flat: flat, jnp.zeros(dim, jnp.float32), True)


def assign(log_density, draws, log_weight=None, scale=None):
    """The modes in draws (chain, draw, dim)."""
    finder = ModeFinder.of(program(log_density, draws.shape[2]), np.swapaxes(draws, 0, 1))
    finder = mode_finder.replace(finder, scale=np.ones(draws.shape[2]) if scale is None else np.asarray(scale))
    energy = -np.asarray(jax.vmap(jax.vmap(log_density))(jnp.asarray(draws)))
    return finder.assign(draws, lowest_draws(draws, energy), no_modes(draws.shape[2], np.float32), log_weight)


def lattice(x):
    return jax.nn.logsumexp(-0.5 * jnp.sum((x - LATTICE) ** 2, axis=1))


def lattice_draws(num=400, chains=16, seed=0):
    rng = np.random.default_rng(seed)
    which = rng.integers(49, size=(chains, num))
    return which, (LATTICE[which] + rng.normal(size=(chains, num, 2))).astype(np.float32)


@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_there_are_more_modes_than_chains_jump_between(scale):
    which, draws = lattice_draws()
    found, spent = assign(lattice, draws, scale=np.full(2, scale))
    assert len(found.energy) == 49 and found.complete and spent < 100_000
    place = np.argmin(((found.minimum[:, None] - LATTICE) ** 2).sum(axis=2), axis=1)
    assert sorted(place) == list(range(49))
    assert (place[found.label] == which).mean() > 0.9999 and (found.label >= 0).all()


def test_a_search_that_is_cut_off_says_so(monkeypatch):
    monkeypatch.setattr(mode_finder, "SEARCHES", 1)
    found, _ = assign(lattice, lattice_draws()[1])
    assert not found.complete


def test_modes_are_numbered_by_mass():
    """By the weights of the draws, not by their number."""
    which, draws = lattice_draws()
    log_weight = np.where(which == 7, 5.0, np.where(which == 30, 4.0, 0.0))
    found, _ = assign(lattice, draws, log_weight)
    weight = np.exp(log_weight) / np.exp(log_weight).sum()
    assert (np.diff(found.mass(weight)) <= 0).all()
    assert (found.label[which == 7] == 0).all() and (found.label[which == 30] == 1).all()


@pytest.mark.parametrize("gap", [9.0, 6.0])
def test_bent_modes_are_sorted_by_basin(gap):
    """Two crescents, one inside the other: the tips of one lie where the Gaussian of the other is high."""

    def parts(x):
        off = jnp.stack([x[1] - 0.25 * x[0] ** 2, x[1] - gap - 0.25 * x[0] ** 2])
        return jnp.log(jnp.array([0.7, 0.3])) - 0.5 * (x[0] / 2) ** 2 - 0.5 * (off / 0.5) ** 2

    rng = np.random.default_rng(1)
    which = (rng.random(size=(16, 500)) < 0.3).astype(int)
    x = 2 * rng.normal(size=which.shape)
    draws = np.stack([x, 0.25 * x**2 + gap * which + 0.5 * rng.normal(size=which.shape)], axis=2).astype(np.float32)
    found, _ = assign(lambda x: jax.nn.logsumexp(parts(x)), draws, scale=[1.5, 1.2])
    weight = np.full(which.shape, 1 / which.size)
    assert (found.label != which).mean() < 0.03
    assert abs(found.mass(weight)[0] - (which == 0).mean()) < 4 * found.doubt[0] + 0.001


def test_far_draws_that_come_down_nowhere_are_the_rest():
    """Draws from a place without gradients cannot roll down: they belong to no mode, rather than to the nearest."""

    def log_density(x):
        return jnp.logaddexp(-0.5 * jnp.sum(x**2), -5.0 - 0.5 * x[1] ** 2) + 0.01 * jnp.sqrt(jnp.maximum(40 - x[0], 0))

    rng = np.random.default_rng(2)
    draws = rng.normal(size=(8, 500, 2)).astype(np.float32)
    draws[:, :25, 0] += 60.0
    found, _ = assign(log_density, draws)
    assert (found.label[:, 25:] == 0).all() and (found.label[:, :25] == -1).mean() > 0.9
    assert found.mass(np.full((8, 500), 1 / 4000))[0] == pytest.approx(0.95, abs=0.01)


def test_heavy_tails_are_part_of_their_mode():
    def log_density(x):
        return -1.5 * jnp.log1p(jnp.sum(x**2))

    draws = np.random.default_rng(3).standard_t(1, size=(8, 500, 2)).astype(np.float32)
    found, _ = assign(log_density, draws)
    assert found.mass(np.full((8, 500), 1 / 4000))[0] > 0.99


def test_draws_without_a_finite_energy_are_no_lowest_draws():
    position = np.arange(12.0).reshape(2, 3, 2)
    energy = np.array([[np.inf, 3.0, np.nan], [np.inf, np.inf, np.inf]])
    assert np.array_equal(lowest_draws(position, energy), position[:1, 1])


def test_probes_go_on_where_the_search_is_weakest(monkeypatch):
    """They stop once they would have found enough, and where more of them would not help."""
    draws = np.random.default_rng(0).normal(size=(50, 4, 2)).astype(np.float32)
    for stated in ([0.5, 0.6, 0.65], [0.5, 0.9], [0.9], [0.1]):
        places, answers = [], iter(stated)

        def look(basins, num, seed, place=None, places=places):
            places.append(place)
            return []

        def measure(*_, answers=answers):
            far = next(answers)
            found = tuple(((share, share), (share, share)) for share in (1.0, 1.0, far))
            return SearchPower((0.1, 1.0), (-7.0, 7.0), found, probes=100, dim=2, furthest=50.0)

        monkeypatch.setattr(mode_finder, "look_around", look)
        monkeypatch.setattr(mode_finder, "measure_power", measure)
        far = FarLook(draws[0], 1, 100)
        ModeFinder.of(program(lambda x: -0.5 * x @ x), draws).find(draws[-1], no_modes(2, np.float32), far)
        assert places == [None, "far", "far"][: len(stated)]


@pytest.mark.parametrize(("depth", "goes_on"), [(0.0, False), (30.0, True)])
def test_more_points_descend_where_hardly_any_reach_a_mode(depth, goes_on):
    """One deep well among hundreds of high ones; without these, the first points all reach it."""

    def log_density(x):
        return 60.0 * jnp.exp(-0.5 * jnp.sum((x / 0.02) ** 2)) - 0.001 * x @ x - depth * jnp.sum(jnp.sin(20 * x) ** 2)

    rng = np.random.default_rng(0)
    draws, hot = (width * rng.normal(size=(600, 2)).astype(np.float32) for width in (0.003, 1.0))
    finder = ModeFinder.of(program(log_density), draws.reshape(75, 8, 2))
    power = finder.find(draws[:8], no_modes(2, np.float32), FarLook(hot, 1, 0, np.zeros((40, 2)))).power
    assert (power.descents > 3 * DESCENTS) == power.rugged == goes_on
