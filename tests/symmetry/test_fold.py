"""The fold carries all copies to one, tells parts apart where that can be done, and leaves alone what has no copies."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from sahmc import Flip, Involution, Permute
from sahmc.modes.parts import Parts
from sahmc.symmetry.fold import choose_fold, folds_alike
from sahmc.symmetry.group import make_group

IDS = {"mu": np.arange(4), "sd": np.arange(4, 8), "matrix": np.arange(8, 24).reshape(4, 4), "free": np.arange(24, 26)}
STATES = Permute(["mu", "sd", "matrix"], [0, 0, (0, 1)])


def draws_of(centre, width=0.1, num=400):
    return (centre + width * np.random.default_rng(0).normal(size=(num, len(centre)))).astype(np.float32)


def mode():
    centre = np.random.default_rng(1).normal(size=26)
    centre[:4] = [3.0, -1.0, 0.5, 7.0]
    return draws_of(centre)


def test_copies_are_folded_to_one_and_numpy_agrees_with_jax():
    draws = mode()
    fold = choose_fold(make_group([STATES], IDS), draws)
    assert fold is not None and folds_alike(fold, draws)
    copies = fold.group.random_copies(draws, np.random.default_rng(2))(draws).astype(np.float32)
    assert (copies != draws).any() and np.array_equal(fold(copies), fold(draws))
    assert fold.inside(fold(draws)).all() and 0 < fold.inside(copies).mean() < 0.2
    assert np.array_equal(fold(copies), jax.jit(jax.vmap(fold))(jnp.asarray(copies)))
    assert len(np.unique(fold.move(draws).places, axis=0)) == 1  # one copy is folded alike throughout


def test_a_fold_that_mixes_parts_up_is_seen():
    draws = mode()
    fold = choose_fold(make_group([STATES], IDS), draws)
    broken = type(fold)(fold.group, (fold.scores[0] * np.nan,), fold.signs)
    assert not folds_alike(broken, draws)


def test_signs_and_places_together():
    """Factors: columns may change places and signs, which makes 2^3 3! copies."""
    ids = {"loading": np.arange(15).reshape(5, 3)}
    draws = draws_of(np.random.default_rng(3).normal(size=15))
    group = make_group([Permute("loading", 1), Flip("loading", 1)], ids)
    assert math.isclose(math.exp(group.log_order), 48)
    fold = choose_fold(group, draws)
    copies = group.random_copies(draws, np.random.default_rng(4))(draws).astype(np.float32)
    assert np.array_equal(fold(copies), fold(draws)) and fold.copies(draws[0], np.full(15, 0.1)) == 48


def test_a_map_that_undoes_itself_halves_space():
    """Beside factors: an exchange of two numbers that changes the sign of a third."""
    ids = {"loading": np.arange(15).reshape(5, 3), "pair": np.array([15, 16]), "odd": np.array(17)}
    places, sign = np.arange(18), np.ones(18)
    places[[15, 16]], sign[17] = [16, 15], -1
    map_ = Involution("turn", *(tuple(x.tolist()) for x in (places, sign, np.zeros(18))))
    draws = draws_of(np.random.default_rng(3).normal(size=18))
    group = make_group([Permute("loading", 1), map_, Flip("loading", 1)], ids)
    assert math.isclose(math.exp(group.log_order), 96)
    fold = choose_fold(group, draws)
    copies = group.random_copies(draws, np.random.default_rng(4))(draws).astype(np.float32)
    assert np.array_equal(fold(copies), fold(draws)) and fold.copies(draws[0], np.full(18, 0.1)) == 96
    assert np.array_equal(fold(copies), jax.jit(jax.vmap(fold))(jnp.asarray(copies)))
    centred = choose_fold(make_group([map_], ids), draws_of(np.zeros(18)))  # it has no copies there
    assert centred is None


def test_parts_that_are_the_same_make_fewer_copies():
    fold = choose_fold(make_group([STATES], IDS), mode())
    twins = mode()[0].copy()
    for at in (0, 4):
        twins[at + 1] = twins[at]
    twins[8:24] = 0.0
    assert fold.copies(mode()[0], np.full(26, 0.1)) == 24 and fold.copies(twins, np.full(26, 0.1)) == 12


@pytest.mark.parametrize("symmetry", [Permute("x"), Flip("x")])
def test_a_mode_that_is_symmetric_itself_has_no_copies(symmetry):
    assert choose_fold(make_group([symmetry], {"x": np.arange(5)}), draws_of(np.zeros(5), 1.0)) is None


def test_random_elements_are_uniform():
    group = make_group([Permute("x"), Flip("y", ())], {"x": np.arange(3), "y": np.arange(3, 4)})
    x = jnp.array([1.0, 2.0, 3.0, 4.0])
    keys = jax.random.split(jax.random.key(0), 12_000)
    drawn = np.asarray(jax.jit(jax.vmap(lambda key: group.random(key, x)(x)))(keys))
    _, count = np.unique(drawn, axis=0, return_counts=True)
    assert len(count) == 12 and stats.chisquare(count).pvalue > 6e-5


@pytest.mark.parametrize("heavy", [False, True])
def test_a_reference_with_copies_is_normalised_and_draws_are_of_all_copies(heavy):
    """The integral over the plane is 1 though the Gaussians are cut off where the domain ends."""
    group = make_group([Permute("x")], {"x": np.arange(2)})
    draws = draws_of(np.array([-1.0, 1.0]), 0.5)
    fold = choose_fold(group, draws)
    part = Parts(np.zeros(1, int), np.array([[-0.4, 0.4]]), np.array([np.eye(2)]), np.full(1, heavy))
    reference = part.weighed(np.ones(1), np.float32).folded(fold)
    axis = np.sinh(np.linspace(-6, 6, 801))  # out to 200, where a t has next to nothing left
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2).astype(np.float32)
    density = np.exp(-reference.energies(grid))
    total = density @ np.outer(np.gradient(axis), np.gradient(axis)).ravel()
    assert abs(total - 1) < 0.02  # the share inside comes from 2^14 draws
    assert abs(np.exp(-np.asarray(jax.vmap(reference.energy)(grid[::999]))) - density[::999]).max() < 1e-4
    made = reference.draws(4000, 1)
    assert abs(fold.inside(made).mean() - 0.5) < 4 * np.sqrt(0.25 / 4000) and made.shape == (4000, 2)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_numbers_that_never_move_are_no_guide():
    """Their width is 0, and so may be what is to be seen in them."""
    ids = {"loading": np.arange(6).reshape(3, 2), "score": np.arange(6, 8)}
    draws = draws_of(np.array([1.0, -2.0, 3.0, 0.5, 0.0, 0.0, 2.0, -1.0]))
    draws[:, 4:6] = 0.0
    symmetries = [Permute(["loading", "score"], [1, 0]), Flip(["loading", "score"], [1, 0])]
    fold = choose_fold(make_group(symmetries, ids), draws)
    assert fold is not None and all(np.isfinite(part).all() for part in (*fold.scores, *fold.signs))
