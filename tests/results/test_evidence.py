"""The log evidence: two estimators with known answers, and nothing but nan where the run does not support them."""

import warnings
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import sahmc
from sahmc.results.evidence import by_bridges
from sahmc.results.findings import ladder
from sahmc.results.findings.ladder import check_evidence
from sahmc.testing import EVIDENCE
from sahmc.tilt.bridge import bridge_levels, bridge_to_reference


def sampled(target, **settings):
    return sahmc.sample(target.model, random_seed=0, progressbar=False, **settings)


LEVELS = np.array([1.0, 0.4, 0.15, 0.05, 0.015, 0.0])


def ladder_draws(width=0.1, dim=3, chains=8, num=2000, seed=0):
    """Exact draws at every level of a Gaussian likelihood under a standard normal prior, and the log evidence."""
    rng = np.random.default_rng(seed)
    region = rng.integers(len(LEVELS), size=(chains, num))
    x = rng.normal(size=(chains, num, dim)) / np.sqrt(1 + LEVELS[region] / width**2)[..., None]
    energy = 0.5 * np.sum(x**2, axis=-1) / width**2 + 7.0
    truth = -0.5 * dim * np.log1p(1 / width**2) - 7.0
    return region, energy, truth


def test_bridges_of_exact_draws():
    off = []
    for seed in range(20):
        region, energy, truth = ladder_draws(seed=seed)
        found = bridge_levels(LEVELS, region, energy)
        off.append((found.mean - truth) / found.mcse)
    assert abs(np.mean(off)) < 4 / np.sqrt(20)
    assert 0.4 < np.mean(np.square(off)) < 2.3  # 4 sigma of a chi-square of 20


def test_a_bridge_to_a_reference_of_exact_draws():
    """A normal density of known integral and a shifted, wider q; E of the wrong sign is caught."""
    truth = 0.5 * np.log(2 * np.pi) - 3.0

    def energy(x):
        return 0.5 * x**2 + 3.0 - 0.5 * ((x - 0.5) / 1.5) ** 2 - np.log(1.5 * np.sqrt(2 * np.pi))

    off, wrong = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        low, high = energy(rng.normal(size=(8, 250))), energy(0.5 + 1.5 * rng.normal(size=512))
        weight = np.full(low.shape, 1 / low.size)
        found = bridge_to_reference(low, weight, high)
        off.append((found.mean - truth) / found.mcse)
        wrong.append((bridge_to_reference(-low, weight, -high).mean - truth) / found.mcse)
    assert abs(np.mean(off)) < 4 / np.sqrt(20) and abs(np.mean(wrong)) > 4 / np.sqrt(20)
    assert 0.4 < np.mean(np.square(off)) < 2.3  # 4 sigma of a chi-square of 20


def test_densities_that_do_not_meet_have_no_bridge():
    """The draws of the posterior are where the reference is nothing, and the other way round."""
    low = np.where(np.arange(50) < 30, 0.0, -5000.0) * np.ones((4, 1))
    weight = (low < 0) / (low < 0).sum()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for high in (np.zeros(100), np.full(100, np.inf)):
            found = bridge_to_reference(low, weight, high)
            assert np.isnan(found.mean) and np.isnan(found.mcse)


def test_bridges_of_draws_that_are_at_other_levels_are_off():
    region, energy, truth = ladder_draws()
    found = bridge_levels(LEVELS, region, 1.2 * energy)
    assert abs(found.mean - truth) > 4 * found.mcse


def test_energies_that_are_far_apart_do_not_lead_a_bridge_astray():
    region, energy, _ = ladder_draws()
    before = bridge_levels(LEVELS, region, energy)
    rare = (region == len(LEVELS) - 1) & (np.arange(2000) % 97 == 0)
    after = bridge_levels(LEVELS, region, np.where(rare, 1e12, energy))
    infinite = bridge_levels(LEVELS, region, np.where(rare, np.inf, energy))
    assert abs(after.mean - before.mean) < 0.05 and after.mcse < 2 * before.mcse
    assert infinite.mean == pytest.approx(after.mean, abs=1e-6)


def test_a_level_without_draws_is_not_bridged():
    region, energy, _ = ladder_draws()
    assert np.isnan(bridge_levels(LEVELS, np.where(region == 3, 2, region), energy).mean)


@pytest.mark.parametrize("name", ["half-normal", "plateau-2"])
def test_zero_likelihood_on_part_of_the_prior(name):
    """The prior counts there, and a wall is no divergence."""
    target = EVIDENCE[name]()
    result = sampled(target)
    for method in ("theta", "bridges"):
        found = result.log_evidence(method)
        assert abs(found.mean - target.log_evidence) < 4 * found.mcse < 0.25
    assert np.isinf(result.energy[result.region == result.region.max()]).any()
    assert (result.weight[np.isinf(result.energy)] == 0).all()
    assert np.abs(target.mass_z(result.expectation(target.answers))).max() < 4
    assert not result.findings and result.num_diverging == 0


def test_a_likelihood_that_is_not_defined_counts_as_zero():
    """log(x) of a negative x is nan: that must not cut off the prior."""
    model = sahmc.Model(
        log_likelihood=lambda x: jnp.log(x[0]) - x[0],
        log_prior=lambda x: -0.5 * jnp.sum(x**2),
        start=lambda key: jnp.ones(1),
    )
    grid = np.linspace(1e-6, 12, 200_001)
    density = np.exp(-0.5 * grid**2 - grid) * grid / np.sqrt(2 * np.pi)
    truth = np.log(density.sum() * (grid[1] - grid[0]))
    found = sahmc.sample(model, random_seed=0, progressbar=False).log_evidence()
    assert abs(found.mean - truth) < 4 * found.mcse < 0.2


def test_starts_from_the_prior_settle():
    """Energies of the prior are thousands of nats; the pilot must not take its metric from chains that come down."""
    target = EVIDENCE["log-gamma-10"]()
    result = sampled(target)
    found = result.log_evidence()
    assert abs(found.mean - target.log_evidence) < 4 * found.mcse < 1.0
    assert not any(finding.severity == "error" for finding in result.findings)


def test_evidence_that_nothing_supports_is_nan():
    """11^10 modes, of which chains see a few; before, the log evidence was 20 off with a stated error of 0.5."""
    result = sampled(EVIDENCE["rastrigin-10"](), draws=200, tune=200)
    for method in ("theta", "bridges"):
        assert np.isnan(result.log_evidence(method)).all()
    assert {"evidence", "search"} <= {finding.code for finding in result.findings}


def test_estimators_are_known_by_name():
    result = sampled(EVIDENCE["half-normal"](), draws=20, tune=20)
    with pytest.raises(ValueError, match="method must be one of"):
        result.log_evidence("mbar")


def test_some_chains_show_whether_estimates_agree(monkeypatch):
    """Of many chains only some are compared; they tell a theta that is far off from one that is right."""
    record, sizes = sampled(EVIDENCE["half-normal"](), chains=64).record, []
    off = np.where(np.arange(record.learnt.theta.size) == 0, 2.0, 0.0)
    wrong = replace(record, learnt=replace(record.learnt, theta=record.learnt.theta + off))
    monkeypatch.setattr(ladder, "by_bridges", lambda some: sizes.append(some.draws.energy.shape) or by_bridges(some))
    (whole,) = check_evidence(wrong)
    monkeypatch.setattr(ladder, "MOST_COMPARED", 16 * record.draws.energy.shape[1])
    assert list(check_evidence(record)) == []
    (found,) = check_evidence(wrong)
    assert found.code == "evidence" and abs(found.number - whole.number) < 0.1 < whole.number
    assert [chains for chains, _ in sizes] == [64, 16, 16]
