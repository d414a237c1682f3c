"""Finding the top: chains are heated until they forget, and cooled until they remember."""

import jax.numpy as jnp
import numpy as np
import pytest

import sahmc
from sahmc._support import thinning
from sahmc.testing import eight_modes
from sahmc.testing.targets import student_mixture, two_widths
from sahmc.tilt.importance import weighted_mean
from sahmc.warmup import climb


@pytest.mark.parametrize("tune", [100, 1000])
def test_tails_too_heavy_for_more_heat_bound_the_ladder(tune):
    """exp(-U/T) is improper from T = 3 on: without a bound chains would run away for ever."""
    target = student_mixture()
    start = jnp.asarray(target.start, jnp.float32)
    result = sahmc.sample(target.log_density, start, random_seed=0, tune=tune, reference=False)
    assert result.warmup.climb.ran_away and result.warmup.top < 5
    assert any("run away" in note for note in result.warmup.notes)
    assert np.abs(result.draws).max() < 1e5
    found = result.expectation(target.indicators)
    assert (np.abs(found.mean - target.masses) < 4 * found.mcse).all()


def test_a_mode_that_hot_chains_cannot_find_again_is_kept():
    """Narrow, 0.3 of the width of the other, d = 10: chains that leave do not come back, but they can jump."""
    target = two_widths(10, 0.3, "narrow")
    start = jnp.asarray(target.start, jnp.float32)
    result = sahmc.sample(target.log_density, start, random_seed=0)
    assert np.abs(result.expectation(target.indicators).mean - target.masses).max() < 0.02 and result.findings == ()
    with pytest.warns(UserWarning, match="found problems"):
        alone = sahmc.sample(target.log_density, start, random_seed=0, jumps=False, reference=False)
    assert np.abs(alone.expectation(target.indicators).mean - target.masses).max() > 0.05


def test_a_mode_three_hundred_spreads_away_is_found():
    """Far beyond the climb: scouts see it, and jumps do the rest. Before, it was missed without a finding."""
    place = jnp.array([300.0, 0.0])

    def log_density(x):
        return jnp.logaddexp(-0.5 * jnp.sum(x**2), -0.5 * jnp.sum((x - place) ** 2))

    result = sahmc.sample(log_density, jnp.zeros(2), draws=400, tune=600, random_seed=0, progressbar=False)
    found = result.expectation(lambda x: (x[0] > 150.0).astype(float))
    assert abs(found.mean - 0.5) < 4 * found.mcse < 0.1 and result.findings == ()


def test_what_looks_like_running_away_may_be_a_wider_mode():
    """Its mass is 0.7, it is fifty times as wide as the mode where chains start, and hot chains leap into it."""

    def log_density(x):
        narrow = jnp.log(0.3) - 0.5 * jnp.sum((x / 0.02) ** 2) - 8 * jnp.log(0.02)
        return jnp.logaddexp(narrow, jnp.log(0.7) - 0.5 * jnp.sum((x - 6 * jnp.eye(8)[0]) ** 2))

    result = sahmc.sample(log_density, jnp.zeros(8), random_seed=3, progressbar=False)
    wide = weighted_mean((np.abs(result.draws).max(axis=-1) > 0.3)[..., None].astype(float), result.weight)
    assert result.warmup.climb.ran_away and abs(wide.mean[0] - 0.7) < 4 * wide.mcse[0] and wide.mcse[0] < 0.02


def test_some_chains_teach_what_all_would(monkeypatch):
    """The warm-up examines a bounded number of chains; without it, work on the host would grow with their number."""
    target = eight_modes(3)
    start, seen, compare = jnp.asarray(target.start, jnp.float32), [], climb._largest_correlation
    monkeypatch.setattr(climb, "_largest_correlation", lambda one, two: seen.append(len(one)) or compare(one, two))
    runs = []
    for most in (thinning.MOST_CHAINS, 24):
        monkeypatch.setattr(thinning, "MOST_CHAINS", most)
        seen.clear()
        runs.append(sahmc.sample(target.log_density, start, chains=96, draws=60, tune=150, random_seed=0))
        found = runs[-1].expectation(target.indicators)
        assert (np.abs(found.mean - target.masses) < 4 * found.mcse).all() and found.mcse.max() < 0.03
        assert seen and max(seen) == min(most, 96)
    whole, some = (run.warmup for run in runs)
    assert some.pilot.mean_energy == pytest.approx(whole.pilot.mean_energy, abs=0.3)
    assert some.pilot.step_size == pytest.approx(whole.pilot.step_size, rel=0.1) and some.num_modes == whole.num_modes
    assert [rung.beta for rung in some.climb.down] == pytest.approx([rung.beta for rung in whole.climb.down], rel=0.1)
