import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sahmc import EnergyPartition, LinearTilt, NoTilt, StepTilt, TemperatureLadder, TemperedTilt

PARTITION = EnergyPartition([1.0, 2.5, 4.0, 7.0])
LADDER = TemperatureLadder([1.0, 0.4, 0.1], reference=2.0)
TILTS = [NoTilt(), StepTilt(PARTITION), LinearTilt(PARTITION), TemperedTilt(LADDER)]
ENERGIES = jnp.array([-5.0, 0.5, 1.0, 1.7, 2.5, 3.9, 6.0, 7.0, 20.0])


@pytest.fixture(params=TILTS, ids=lambda tilt: tilt.name)
def tilt(request):
    return request.param


@pytest.fixture
def theta(tilt):
    return jnp.asarray(np.random.default_rng(0).normal(size=tilt.num_regions), jnp.float32)


def test_membership_is_a_probability(tilt, theta):
    member = jax.vmap(tilt.membership, (None, 0))(theta, ENERGIES)
    assert np.allclose(member.sum(1), 1, atol=1e-6) and (member >= 0).all()


def test_bias_is_what_membership_weighs(tilt, theta):
    """d Theta(U) / d theta = e: the update moves Theta by the gain exactly where the chain is."""
    slope = jax.vmap(jax.grad(tilt.bias), (None, 0))(theta, ENERGIES)
    expected = jax.vmap(tilt.membership, (None, 0))(theta, ENERGIES)
    assert np.allclose(slope, 0 if isinstance(tilt, NoTilt) else expected, atol=1e-5)


def test_kick_is_the_derivative_of_the_potential(tilt, theta):
    inside = jnp.array([-5.0, 0.5, 1.7, 3.0, 6.0, 20.0])
    for level in map(jnp.int32, range(len(tilt.step_scale))):
        slope = jax.vmap(jax.grad(lambda u: tilt.potential(theta, u, level)))(inside)  # noqa: B023
        assert np.allclose(slope, [tilt.kick_size(theta, level, jnp.float32(1.0))(u) for u in inside], atol=1e-5)


def test_tempered_density_is_the_sum_over_levels():
    tilt, theta = TILTS[3], jnp.array([0.3, -0.2, 1.0])
    energy = 3.7
    levels = np.exp(-np.asarray(LADDER.betas) * (energy - 2.0) - np.asarray(theta)).sum() * np.exp(-2.0)
    assert np.isclose(-energy - tilt.bias(theta, jnp.float32(energy)), np.log(levels), atol=1e-5)


def test_levels_are_drawn_with_the_responsibilities():
    tilt, theta, energy = TILTS[3], jnp.array([0.3, -0.2, 1.0]), jnp.float32(3.7)
    uniforms = (jnp.arange(100_000) + 0.5) / 100_000
    levels = np.asarray(jax.vmap(tilt.draw_level, (0, None, None))(uniforms, theta, energy))
    assert np.allclose(np.bincount(levels, minlength=3) / 1e5, tilt.membership(theta, energy), atol=2e-5)


def test_linear_force_is_clipped():
    steep = LinearTilt(PARTITION)
    theta = jnp.array([0.0, -30.0, 30.0, 30.0])
    scale = [
        float(steep.kick_size(theta, jnp.int32(0), jnp.float32(1.0))(u)) for u in jnp.array([0.0, 2.0, 3.0, 5.0, 9.0])
    ]
    assert np.allclose(scale, [1.0, 0.0, 1.0, 1.0, 1.0], atol=1e-5)


def test_weights_of_shifted_theta_agree():
    """Adding a constant to theta changes no normalised weight: what makes weights of different times comparable."""
    desired, visited = jnp.full(5, 0.2), jnp.array([False, True, True, True, True])
    tilt = StepTilt(PARTITION)
    theta = jnp.array([-40.0, 0.5, 1.0, -1.0, 2.0])

    def log_weight(theta):
        return tilt.bias(theta, jnp.float32(3.0)) - tilt.log_normaliser(theta, desired, visited)

    assert np.isclose(log_weight(theta), log_weight(theta + 7.0), atol=1e-5)
    assert np.isclose(log_weight(theta), log_weight(theta.at[0].add(-30.0)), atol=1e-5)
