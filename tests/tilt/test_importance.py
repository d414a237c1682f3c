import numpy as np
import pytest

from sahmc.tilt.importance import (
    autocorrelation_time,
    error_of_mean,
    kish_efficiency,
    log_normalise,
    rank_rhat,
    resample_rows,
    split_rhat,
    systematic_resample,
    weighted_ess,
    weighted_mean,
    weighted_rhat,
    weighted_variance,
)

CHAINS, DRAWS, RHO = 4, 2000, 0.95


def reweighted_ar1(rng):
    """AR(1) draws of N(0, 1.5^2), weighted to N(0, 1)."""
    noise = rng.normal(size=(CHAINS, DRAWS)) * np.sqrt(1 - RHO**2)
    x = np.empty((CHAINS, DRAWS))
    x[:, 0] = rng.normal(size=CHAINS)
    for t in range(1, DRAWS):
        x[:, t] = RHO * x[:, t - 1] + noise[:, t]
    x *= 1.5
    return x, np.exp(log_normalise(-0.5 * x**2 * (1 - 1 / 2.25)))


def test_error_counts_weights_and_autocorrelation_and_kish_does_not():
    rng = np.random.default_rng(0)
    runs = [reweighted_ar1(rng) for _ in range(200)]
    found = [weighted_mean(x, w) for x, w in runs]
    scores = np.array([e.mean / e.mcse for e in found])
    assert 1 - 4 / np.sqrt(400) < scores.std() < 1 + 4 / np.sqrt(400)
    kish_scores = [e.mean * np.sqrt(kish_efficiency(w) * w.size) for e, (_, w) in zip(found, runs, strict=True)]
    assert np.std(kish_scores) > 3  # the twin: an error from the weights alone is far too small


def test_variance_of_reweighted_draws():
    rng = np.random.default_rng(1)
    values = [weighted_variance(*reweighted_ar1(rng)) for _ in range(100)]
    assert abs(np.mean(values) - 1) < 4 * np.std(values) / 10


def test_weights_sum_to_one_whatever_their_scale():
    for shift in (0.0, 500.0, -1e4):
        assert np.isclose(np.exp(log_normalise(np.random.default_rng(2).normal(size=(3, 50)) + shift)).sum(), 1)


def test_resampling_keeps_order_and_frequencies():
    rng = np.random.default_rng(3)
    weight = rng.dirichlet(np.ones(500))
    index = systematic_resample(weight, 5000, rng)
    assert (np.diff(index) >= 0).all() and len(index) == 5000
    assert np.abs(np.bincount(index, minlength=500) - 5000 * weight).max() < 1


@pytest.mark.parametrize("phi", [-0.9, 0.0, 0.5, 0.99, 1.0])
def test_the_autocorrelation_time_is_that_of_arviz(phi):
    array_stats = pytest.importorskip("arviz_stats.base").array_stats
    rng = np.random.default_rng(0)
    for chains, draws in ((1, 50), (2, 51), (5, 1000)):
        values = rng.normal(size=(chains, draws))
        for t in range(1, draws):
            values[:, t] += phi * values[:, t - 1]
        theirs = array_stats.ess(values, chain_axis=0, draw_axis=1, method="mean")
        ours = 2 * chains * (draws // 2) / autocorrelation_time(values)
        assert ours == pytest.approx(theirs, rel=1e-9)
    assert np.isnan(autocorrelation_time(np.full((2, 50), np.nan)))


@pytest.mark.parametrize(("chains", "draws"), [(2, 8), (4, 51), (32, 200)])
def test_rhat_is_that_of_arviz(chains, draws):
    array_stats = pytest.importorskip("arviz_stats.base").array_stats
    values = np.random.default_rng(0).normal(size=(chains, draws, 4)) * [1.0, 1e-6, 1e6, 3.0]
    values[0, :, 1] += 2e-6
    values[..., 2] = np.round(values[..., 2], -6)  # many are equal
    values[..., 3] = np.round(values[..., 3]) == 0.0
    for ours, method in ((split_rhat, "split"), (rank_rhat, "rank")):
        theirs = array_stats.rhat(values, chain_axis=0, draw_axis=1, method=method)
        assert ours(values) == pytest.approx(theirs, rel=1e-9)
        assert ours(values + np.arange(chains)[:, None, None]) != pytest.approx(theirs, rel=0.01)  # the broken twin


def test_a_few_heavy_draws_are_not_called_many():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4, 500))
    log_weight = np.full((4, 500), -30.0)
    log_weight[1, 100] = 0.0
    weight = np.exp(log_normalise(log_weight))
    assert weighted_ess(values, weight) <= np.log10(2000) + 1e-6
    alone = error_of_mean(weight.size * weight * (values - (weight * values).sum()))
    assert weighted_variance(values, weight) / alone**2 > 1000  # the delta method by itself


def test_what_has_overflowed_without_weight_does_not_count():
    rng = np.random.default_rng(0)
    values, weight = rng.normal(size=(4, 100, 1)), np.full((4, 100), 1 / 300)
    weight[3] = 0.0
    broken, large = values.copy(), values.copy()
    broken[3], large[3] = np.inf, 1e190  # the square of the second overflows
    values[3] = 0.0
    for measure in (weighted_mean, weighted_ess, weighted_rhat):
        np.testing.assert_allclose(measure(broken, weight), measure(values, weight))
        np.testing.assert_allclose(measure(large, weight), measure(values, weight))
    assert np.isinf(weighted_mean(broken, np.full((4, 100), 1 / 400)).mean).all()


def stuck_chains():
    """Chains that never leave one of two places, and whose weights differ."""
    values = np.repeat([0.0, 0.0, 5.0, 5.0], 2)[:, None] + 0.1 * np.random.default_rng(0).normal(size=(8, 200))
    weight = np.repeat([1.0, 2.5, 1.2, 3.3], 2)[:, None] * np.random.default_rng(1).gamma(1.0, size=(8, 200))
    return values, weight / weight.sum()


def test_rows_are_of_one_chain_and_as_many_as_its_weight():
    values, weight = stuck_chains()
    chain, draw = resample_rows(weight, 0)
    assert (chain == chain[:, :1]).all() and (np.diff(draw, axis=1) >= 0).all()
    wanted = 8 * weight.sum(axis=1)
    assert (np.abs(np.bincount(chain[:, 0], minlength=8) - wanted) < 1).all()
    means = [values[resample_rows(weight, seed)].mean() for seed in range(200)]
    error = np.std(means) / np.sqrt(len(means))
    assert abs(np.mean(means) - (weight * values).sum()) < 4 * error


def test_rows_show_that_chains_disagree():
    """Rows cut from all draws resampled together straddle chains, and R-hat weakens."""
    values, weight = stuck_chains()
    together = systematic_resample(weight.ravel(), weight.size, np.random.default_rng(0)).reshape(weight.shape)
    straddling = split_rhat(values.ravel()[together][..., None])[0]
    assert split_rhat(values[resample_rows(weight, 0)][..., None])[0] > 3 * straddling
