"""Ordinary models with one mode whose prior is far away: what the pilot knows is not thrown away for it."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.special import logsumexp

import sahmc
from sahmc.kernels.jump import Jump
from sahmc.results.evidence import knows_evidence
from sahmc.warmup import adapt, explore, top
from sahmc.warmup.reference import strays

RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(100), RNG.normal(size=(100, 3)) * [1.0, 10.0, 0.1]])
Y = X @ [1.3, 0.5, -0.2, 3.0] + 0.5 * RNG.normal(size=100)
WIDE = 1000.0
BUDGET = {"draws": 300, "tune": 400, "random_seed": 0, "progressbar": False}


def regression(x, y):
    slope = numpyro.sample("slope", dist.Normal(0, WIDE).expand([4]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(WIDE))
    numpyro.sample("y", dist.Normal(x @ slope, sigma), obs=y)


def in_a_tube(x, y):
    """The regression, whose likelihood is not a number outside a tube around the posterior."""
    slope = numpyro.sample("slope", dist.Normal(0, WIDE).expand([4]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(WIDE))
    far = jnp.sum((x @ slope - y) ** 2) > 100.0
    numpyro.factor("y", jnp.where(far, jnp.nan, dist.Normal(x @ slope, sigma).log_prob(y).sum()))


def exact():
    """Return the posterior means of slopes and sigma, and the log evidence, by quadrature over log sigma."""
    grid = np.linspace(np.log(0.3), np.log(0.9), 2001)
    height, slopes = np.zeros(len(grid)), np.zeros((len(grid), 4))
    for i, sigma in enumerate(np.exp(grid)):
        precision = X.T @ X / sigma**2 + np.eye(4) / WIDE**2
        slopes[i] = np.linalg.solve(precision, X.T @ Y / sigma**2)
        fit = 0.5 * (Y @ Y / sigma**2 - slopes[i] @ precision @ slopes[i])
        widths = 0.5 * np.linalg.slogdet(precision)[1] + 4 * np.log(WIDE)
        prior = np.log(2 / np.sqrt(2 * np.pi) / WIDE) - 0.5 * (sigma / WIDE) ** 2
        height[i] = -fit - widths - 100 * np.log(sigma) - 50 * np.log(2 * np.pi) + prior + grid[i]
    weight = np.exp(height - logsumexp(height))
    return np.append(weight @ slopes, weight @ np.exp(grid)), logsumexp(height) + np.log(grid[1] - grid[0])


def quietly(model, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sahmc.sample(model, model_args=(X, Y), **BUDGET | options)


def largest_z(result):
    mean, mcse = result.expectation(lambda draw: jnp.append(draw["slope"], draw["sigma"]))
    return float(np.max(np.abs(mean - exact()[0]) / mcse))


def test_a_regression_with_a_vague_prior_is_right_and_quiet():
    """Its prior is a thousand times too wide: all chains get lost under it, and the ladder ends in a reference."""
    result = quietly(regression)
    assert result.findings == () and largest_z(result) < 4
    assert result.warmup.lost == 32 and result.warmup.reference is not None
    found = result.log_evidence()
    assert abs(found.mean - exact()[1]) < 4 * found.mcse and found.mcse < 0.05


def test_chains_that_are_left_under_the_prior_are_caught(monkeypatch):
    """The broken twin: chains stay where they got lost, and the ladder is used all the same."""
    monkeypatch.setattr(explore, "_put_back", lambda state, home, lost: state)
    monkeypatch.setattr(top, "MOST_LOST", 2.0)
    monkeypatch.setattr(adapt.Adapted, "lost_posterior", lambda self: False)
    result = quietly(regression, reference=False)
    assert largest_z(result) > 4 or any(finding.severity == "error" for finding in result.findings)


def test_a_ladder_that_chains_do_not_come_back_from_is_given_up(tmp_path):
    """Without a reference the ladder leads to the prior. The draws are plain ones, and one sentence says so."""
    result = quietly(regression, reference=False)
    assert result.warmup.untravelled and largest_z(result) < 4
    assert [(finding.code, finding.severity) for finding in result.findings] == [("ladder", "warning")]
    assert np.ptp(result.weight) < 1e-6 * result.weight.mean() and not knows_evidence(result.record)
    assert np.isnan(result.log_evidence().mean) and "at beta = 1 alone" in repr(result.warmup)
    tree = result.to_datatree()
    assert tree["posterior"]["slope"].shape[-1] == 4
    result.save(tmp_path / "run.nc")
    again = sahmc.Result.load(tmp_path / "run.nc")
    assert again.warmup.untravelled and again.warmup.theta.shape == result.warmup.theta.shape


def test_a_ladder_that_is_given_up_leaves_the_metric_that_the_step_size_belongs_to():
    """The posterior is a thin ridge, for which the pilot has a dense metric; chains must still move."""
    precision = jnp.linalg.inv(jnp.array([[1.0, 0.999], [0.999, 1.0]]))
    model = sahmc.Model(
        log_likelihood=lambda x: -0.5 * x @ precision @ x, log_prior=lambda x: -0.5 * jnp.sum((x / 1e4) ** 2)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = sahmc.sample(model, jnp.zeros(2), reference=False, **BUDGET)
    mean, mcse = result.expectation()
    assert (np.abs(mean) < 4 * mcse).all() and (mcse < 0.1).all()
    assert not any(finding.severity == "error" for finding in result.findings)


def test_a_likelihood_that_is_no_number_far_out_does_no_harm():
    result = quietly(in_a_tube, initvals={"slope": np.array([1.3, 0.5, -0.2, 3.0]), "sigma": 0.5})
    assert largest_z(result) < 4 and not any(finding.severity == "error" for finding in result.findings)
    assert isinstance(result.live.setup.kernel, Jump) or result.warmup.untravelled


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.8])
def test_chains_outside_all_known_modes_are_told_whatever_their_number(share):
    low = np.random.default_rng(1).normal(size=(50, 40))
    away = np.arange(40) < share * 40
    low[:, away] -= 1000.0
    assert (strays(low, 4) == away).all()


def test_an_explosive_time_series_goes_in():
    """At some latent values the mean overflows, which NumPyro refuses outside compiled code."""
    y = np.random.default_rng(2).normal(size=400)

    def model():
        theta = numpyro.sample("theta", dist.Normal(0, 2))

        def step(error, value):
            return value - theta * error, theta * error

        mean = jax.lax.scan(step, 0.0, jnp.asarray(y))[1]
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)

    known = sahmc.from_numpyro(model)
    assert np.isfinite(known.log_likelihood({"theta": jnp.array(0.1)}))


def test_starts_come_nearer_to_zero_where_large_data_leave_no_density():
    """The density vanishes for a slope above 1e-3, so that hardly any start within 2 of 0 has one."""

    def model():
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        numpyro.factor("y", jnp.where(jnp.abs(slope) < 1e-3, -(slope**2), -jnp.inf))

    options = {"draws": 20, "tune": 50, "chains": 8, "random_seed": 0, "progressbar": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = sahmc.sample(model, **options)
    assert np.isfinite(result.log_density).any()
