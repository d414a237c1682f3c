import jax.numpy as jnp
import numpy as np
import pytest

from sahmc.tilt.theta import (
    average_theta,
    count_visits,
    desired_frequencies,
    expected_frequency,
    freeze_theta,
    init_theta,
    learn_theta,
    pool,
    recentre,
)


def papers_update(theta, regions, gain, pi):
    """theta_* = theta_t + a_{t+1} (e - pi), e_i = 1 if x_{t+1} is in E_i, written out."""
    new = np.array(theta, dtype=np.float32)
    for i in range(len(pi)):
        e_i = np.mean([1.0 if region == i else 0.0 for region in regions])
        new[i] = new[i] + np.float32(gain) * (np.float32(e_i) - np.float32(pi[i]))
    return new


@pytest.mark.parametrize("chains", [1, 4, 64])
def test_update_equals_the_papers_formula(chains):
    rng = np.random.default_rng(chains)
    pi = rng.dirichlet(np.ones(5)).astype(np.float32)
    theta = rng.normal(size=5).astype(np.float32)
    state = init_theta(jnp.asarray(theta))
    for t in range(20):
        regions = rng.integers(5, size=chains)
        gain = 10 / max(10, t + 1)
        one_hot = jnp.asarray(np.eye(5, dtype=np.float32)[regions])
        state = learn_theta(state, one_hot, jnp.float32(gain), jnp.asarray(pi))
        state = count_visits(state, jnp.asarray(regions, jnp.int32))
        theta = papers_update(theta, regions, gain, pi)
        assert np.array_equal(state.theta, theta) or np.allclose(state.theta, theta, rtol=0, atol=2e-7)
    assert state.visits.sum() == 20 * chains


def test_one_theta_a_chain_learns_from_its_own_chain():
    rng = np.random.default_rng(1)
    pi = np.full(3, 1 / 3, np.float32)
    theta = rng.normal(size=(4, 3)).astype(np.float32)
    regions = np.array([0, 2, 2, 1])
    new = learn_theta(
        init_theta(jnp.asarray(theta)),
        jnp.asarray(np.eye(3, dtype=np.float32)[regions]),
        jnp.float32(0.5),
        jnp.asarray(pi),
    )
    for chain in range(4):
        assert np.allclose(new.theta[chain], papers_update(theta[chain], [regions[chain]], 0.5, pi), atol=2e-7)


def test_pooled_membership_does_not_depend_on_the_order_of_the_chains():
    rng = np.random.default_rng(2)
    member = rng.dirichlet(np.ones(7), size=1000).astype(np.float32)
    whole = pool(jnp.asarray(member))
    assert np.array_equal(whole, pool(jnp.asarray(member[rng.permutation(1000)])))
    assert np.allclose(whole, member.mean(0), atol=1e-6)


def test_recentre_only_outside_the_compact_set_and_only_by_a_constant():
    inside = jnp.array([-3.0, 2.0, 4.0])
    assert np.array_equal(recentre(inside, bound=5.0), inside)
    outside = jnp.array([1.0, 2.0, 6.0])
    moved = recentre(outside, bound=5.0)
    assert np.abs(moved).max() <= 5 and np.allclose(np.diff(moved), np.diff(outside))


def test_average_removes_the_drifting_constant():
    rng = np.random.default_rng(3)
    state = init_theta(jnp.zeros(4))._replace(visits=jnp.ones(4, jnp.int32))
    paths = rng.normal(size=(50, 4)).astype(np.float32)
    for t, theta in enumerate(paths):
        state = average_theta(state._replace(theta=jnp.asarray(theta + 3.0 * t)), t >= 20)
    kept = paths[20:] - paths[20:].mean(axis=1, keepdims=True)
    assert np.allclose(state.average, kept.mean(0), atol=1e-3)
    assert state.num_averaged == 30


def test_frozen_theta_of_unseen_regions_is_that_of_the_nearest_seen_one():
    theta, visits = np.array([-50.0, 1.0, 2.0, -60.0, 3.0, -70.0]), np.array([0, 5, 5, 0, 5, 0])
    assert freeze_theta(theta, visits).tolist() == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]


def test_expected_frequency_spreads_the_share_of_empty_regions():
    pi = jnp.array([0.1, 0.2, 0.3, 0.4])
    visited = jnp.array([False, True, True, False])
    assert np.allclose(expected_frequency(pi, visited), [0.0, 0.45, 0.55, 0.0])


@pytest.mark.parametrize(
    ("desired", "message"), [([1, 2], "one entry"), ([1.0, 0.0, 1.0], "positive"), ([1.0, -1.0, 3.0], "positive")]
)
def test_bad_desired_is_refused(desired, message):
    with pytest.raises(ValueError, match=message):
        desired_frequencies(desired, 3)
