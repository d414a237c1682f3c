"""theta, evidence and masses against quadrature and exact values."""

import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sahmc
from sahmc.testing import RAW, eight_modes
from sahmc.testing.targets import banana
from sahmc.tilt.theta import expected_frequency

PAPER_REGIONS = sahmc.EnergyPartition.uniform(0, 20, 2)
PAPER_HMC = sahmc.HMC(0.3, 20, metric="unit", jitter=0.0)
AXIS = np.linspace(-80, 80, 1601)


def energies_on_a_grid(target):
    grid = jnp.stack(jnp.meshgrid(AXIS, AXIS), axis=-1).reshape(-1, 2)
    return -np.asarray(jax.jit(jax.vmap(target.log_density))(grid), float)


def log_sum(values):
    return values.max() + np.log(np.exp(values - values.max()).sum())


def region_masses(target, edges, half=24.0, cells=4800):
    """log omega by quadrature on a fine grid."""
    axis = (np.arange(cells) + 0.5) / cells * 2 * half - half
    rows = jax.jit(lambda y: jax.vmap(lambda x: -target.log_density(jnp.stack([x, y])))(jnp.asarray(axis, jnp.float32)))
    mass = np.zeros(len(edges) + 1)
    for y in axis:
        energy = np.asarray(rows(jnp.float32(y)), float)
        mass += np.bincount(np.searchsorted(edges, energy), np.exp(-energy), minlength=len(mass))
    with np.errstate(divide="ignore"):
        return np.log(mass * (2 * half / cells) ** 2)


def typical_error(runs):
    """Of the means over runs, a root mean square over regions: each by itself, of four runs, is often far too small."""
    return math.sqrt(np.mean(np.var(runs, axis=0, ddof=1)) / len(runs))


def test_step_theta_gives_the_region_masses(set1):
    """The tolerance is the spread between runs; regions whose edges lie a quarter of a nat off are caught."""
    runs = []
    for seed in range(4):
        result = sahmc.sample(
            set1.log_density,
            jnp.zeros(2),
            chains=33,
            tune=60_000,
            draws=1000,
            random_seed=seed,
            kernel=PAPER_HMC,
            tilt="step",
            partition=PAPER_REGIONS,
            gain=200,
        )
        assert (result.visits > 0).tolist() == [False] * 2 + [True] * 10
        assert "theta" not in {finding.code for finding in result.findings}  # the two empty regions are no fault of it
        frequency = np.asarray(expected_frequency(jnp.asarray(result.desired), jnp.asarray(result.visits > 0)))
        assert np.allclose(frequency[2:], 0.1)  # pi + nu = 1/12 + (2/12)/10
        log_omega = result.theta[2:] + np.log(frequency[2:])
        runs.append(log_omega - log_sum(log_omega))
    edges = np.asarray(PAPER_REGIONS.edges)
    truth = region_masses(set1, edges)
    published = [-0.2425, -1.6809, -3.6779, -5.6872, -7.7580, -9.8681, -11.9527, -14.0058, -16.0453, -17.9344]
    assert np.allclose(truth[2:], published, atol=2e-3)

    error = typical_error(runs)
    assert error < 0.1
    assert np.all(np.abs(np.mean(runs, axis=0) - truth[2:]) < 4 * error)
    assert not np.all(np.abs(np.mean(runs, axis=0) - region_masses(set1, edges + 0.25)[2:]) < 4 * error)


@pytest.mark.parametrize("name", ["set1", "set2"])
def test_tempered_theta_gives_log_z(name, request):
    target = request.getfixturevalue(name)
    result = sahmc.sample(target.log_density, jnp.zeros(2), chains=100, tune=2000, random_seed=0, reference=False)
    betas = np.asarray(result.partition.betas, float)
    energy = energies_on_a_grid(target)
    log_z = np.array([log_sum(-beta * energy) for beta in betas])
    theta = result.theta + np.log(result.desired) - betas * float(result.partition.reference)
    assert np.abs((theta - theta[0]) - (log_z - log_z[0])).max() < 0.05
    assert np.abs(result.log_omega() - (log_z - log_z[0])).max() < 0.05


def test_nu_correction_with_empty_regions():
    """A Gaussian whose energy cannot fall below 0: of 6 regions with unequal pi, the lower two are empty.

    omega_i = exp(-u_{i-1}) - exp(-u_i) for U exponential; without nu the masses would be off by up to
    log((pi + nu)/pi) = 0.6 relative to each other.
    """
    edges = np.array([-2.0, 0.0, 0.5, 1.0, 2.0])
    pi = np.array([0.3, 0.2, 0.1, 0.1, 0.1, 0.2])
    tail = np.exp(-np.maximum(np.concatenate([edges, [np.inf]]), 0))
    truth = np.log(-np.diff(tail, prepend=1.0)[2:])
    runs, twins = [], []
    for seed in range(4):
        result = sahmc.sample(
            lambda x: -0.5 * jnp.sum(x**2),
            jnp.ones(2),
            chains=100,
            tune=1000,
            draws=6000,
            random_seed=seed,
            kernel=sahmc.HMC(0.8, (1, 4), metric="unit"),
            tilt="step",
            partition=sahmc.EnergyPartition(edges),
            desired=pi,
            gain=200,
            adapt="always",
        )
        assert np.isneginf(result.log_omega()[:2]).all()
        runs.append(result.log_omega()[2:])
        assert np.allclose(result.log_omega(log_total=math.log(2 * math.pi))[2:], runs[-1] + math.log(2 * math.pi))
        without = result.theta[2:] + np.log(pi[2:])
        twins.append(without - log_sum(without))
    error = typical_error(runs)
    assert error < 0.03
    assert np.all(np.abs(np.mean(runs, axis=0) - truth) < 4 * error)
    assert not np.all(np.abs(np.mean(twins, axis=0) - truth) < 4 * error)


def conjugate():
    """y_ij ~ N(x_j, 0.5^2), 20 of each, x ~ N(0, 2^2), d = 5: evidence in closed form."""
    data = 1.0 + 0.5 * np.random.default_rng(7).normal(size=(20, 5)) + np.arange(5)
    noise, width = 0.25, 4.0

    def log_likelihood(x):
        return jnp.sum(-0.5 * (data - x) ** 2 / noise - 0.5 * math.log(2 * math.pi * noise))

    covariance = noise * np.eye(20) + width
    _, log_det = np.linalg.slogdet(2 * np.pi * covariance)
    truth = sum(-0.5 * (log_det + y @ np.linalg.solve(covariance, y)) for y in data.T)
    model = sahmc.Model(
        log_likelihood,
        log_prior=lambda x: -0.5 * jnp.sum(x**2) / width,
        start=lambda key: 2.0 * jax.random.normal(key, (5,)),
    )
    return model, None, truth


def two_modes(prior):
    """Two narrow wells, at (2, 2) and at (-3, 1) with a third of the mass, under a Gaussian or a uniform prior."""

    def log_likelihood(x):
        one = -0.5 * jnp.sum((x - jnp.array([2.0, 2.0])) ** 2) / 0.09
        two = -0.5 * jnp.sum((x - jnp.array([-3.0, 1.0])) ** 2) / 0.16
        return jnp.logaddexp(math.log(2 / 3) + one, math.log(1 / 3) + two)

    def log_prior(x):
        if prior == "gaussian":
            return -0.5 * jnp.sum(x**2) / 9.0
        return jnp.where(jnp.all(jnp.abs(x) < 6.0), 0.0, -jnp.inf)

    axis = np.linspace(-6, 6, 1201) if prior == "uniform" else np.linspace(-15, 15, 3001)
    axis = 0.5 * (axis[1:] + axis[:-1])
    grid = jnp.stack(jnp.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    weight = np.asarray(jax.vmap(log_prior)(grid), float)
    likelihood = np.asarray(jax.vmap(log_likelihood)(grid), float)
    return sahmc.Model(log_likelihood, log_prior), jnp.array([2.0, 2.0]), log_sum(weight + likelihood) - log_sum(weight)


@pytest.mark.parametrize(
    "case",
    [conjugate, lambda: two_modes("gaussian"), lambda: two_modes("uniform")],
    ids=["conjugate", "gaussian", "uniform"],
)
def test_log_evidence(case):
    model, start, truth = case()
    until = sahmc.Precision(log_evidence=0.05)  # with one mode few draws are made at the prior
    result = sahmc.sample(model, start, draws=2000, until=until, random_seed=0)
    value, error = result.log_evidence()
    assert error < 0.05
    assert abs(value - truth) < 3 * error
    assert float(result.partition.betas[-1]) == 0


def test_evidence_needs_the_prior_as_top_level(set1):
    result = sahmc.sample(set1.log_density, jnp.zeros(2), draws=50, tune=100, chains=4, tilt="none", random_seed=0)
    with pytest.raises(ValueError, match="log_evidence needs draws at beta = 0"):
        result.log_evidence()


@pytest.mark.parametrize(("draws", "bound"), [(1000, 0.04), (8000, 0.015)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_right_masses_from_one_mode(set2, draws, bound, seed):
    result = sahmc.sample(set2.log_density, jnp.zeros(2), draws=draws, random_seed=seed)
    found = result.expectation(set2.indicators)
    assert np.abs(found.mean - 1 / 3).max() < bound
    assert (np.abs(found.mean - 1 / 3) < 4 * found.mcse).all()
    mean = result.expectation()
    assert (np.abs(mean.mean - set2.mean) < 4 * mean.mcse).all()
    second = result.expectation(lambda x: (x - set2.mean.astype(np.float32)) ** 2)
    assert (np.abs(second.mean - set2.variance) < 4 * second.mcse).all()


@pytest.mark.parametrize("seed", [0, 1])
def test_eight_modes_in_eleven_dimensions(seed):
    """F_err is about 0.003; plain tempering, without jumps, has 0.02 or more at this budget."""
    target = eight_modes(11)
    result = sahmc.sample(target.log_density, jnp.asarray(target.start, jnp.float32), random_seed=seed)
    found = result.expectation(target.indicators)
    assert np.abs(found.mean - 1 / 8).mean() < 0.01 and target.worst_z(result) < 4.5
    assert result.warmup.num_modes == 8 and result.jumps[1] > 0.3 * result.jumps[0] and result.findings == ()


def test_plain_hmc_does_not_find_the_modes(set2):
    """The twin of the test above: without the tilt it fails."""
    result = sahmc.sample(set2.log_density, jnp.zeros(2), random_seed=0, tilt="none")
    assert np.abs(result.expectation(set2.indicators).mean - 1 / 3).max() > 0.5


def test_standard_errors_are_calibrated(set1):
    """z-scores over 80 short runs, of the mean and of a mode's mass: their spread is known to 1/sqrt(160) = 0.079."""
    scores = []
    for seed in range(80):
        result = sahmc.sample(set1.log_density, jnp.zeros(2), draws=300, tune=300, random_seed=1000 + seed)
        mean, mass = result.expectation(), result.expectation(set1.indicators)
        scores.append([(mean.mean[0] - set1.mean[0]) / mean.mcse[0], (mass.mean[0] - 1 / 3) / mass.mcse[0]])
    spread = np.sqrt((np.array(scores) ** 2).mean(axis=0))
    assert (np.abs(spread - 1) < 4 / np.sqrt(2 * len(scores))).all(), spread


def test_the_papers_form_visits_regions_as_desired(set2):
    result = sahmc.sample(
        set2.log_density,
        jnp.zeros(2),
        chains=10,
        tune=20_000,
        draws=10_000,
        thin=10,
        random_seed=0,
        kernel=PAPER_HMC,
        tilt="step",
        partition=PAPER_REGIONS,
        gain=5000,
        theta="per-chain",
        adapt="always",
    )
    assert result.theta.shape == (10, 12)
    frequency = result.visits.sum(axis=0) / result.visits.sum()
    assert (frequency[:2] == 0).all()
    assert np.abs(frequency[2:] / 0.1 - 1).max() < 0.05


def papers_form(gain, **options):
    """Return a run of the paper's form (docs/reproduction.md) on three equal modes; chains start in the middle one."""
    centres = jnp.array([[-8.0, -8.0], [6.0, 6.0], [0.0, 0.0]])
    return sahmc.sample(
        lambda x: jax.nn.logsumexp(-0.5 * jnp.sum((x - centres) ** 2, axis=-1)),
        jnp.zeros(2),
        thin=10,
        random_seed=0,
        kernel=sahmc.HMC(0.3, 20, metric="unit"),
        tilt="step",
        partition=PAPER_REGIONS,
        gain=gain,
        theta="per-chain",
        adapt="always",
        **options,
    )


def test_the_papers_form_is_right_where_theta_learns_slowly():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = papers_form(100, chains=40, tune=20_000, draws=5000)
        modes = result.modes()
    assert all(str(warning.message).startswith("sahmc found problems") for warning in caught)
    assert len(modes) == 3 and all(abs(mode.mass - 1 / 3) < 4 * mode.mcse < 0.25 for mode in modes), str(modes)
    assert result.record.learnt.swing < 0.5
    assert result.record.cold.all()  # whatever its region, a draw shows that a chain was there


def test_a_theta_that_learns_too_fast_shows():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert papers_form(5000, chains=4, tune=2000, draws=1000).record.learnt.swing > 1


@pytest.mark.parametrize("kernel", ["hmc", "random_walk"])
@pytest.mark.parametrize("tilt", ["tempered", "linear", "step"])
def test_every_tilt_and_kernel_finds_the_modes(set1, tilt, kernel):
    accept = 0.8 if kernel == "hmc" else 0.3
    result = sahmc.sample(
        set1.log_density,
        jnp.zeros(2),
        tilt=tilt,
        kernel=kernel,
        tune=2000,
        draws=2000,
        target_accept=accept,
        random_seed=0,
    )
    found = result.expectation(set1.indicators)
    assert (np.abs(found.mean - 1 / 3) < 4 * found.mcse).all() and found.mcse.max() < 0.1


@pytest.mark.parametrize("name", ["hidden-units", "odd-units-8", "wells-8"])
def test_raw_log_densities_come_out_right(name):
    """Eight copies of a mode, units from 1e-3 to 1e3, sixteen wells: from one mode, and nothing set but the length."""
    target = RAW[name]()
    result = sahmc.sample(target.log_density, jnp.asarray(target.start, jnp.float32), draws=500, random_seed=0)
    found = result.expectation(target.indicators)
    assert (np.abs(found.mean - target.masses) < 4.5 * found.mcse).all() and found.mcse.max() < 0.01
    assert result.findings == () and result.warmup.reference is not None
    if target.log_normaliser is not None:
        log_z = result.log_evidence()
        assert abs(log_z.mean - target.log_normaliser) < 4 * log_z.mcse < 0.1
        assert abs(log_z.mean - target.log_normaliser - 0.2) > 4 * log_z.mcse  # of a density with another constant


def test_bent_modes_end_the_ladder_in_heat_and_have_an_integral():
    target = banana()
    result = sahmc.sample(target.log_density, jnp.asarray(target.start, jnp.float32), random_seed=0)
    assert result.warmup.reference is None and math.isfinite(result.warmup.top)
    log_z = result.log_evidence()
    assert abs(log_z.mean - math.log(2 * math.pi * 10)) < 4 * log_z.mcse < 0.4
