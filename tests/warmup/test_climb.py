"""Finding the top: chains are heated until they forget, and cooled until they remember."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import sahmc
from sahmc.landscape.descent import come_down
from sahmc.models.energy import trace_energy
from sahmc.results.warmup_record import Climb, Pilot, Rung
from sahmc.run.plan import make_plan
from sahmc.testing.targets import eight_modes, student_mixture, two_widths
from sahmc.warmup.curve import fit_curve
from sahmc.warmup.ladder import LOWEST_TOP, TOP_OVER_MELTING, build_ladder, find_top


def rung(beta, dim=6, memory=0.0, lag=0.0):
    """A Gaussian well of lowest energy 3: mean 3 + (d/2) T, variance (d/2) T^2."""
    t = 1 / beta
    return Rung(beta, 3 + dim / 2 * t + lag, dim / 2 * t * t, t**0.5, 1.0, memory)


def climb(temperatures, memories, lag=0.0, **flags):
    hot = sorted(temperatures, reverse=True)
    down = tuple(rung(1 / t, memory=m, lag=lag) for t, m in zip(hot, memories, strict=True))
    up = tuple(rung(1 / t, lag=-lag) for t in reversed(hot))
    return Climb(up, down, **{"ran_away": False, "slow": False, **flags})


def test_the_curve_of_a_gaussian_well_is_exact():
    """log Z(beta) = -(d/2) log beta, sd(beta U) constant, though the chains lag behind the temperature."""
    curve = fit_curve(climb(1.5 ** np.arange(12), [0.0] * 12, lag=0.1), 0.0, 3.0, 6.0)
    betas = curve.levels(1 / 40, 2 / 3, 4)
    wanted = math.ceil(math.sqrt(3) * math.log(40) * 1.5) + 1
    assert betas[0] == 1 and betas[-1] == 1 / 40 and wanted == 11 and len(betas) == 12
    log_z, step = curve.at(betas)
    assert np.allclose(log_z, -3 * np.log(betas), atol=1e-6)
    assert np.allclose(np.diff(np.log(betas)), np.log(1 / 40) / (len(betas) - 1))
    assert np.allclose(step, betas**-0.5)
    assert math.isclose(curve.hottest_within(math.sqrt(3) * math.log(5)), 5, rel_tol=1e-6)


def test_the_top_lies_above_where_chains_forget():
    found = climb([1, 3, 9, 27, 81], [0.1, 0.5, 0.3, 0.95, 0.99])
    assert math.isclose(found.melting, 9) and find_top(found, 32, True, False) == TOP_OVER_MELTING * 9
    assert find_top(found, 32, False, False) == LOWEST_TOP and math.isinf(find_top(found, 32, True, True))
    never = climb([1, 3, 9], [0.9, 0.95, 0.99])
    assert math.isinf(never.melting) and math.isclose(find_top(never, 32, True, False), 9)


def pilot(prior_share):
    return Pilot(dim=6.0, mean_energy=6.0, u_min=3.0, prior_share=prior_share, step_size=0.5)


@pytest.mark.parametrize("tilt", ["linear", "step", "tempered"])
def test_every_tilt_has_a_ladder_up_to_the_prior(tilt):
    """Its top temperature is infinite; nodes and subregions must end all the same, where the prior's energies are."""
    model = sahmc.Model(lambda x: -jnp.sum(x**2), lambda x: -0.01 * jnp.sum(x**2))
    plan = make_plan(
        model, draws=1, tune=100, chains=8, thin=1, target_accept=0.8, kernel="hmc", tilt=tilt, partition=None,
        gain=None, desired=None, theta="shared", adapt="tune", jumps=True,
    )  # fmt: skip
    share = 0.01
    betas = np.geomspace(share, 1 + share, 8) - share
    betas[0] = 0.0
    down = tuple(rung(beta) if beta else rung(1e-3) for beta in betas)
    ladder = build_ladder(plan, pilot(share), Climb((), down, False, False), many=True)
    assert math.isinf(ladder.top) and 4 <= ladder.tilt.num_regions < 200
    if tilt != "tempered":
        highest = float(ladder.tilt.partition.edges[-1])
        assert abs(highest - (3.0 + 3.0 * (1 + share) / share)) < 2.5


@pytest.mark.parametrize("tune", [100, 1000])
def test_tails_too_heavy_for_more_heat_bound_the_ladder(tune):
    """exp(-U/T) is improper from T = 3 on: without a bound chains would run away for ever."""
    target = student_mixture()
    with pytest.warns(UserWarning, match="tails are so heavy"):
        result = sahmc.sample(target.log_density, jnp.asarray(target.start, jnp.float32), random_seed=0, tune=tune)
    assert result.warmup.climb.ran_away and result.warmup.top < 5
    assert np.abs(result.draws).max() < 1e5
    found = result.expectation(target.indicators)
    assert (np.abs(found.mean - target.masses) < 4 * found.mcse).all()


def test_absurd_starts_come_down_and_others_stay():
    target = eight_modes(5)
    energy_fn = trace_energy(sahmc.Model(log_density=target.log_density), lambda x: x, jnp.zeros(5), True)
    high = jnp.stack([jnp.full(5, 800.0), jnp.asarray(target.start, jnp.float32) + 1.5])
    low, _ = come_down(energy_fn, high)
    assert -target.log_density(high[0]) > 1e6 and -target.log_density(low[0]) < 2000
    assert np.array_equal(low[1], high[1])
    result = sahmc.sample(target.log_density, high[0], random_seed=0)
    found = result.expectation(target.indicators)
    assert np.abs(found.mean - 1 / 8).max() < 0.03 and result.findings == ()


def test_a_mode_that_hot_chains_cannot_find_again_is_kept():
    """Narrow, 0.3 of the width of the other, d = 10: chains that leave do not come back, but they can jump."""
    target = two_widths(10, 0.3, "narrow")
    start = jnp.asarray(target.start, jnp.float32)
    result = sahmc.sample(target.log_density, start, random_seed=0)
    assert np.abs(result.expectation(target.indicators).mean - target.masses).max() < 0.02 and result.findings == ()
    with pytest.warns(UserWarning, match="found problems"):
        alone = sahmc.sample(target.log_density, start, random_seed=0, jumps=False)
    assert np.abs(alone.expectation(target.indicators).mean - target.masses).max() > 0.05


def test_the_record_of_a_model_names_the_prior():
    model = sahmc.Model(lambda x: -2.0 * jnp.sum((x - 1) ** 2), lambda x: -0.5 * jnp.sum(x**2))
    with pytest.warns(UserWarning, match="found problems"):
        result = sahmc.sample(model, jnp.zeros(2), random_seed=0, draws=50, tune=100)
    assert "came down from the prior" in repr(result.warmup) and "up to the prior" in repr(result.warmup)


def test_the_record_prints_what_was_chosen():
    target = eight_modes(3)
    result = sahmc.sample(target.log_density, jnp.asarray(target.start, jnp.float32), random_seed=0, draws=50, tune=200)
    text = repr(result.warmup)
    assert all(word in text for word in ("pilot", "climb", "8 known", "ladder", "adaptation", "gradients"))
    assert sum(result.warmup.gradients.values()) < result.num_gradients


def test_a_chain_on_a_plateau_goes_on_where_others_are():
    """Far out the density is flat and absurdly low; without help that chain would stay there, at weight zero."""

    def log_density(x):
        return jnp.where(x[0] > 50, -1e5, -0.5 * jnp.sum(x**2))

    starts = [jnp.full(2, 100.0), *(jnp.full(2, 0.1 * k) for k in range(15))]
    with pytest.warns(UserWarning, match="1 chain could not come down from the start"):
        result = sahmc.sample(log_density, starts, chains=16, draws=100, tune=400, random_seed=0, progressbar=False)
    assert result.warmup.pilot.stranded == 1 and (result.log_density > -1000).all()
    mean = result.expectation()
    assert (abs(mean.mean) < 4 * mean.mcse).all()
