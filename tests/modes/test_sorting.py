"""Many draws are sorted as well as few, with work that does not grow round by round."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sahmc._support.thinning import some_of
from sahmc.models.energy import trace_energy
from sahmc.models.model import Model
from sahmc.modes import sorting
from sahmc.modes.finder import ModeFinder, lowest_draws
from sahmc.modes.gaussians import fit_gaussians, likeliest
from sahmc.modes.modes import no_modes

GAP = 6.0


def parts(x):
    """Two crescents, one inside the other: Gaussians alone do not tell their draws apart."""
    off = jnp.stack([x[1] - 0.25 * x[0] ** 2, x[1] - GAP - 0.25 * x[0] ** 2])
    return jnp.log(jnp.array([0.7, 0.3])) - 0.5 * (x[0] / 2) ** 2 - 0.5 * (off / 0.5) ** 2


def log_density(x):
    return jax.nn.logsumexp(parts(x))


@pytest.fixture(scope="module")
def draws():
    """The crescent of each draw, and the draws, (chain, draw, dim)."""
    rng = np.random.default_rng(1)
    which = (rng.random(size=(200, 200)) < 0.3).astype(int)
    x = 2 * rng.normal(size=which.shape)
    y = 0.25 * x**2 + GAP * which + 0.5 * rng.normal(size=which.shape)
    return which, np.stack([x, y], axis=2).astype(np.float32)


@pytest.fixture
def counted(monkeypatch):
    """The number of draws sorted in each round."""
    sizes, sort = [], sorting.sort_draws

    def count(found, draws):
        sizes.append(draws.shape[0] * draws.shape[1])
        return sort(found, draws)

    monkeypatch.setattr(sorting, "sort_draws", count)
    return sizes


def assign(draws):
    fn = trace_energy(Model(log_density=log_density), lambda flat: flat, jnp.zeros(2, jnp.float32), True)
    finder = ModeFinder.of(fn, np.swapaxes(draws, 0, 1))
    energy = -np.asarray(jax.vmap(jax.vmap(log_density))(jnp.asarray(draws)))
    return finder.assign(draws, lowest_draws(draws, energy), no_modes(2, np.float32))[0]


def test_a_sample_shows_how_to_sort_all_draws(draws, counted, monkeypatch):
    which, points = draws
    whole = assign(points)
    assert len(counted) > 2 and set(counted) == {which.size}
    counted.clear()
    monkeypatch.setattr(sorting, "MOST_SORTED", 8000)
    some = assign(points)
    assert len(counted) > 2 and counted[-1] == which.size and max(counted[:-1]) <= 8000 + 6000
    for found in (whole, some):
        assert len(found.energy) == 2 and (found.label != which).mean() < 0.03
        share = [(found.label == k).mean() for k in range(2)]
        assert np.abs(np.array(share) - [0.7, 0.3]).max() < 0.01 + found.doubt.max()
    assert (some.label != whole.label).mean() < 0.02 and some.doubt.max() < 3 * whole.doubt.max() + 0.003


def test_draws_that_descended_keep_their_mode_and_have_no_weight_of_their_own(draws):
    points, weight = draws[1], np.full(draws[0].size, 1 / draws[0].size)
    index, mine, some = sorting._some_of(points, weight, np.arange(7))
    assert len(index) == weight.size and mine is weight and some is points
    wanted = np.array([3, 3, *range(100, 200), 39_999])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "MOST_SORTED", 1000)
        index, mine, some = sorting._some_of(points, weight, wanted)
    assert set(wanted) <= set(index) and (np.diff(index) > 0).all() and 1000 < len(index) <= 1102
    assert set(index[mine == 0]) == set(wanted) - set(some_of(weight.size, 1000))
    assert abs(mine.sum() - 1) < 1e-12 and np.array_equal(some[0], points.reshape(-1, 2)[index])


@pytest.mark.parametrize("shape", [(1, 5000), (32, 150), (3000, 3), (5000, 1)])
def test_blocks_do_not_matter(shape, draws):
    which, points = draws[0].ravel(), draws[1].reshape(-1, 2).astype(float)
    found = fit_gaussians(points, which, np.array([[0.0, 0.0], [0.0, GAP]]), np.ones(2))
    some = points[: shape[0] * shape[1]].reshape(*shape, 2)
    sorted_, straight = sorting.sort_draws(found, some), likeliest(found, some.reshape(-1, 2))
    assert np.array_equal(sorted_.label, straight.label) and np.array_equal(sorted_.second, straight.second)
    np.testing.assert_allclose(sorted_.gap, straight.gap, atol=1e-9)
    np.testing.assert_allclose(sorted_.square, straight.square, atol=1e-9)
