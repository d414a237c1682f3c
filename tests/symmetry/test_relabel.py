"""Draws of a posterior with copies, put into one of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import sahmc
from sahmc import Flip, Permute
from sahmc.symmetry.relabel import relabel

CHAINS, DRAWS, PARTS = 4, 300, 5


@pytest.fixture
def mixed():
    """Draws of five states whose labels are shuffled from draw to draw, and the same draws before that."""
    rng = np.random.default_rng(0)
    lead = (CHAINS, DRAWS)
    tidy = {
        "mu": np.arange(PARTS) * 2.0 + 0.3 * rng.normal(size=(*lead, PARTS)),
        "move": 5 * np.eye(PARTS) * np.arange(1, PARTS + 1) + rng.normal(size=(*lead, PARTS, PARTS)),
        "other": rng.normal(size=lead),
    }
    order = rng.permuted(np.tile(np.arange(PARTS), (*lead, 1)), axis=-1)
    move = np.take_along_axis(tidy["move"], order[..., None], axis=2)
    shuffled = {
        "mu": np.take_along_axis(tidy["mu"], order, axis=2),
        "move": np.take_along_axis(move, order[:, :, None], axis=3),
        "other": tidy["other"],
    }
    log_density = rng.normal(size=lead)
    best = order[np.unravel_index(np.argmax(log_density), lead)]
    return shuffled, {"mu": tidy["mu"][..., best], "move": tidy["move"][..., best, :][..., best]}, log_density


def test_labels_are_those_of_the_best_draw_throughout(mixed):
    shuffled, wanted, log_density = mixed
    weight = np.full(log_density.shape, 1.0)
    found = relabel(shuffled, log_density, weight, [Permute(["mu", "move"], axis=[0, (0, 1)])])
    for name, right in wanted.items():
        assert np.array_equal(found[name], right)
    assert np.array_equal(found["other"], shuffled["other"])
    half = relabel(shuffled, log_density, weight, [Permute(["mu", "move"], axis=[0, 0])])  # one of two axes
    assert not np.array_equal(half["move"], wanted["move"])


def test_signs_and_order_of_factors():
    rng = np.random.default_rng(1)
    loadings = np.array([[2.0, 0.1], [1.0, -0.2], [0.0, 1.5]]) + 0.1 * rng.normal(size=(2, 200, 3, 2))
    sign, swap = rng.choice([-1.0, 1.0], size=(2, 200, 1, 2)), rng.random((2, 200)) < 0.5
    shuffled = loadings * sign
    shuffled[swap] = shuffled[swap][..., ::-1]
    symmetries = [Permute("loadings", axis=1), Flip("loadings", axis=1)]
    found = relabel({"loadings": shuffled}, np.zeros((2, 200)), np.ones((2, 200)), symmetries)
    spread = found["loadings"].std(axis=(0, 1))
    assert spread.max() < 0.15 < shuffled.std(axis=(0, 1)).min()


def test_components_of_a_mixture_have_the_means_of_an_ordered_one():
    """Against the same posterior with the order of the means fixed by hand, within four standard errors."""
    rng = np.random.default_rng(2)
    data = np.concatenate([rng.normal(-3, 1, 40), rng.normal(0, 1, 40), rng.normal(4, 1, 40)])

    def log_density(p):
        return jax.nn.logsumexp(norm.logpdf(data[:, None], p["mu"]), axis=1).sum() + norm.logpdf(p["mu"], 0, 5).sum()

    start = {"mu": jnp.array([-3.0, 0.0, 4.0])}
    symmetries = sahmc.find_symmetries(log_density, start)
    result = sahmc.sample(log_density, start, draws=300, tune=300, random_seed=0, progressbar=False)
    assert symmetries == (Permute("mu"),) and np.ptp(np.asarray(result.expectation().mean["mu"])) < 1.0
    mean = np.tensordot(result.weight, result.relabel(symmetries)["mu"], axes=2)
    ordered = result.expectation(lambda p: jnp.sort(p["mu"]))
    assert (np.abs(np.sort(mean) - ordered.mean) < 4 * ordered.mcse).all()


@pytest.mark.parametrize(
    ("symmetries", "words"),
    [
        (Permute("mu"), "symmetries must be a list"),
        ([3], "a Permute or a Flip"),
        ([Permute("nu")], "arrays that a position has"),
        ([Permute(["mu", "other"], [0, 0])], "'other' has 0 axes"),
    ],
)
def test_what_is_no_symmetry_of_the_draws_is_refused(mixed, symmetries, words):
    shuffled, _, log_density = mixed
    with pytest.raises(ValueError, match=words):
        relabel(shuffled, log_density, np.ones(log_density.shape), symmetries)
