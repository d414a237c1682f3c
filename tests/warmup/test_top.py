"""Where the ladder ends is decided by what is measured, and the evidence is the same wherever that is."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import logistic

import sahmc
from sahmc import Model
from sahmc.models.energy import trace_energy
from sahmc.modes.reference import around_all
from sahmc.tilt.bridge import bridge_to_reference
from sahmc.warmup import top
from sahmc.warmup.top import (
    LEAST_PRIOR_OVERLAP,
    PRIOR_DRAWS,
    PRIOR_INFLATION,
    PRIOR_OVERLAP,
    _overlap_that_pays,
    prior_mass,
)

DIM, WIDE, CONSTANT = 4, 1000.0, 5.0


def model(width, constant=0.0, normalised=False, sd=0.1):
    """Return x ~ N(0, width^2) beside the observation x = 1 with some sd, the prior times exp(constant)."""

    def log_prior(x):
        return constant - 0.5 * jnp.sum((x / width) ** 2) - DIM * np.log(width * np.sqrt(2 * np.pi))

    def log_likelihood(x):
        return -0.5 * jnp.sum(((x - 1) / sd) ** 2)

    return sahmc.Model(log_likelihood, log_prior, prior_normalised=normalised)


def evidence(width, sd=0.1):
    both = width**2 + sd**2
    return DIM * (np.log(sd) - 0.5 * np.log(both) - 0.5 / both)


def run(of, **settings):
    start = np.zeros(DIM, np.float32)
    found = sahmc.sample(of, start, chains=16, tune=500, draws=300, random_seed=0, progressbar=False, **settings)
    return found, found.log_evidence()


@pytest.fixture(scope="module")
def long_way():
    return run(model(WIDE, CONSTANT))


def test_a_long_way_to_the_prior_is_left_out(long_way):
    result, found = long_way
    assert result.warmup.reference is not None and len(result.theta) == 4
    assert abs(found.mean - evidence(WIDE)) < 4 * found.mcse < 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other, _ = run(model(WIDE, CONSTANT), reference=False)
    assert other.warmup.reference is None and len(other.warmup.theta) > 8


def test_the_mass_of_a_prior_is_not_flattered_by_the_fit():
    """A Gaussian is closer to the draws that it was fitted to than to the prior, the more so in many dimensions."""
    dim = 30
    prior = Model(lambda x: 0.0 * x[0], lambda x: jnp.sum(jax.nn.log_sigmoid(x) + jax.nn.log_sigmoid(-x)))
    energy_fn = trace_energy(prior, lambda flat: flat, jnp.zeros(dim), True)
    position = np.random.default_rng(0).logistic(size=(12, 32, dim)).astype(np.float32)
    base = np.sum(np.logaddexp(0, position) + np.logaddexp(0, -position), axis=2)
    mass, error = prior_mass(energy_fn, position, base)
    assert abs(mass) < 4 * error < 0.6
    alone, wide = prior_mass(energy_fn, position.reshape(-1, 1, dim), base.reshape(-1, 1))  # by one chain
    assert abs(alone) < 4 * wide < 1.0
    gaussian = around_all(position.reshape(-1, dim), PRIOR_INFLATION, np.float32)
    points = gaussian.draws(PRIOR_DRAWS, seed=0)
    low, high = base - gaussian.energies(position), -logistic.logpdf(points).sum(axis=1) - gaussian.energies(points)
    flattered = bridge_to_reference(low.T, np.full(low.T.shape, 1 / low.size), high)
    assert flattered.mean < -4 * flattered.mcse


def test_the_mass_of_a_prior_is_measured_unless_it_is_said_to_be_1(long_way, tmp_path):
    result, _ = long_way
    mass, error = result.record.prior_mass
    assert abs(mass - CONSTANT) < 4 * error < 0.5
    _, wrong = run(model(WIDE, CONSTANT, normalised=True))
    assert abs(wrong.mean - evidence(WIDE) - CONSTANT) < 4 * wrong.mcse < CONSTANT
    result.save(tmp_path / "run.nc")
    assert sahmc.Result.load(tmp_path / "run.nc").record.prior_mass == (mass, error)


def test_without_a_prior_the_ladder_ends_in_a_reference():
    raw = model(1.0, sd=0.5).log_likelihood
    result, found = run(raw)
    truth = DIM * np.log(0.5 * np.sqrt(2 * np.pi))
    assert result.warmup.reference is not None and abs(found.mean - truth) < 4 * found.mcse < 0.1


def test_a_short_way_ends_in_the_prior():
    result, found = run(model(1.0, sd=0.5))
    assert result.warmup.reference is None and result.record.prior_mass is None
    assert abs(found.mean - evidence(1.0, sd=0.5)) < 4 * found.mcse
    assert "\nlog evidence -" in str(result.summary())


def test_the_longer_the_way_the_less_need_a_reference_be_like_the_posterior():
    """Of Gaussians that differ by a shift, that of the overlap asked for is as much nearer as the way is longer."""
    assert np.isclose(_overlap_that_pays(1.0), PRIOR_OVERLAP) and _overlap_that_pays(9.0) == LEAST_PRIOR_OVERLAP
    rng = np.random.default_rng(0)
    for length in (1.0, 1.3, 1.5):
        shift = 1.4657 * length  # that of overlap 0.3, times the length
        p, q = rng.normal(size=(2, 400_000))
        ratio = shift * (p - q) - shift**2
        accepted = np.minimum(1, np.exp(ratio))
        assert abs(accepted.mean() - _overlap_that_pays(length)) < 4 * accepted.std() / np.sqrt(accepted.size)


@pytest.mark.parametrize("looked", [True, False])
def test_a_core_in_the_middle_of_a_wide_mode_needs_the_reference(looked, monkeypatch):
    """The prior is near, but what comes down from it misses a core with half of the mass, as the broken twin does."""
    if not looked:
        monkeypatch.setattr(top, "has_core", lambda context, found: False)

    def normal(x, sd):
        return -0.5 * jnp.sum((x / sd) ** 2) - 8 * jnp.log(sd) - 4 * jnp.log(2 * jnp.pi)

    def log_likelihood(x):
        return jnp.logaddexp(normal(x, 0.1), normal(x, 1.0)) - jnp.log(2.0) - normal(x, 3.0)

    model = sahmc.Model(log_likelihood=log_likelihood, log_prior=lambda x: normal(x, 3.0))
    result = sahmc.sample(model, -jnp.ones(8), random_seed=0, progressbar=False)
    mass = result.expectation(lambda x: (jnp.sum(x**2) < 0.5).astype(float))
    if looked:
        assert abs(mass.mean - 0.5) < 4 * mass.mcse and result.warmup.reference is not None
    else:
        assert mass.mean < 0.5 - 4 * mass.mcse
