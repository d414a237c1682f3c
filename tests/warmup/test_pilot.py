"""The pilot, from starts that are no good."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plans import at_starts, plan_for

import sahmc
from sahmc.warmup import pilot
from sahmc.warmup.pilot import are_on_their_way, fit_pilot, mixing
from sahmc.warmup.rescue import rescue


def test_a_chain_on_a_plateau_goes_on_where_others_are():
    """Far out the density is flat and absurdly low; without help that chain would stay there, at weight zero."""

    def log_density(x):
        return jnp.where(x[0] > 50, -1e5, -0.5 * jnp.sum(x**2))

    starts = [jnp.full(2, 100.0), *(jnp.full(2, 0.1 * k) for k in range(15))]
    result = sahmc.sample(log_density, starts, chains=16, draws=100, tune=400, random_seed=0, progressbar=False)
    assert "1 chain could not come down" in repr(result.warmup)
    assert not any(finding.code == "stranded" for finding in result.findings)  # dealt with, so no fault of the draws
    assert result.warmup.pilot.stranded == 1 and (result.log_density > -1000).all()
    mean = result.expectation()
    assert (abs(mean.mean) < 4 * mean.mcse).all()


def rescued(model, starts, energies=None):
    """The rescue of chains at ``starts`` after a window of ``energies``, which did not change if none are given."""
    context, state = at_starts(model, starts)
    now = np.asarray(state.sahmc.chains.total_energy, float)[None]
    return rescue(context, state, np.ones(starts.shape[1]), now if energies is None else energies)


def test_a_chain_that_never_moves_goes_where_others_are_unless_it_is_low():
    model = sahmc.Model(log_density=lambda x: -0.5 * jnp.sum(x**2))
    rng = np.random.default_rng(0)
    starts = rng.normal(size=(16, 2)).astype("f4")
    starts[3], starts[5] = 6.0, 0.0
    energies = np.abs(rng.normal(size=(60, 16)))
    energies[:, 3], energies[:, 5] = 36.0, 0.0
    done = rescued(model, starts, energies)
    assert done.high.tolist() == [i == 3 for i in range(16)] and done.stranded == 1
    ends = np.asarray(done.state.sahmc.chains.position)
    assert (ends[3] == starts[np.arange(16) != 3]).all(axis=1).any() and np.array_equal(ends[5], starts[5])
    moving = energies.copy()
    moving[-5:, 3] = 35.0
    assert not rescued(model, starts, moving).high.any()


@pytest.mark.parametrize("bits", ["f4", "f8"])
@pytest.mark.parametrize(("width", "lost"), [(1e-8, 4), (1e-3, 0)])
def test_a_deep_place_without_mass_is_left(width, lost, bits):
    """Four of sixteen chains are 60 nats below others, where the density is narrow: only its mass counts."""

    def log_likelihood(x):
        return jnp.logaddexp(60 - 0.5 * jnp.sum((x / width) ** 2), -0.5 * jnp.sum((x - 3) ** 2))

    model = sahmc.Model(log_likelihood, lambda x: -0.5 * jnp.sum((x / 100) ** 2))
    starts = np.concatenate([3 + np.random.default_rng(0).normal(size=(12, 6)), np.zeros((4, 6))]).astype(bits)
    with jax.enable_x64(bits == "f8"):
        done = rescued(model, starts)
    assert done.stranded == lost
    if lost:
        assert done.high[12:].all() and (np.abs(done.state.sahmc.chains.position) > 0.1).any(axis=1).all()


def test_a_chain_that_is_too_high_comes_down_to_its_own_basin():
    """One of sixteen chains is far above the second mode, where no other is, and one where no gradient leads down."""

    def log_density(x):
        wells = jnp.logaddexp(-0.5 * jnp.sum(x**2), -0.5 * jnp.sum((x - 40) ** 2))
        return jnp.where(x[0] < -50, -1e5, wells)

    starts = np.concatenate([0.1 * np.arange(14)[:, None] * np.ones(2), [[100.0, 120.0], [-90.0, 0.0]]]).astype("f4")
    done = rescued(sahmc.Model(log_density=log_density), starts)
    assert done.high.tolist() == [False] * 14 + [True] * 2 and done.stranded == 1
    ends = np.asarray(done.state.sahmc.chains.position)
    assert np.allclose(ends[14], 40, atol=0.1) and np.allclose(ends[:14], starts[:14]) and (ends[15] < 2).all()


CORRELATED = np.linalg.inv(0.97 ** np.abs(np.subtract.outer(np.arange(6), np.arange(6)))).astype("f4")


@pytest.mark.parametrize(
    ("precision", "kernel", "metric"),
    [
        (CORRELATED, sahmc.HMC(), "dense"),
        (CORRELATED, sahmc.HMC(metric="diagonal"), "diagonal"),
        (np.diag(np.geomspace(1e-4, 1e4, 6)).astype("f4"), sahmc.HMC(), "diagonal"),
    ],
)
def test_the_metric_is_dense_where_coordinates_are_correlated_and_it_was_left_open(precision, kernel, metric):
    result = sahmc.sample(
        lambda x: -0.5 * x @ (precision @ x),
        jnp.zeros(6),
        kernel=kernel,
        chains=16,
        draws=200,
        tune=400,
        random_seed=0,
        progressbar=False,
    )
    assert result.warmup.kernel["metric"] == metric
    second = result.expectation(jnp.square)
    truth = np.diag(np.linalg.inv(precision.astype(float)))
    assert (np.abs(second.mean - truth) < 4 * second.mcse).all()


def test_mixing_tells_chains_that_move_from_chains_that_stick():
    rng = np.random.default_rng(0)
    still = rng.normal(size=(200, 8, 3))
    assert mixing(still) > 0.5
    slow = still.copy()
    slow[:, :, 1] = np.cumsum(0.02 * slow[:, :, 1], axis=0)
    assert mixing(slow) < 0.05
    assert mixing(still[:10]) == 0.0


def test_without_a_tilt_chains_do_not_go_to_the_prior():
    """From there some never came back: a thousand widths away one step size does not do for all."""

    def log_likelihood(x):
        return -0.5 * jnp.sum((jnp.linspace(-1, 1, 40) - x[0]) ** 2) * jnp.exp(-2 * x[1]) - 40 * x[1]

    model = sahmc.Model(log_likelihood=log_likelihood, log_prior=lambda x: -0.5 * jnp.sum((x / 5) ** 2))
    assert plan_for(model).visits_prior and not plan_for(model, tilt="none").visits_prior
    plain = dict(tilt="none", draws=50, tune=200, chains=16, random_seed=1, progressbar=False)
    result = sahmc.sample(model, jnp.zeros(2), **plain)
    spread = np.asarray(result.log_density).mean(axis=1)
    assert np.ptp(spread) < 5 and not any(finding.code == "rhat" for finding in result.findings)


def test_the_share_of_a_prior_however_far_up_is_no_zero():
    """A ladder is geometric in beta + r, from r on."""
    assert fit_pilot(2.0, 0.0, 1e10, step_size=1.0).prior_share == pytest.approx(1e-10, rel=1e-9)
    assert 0 < fit_pilot(2.0, 0.0, 1e40, step_size=1.0).prior_share < 1e-9


def walks(rng, remembered, draws=100, chains=32, dim=20):
    """Draws (draw, chain, dim) at rest, of autocorrelation ``remembered``."""
    found = rng.normal(size=(draws, chains, dim))
    for t in range(1, draws):
        found[t] = remembered * found[t - 1] + np.sqrt(1 - remembered**2) * found[t]
    return found


@pytest.mark.parametrize("remembered", [0.0, 0.9, 0.99])
def test_chains_at_rest_are_not_on_their_way_and_chains_that_drift_are(remembered):
    """At rest 600 coordinates are looked at; a drift of two spreads in a single one of 20 is seen."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        draws = walks(rng, remembered)
        assert not are_on_their_way(draws)
    draws[:, :, 3] += np.linspace(0, 4, len(draws))[:, None]
    assert are_on_their_way(draws)
    assert not are_on_their_way(draws[:, :4])  # so few cannot tell


def test_chains_that_come_down_a_funnel_are_waited_for(monkeypatch):
    """24 levels are met by any scale e^v, but there is most room at v = 0; chains start at v = 5, where they fit too.

    The broken twin goes on after the first moves: its lengths and its energies are those of another place.
    """
    level = np.random.default_rng(1).normal(size=24)
    level = jnp.asarray(level / np.sqrt(np.mean(level**2)))

    def log_density(x):
        misfit = (level - jnp.exp(x[0]) * x[1:]) / 0.3
        return -0.5 * jnp.sum(misfit**2) - 0.5 * jnp.sum(x[1:] ** 2) - 0.5 * (x[0] / 10) ** 2

    model = sahmc.Model(log_density=log_density)
    starts = np.tile(np.append(5.0, level / np.exp(5.0)), (32, 1)).astype("f4")
    settled = pilot._settle(*at_starts(model, starts), 100)
    end = np.asarray(settled.state.sahmc.chains.position)[:, 0]
    assert abs(end.mean()) < 0.5
    monkeypatch.setattr(pilot, "MOST_REPEATS", 0)
    broken = np.asarray(pilot._settle(*at_starts(model, starts), 100).state.sahmc.chains.position)[:, 0]
    assert broken.mean() > 1


@pytest.mark.parametrize("dim", [2, 20, 100])
def test_a_hessian_where_there_is_no_mass_does_not_count(dim):
    """Eight draws of a Gaussian in units of their spread all count; one at a place 200 times as narrow does not.

    It does if the place is as much deeper, as in a spike that has mass.
    """
    rng = np.random.default_rng(dim)
    for _ in range(50):
        curves, energy = np.repeat(np.eye(dim)[None], 8, axis=0), 0.5 * rng.chisquare(dim, 8)
        assert pilot.have_mass(curves, energy).all()
    curves[3] *= 200.0**2
    narrow = dim * np.log(200.0) > 12 + dim / 2  # in two dimensions that is not much
    assert pilot.have_mass(curves, energy).tolist() == [k != 3 or not narrow for k in range(8)]
    energy[3] += 20.0
    assert pilot.have_mass(curves, energy).tolist() == [k != 3 for k in range(8)]
    energy[3] -= 20.0 + dim * np.log(200.0)
    assert pilot.have_mass(curves, energy).all()
