"""The barrier is that of the best path, and is said to be found only if it is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import ndimage
from wells import ORIGIN, SCALES, A, B, barrier_between, bent_wells, modes_of, well

import sahmc
from sahmc.barrier import string_method
from sahmc.testing import eight_modes


def flooded(log_density, one, other, spacing=0.025):
    """The water level at which two points of the plane lie in one lake, by filling a grid: another way altogether."""
    axis = np.arange(-11, 9 + spacing / 2, spacing)
    grid = jnp.asarray(np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1))
    energy = -np.asarray(jax.jit(jax.vmap(jax.vmap(log_density)))(grid))
    cells = [tuple(np.round((np.asarray(x) - axis[0]) / spacing).astype(int)) for x in (one, other)]
    low, high = 0.0, 100.0
    while high - low > 2e-3:
        level = 0.5 * (low + high)
        lakes = ndimage.label(energy <= level, structure=np.ones((3, 3)))[0]
        joined = lakes[cells[0]] == lakes[cells[1]] != 0
        low, high = (low, level) if joined else (level, high)
    return high


@pytest.mark.parametrize(
    ("name", "one", "other", "saddle"),
    [
        ("set1", ORIGIN, A, 8.14),
        ("set1", ORIGIN, B, 11.44),
        ("set1", A, B, 11.44),
        ("set2", ORIGIN, A, 13.09),
        ("set2", ORIGIN, B, 22.97),
        ("set2", B, A, 22.97),
    ],
)
def test_saddles_of_the_papers_mixture(request, name, one, other, saddle):
    """The best path between the outer modes goes by the one in the middle, over the higher of the two saddles."""
    target = request.getfixturevalue(name)
    found = barrier_between(target, one, other)
    assert found.converged
    assert abs(found.saddle_energy - saddle) < 0.01
    assert abs(found.saddle_energy - flooded(target.log_density, modes_of(target)[one], modes_of(target)[other])) < 0.02
    assert found.height == found.saddle_energy - found.energy[0]
    assert np.allclose(jax.grad(target.log_density)(jnp.asarray(found.saddle)), 0, atol=0.05)


def test_what_comes_back_is_one_path(set1):
    found = barrier_between(set1, ORIGIN, B)
    again = -np.asarray(jax.vmap(set1.log_density)(jnp.asarray(found.path)))
    assert np.allclose(found.energy, again, atol=1e-5)
    assert found.path[0].tolist() == [0, 0] and found.path[-1].tolist() == [4, 4]
    assert np.allclose(np.diff(found.distance), np.linalg.norm(np.diff(found.path, axis=0), axis=1), atol=1e-6)
    assert np.diff(found.distance).max() < found.distance[-1] / 400
    assert found.saddle.tolist() == found.path[np.argmax(found.energy)].tolist()
    assert found.tilted_energy is None and found.tilted_height is None
    assert not found.energy.flags.writeable
    assert repr(found).startswith("<sahmc.EnergyBarrier: height 8.50; highest energy 11.44, converged, 3")


def test_best_path_leaves_the_straight_line_for_other_modes():
    """Eight modes in 11 dimensions: from one group to the other at edge sqrt(d - 2), however far the mode there is."""
    dim, edge = 11, 10.0
    log_density = eight_modes(dim, edge).log_density
    alternating = edge * (np.arange(3, dim) % 2)
    high = lambda *corner: jnp.asarray(np.r_[corner, edge, edge - alternating], jnp.float32)  # noqa: E731
    low = lambda *corner: jnp.asarray(np.r_[corner, 0.0, alternating], jnp.float32)  # noqa: E731
    start, known = high(edge, edge), (dim - 2) * edge**2 / 8 - np.log(2)
    for end, barrier in (
        (low(edge, edge), known),
        (low(0.0, 0.0), known),
        (high(0.0, edge), edge**2 / 8 - np.log(2)),
    ):
        found = sahmc.energy_barrier(log_density, start, end)
        assert found.converged and abs(found.height - barrier) < 0.01
    middle = -float(log_density(0.5 * (start + low(0.0, 0.0))))
    assert middle + float(log_density(start)) > known + 20


def test_scales_may_differ_by_eight_orders_and_positions_be_any_pytree():
    found = sahmc.energy_barrier(bent_wells, well(-1), well(1))
    assert found.converged and abs(found.height - 8) < 0.01
    assert {name: leaf.shape[1:] for name, leaf in found.path.items()} == {"tiny": (1,), "plain": (), "huge": (1, 1)}
    for name, place in (("tiny", 0.0), ("plain", 0.0), ("huge", 4.0)):
        assert abs(float(found.saddle[name].sum()) / SCALES[name] - place) < 0.1
    assert all(np.array_equal(found.path[name][-1], well(1)[name]) for name in SCALES)


def ring(hole, wall):
    """A valley of radius 2 around a hole; outside |x[0]| > wall the density is zero or, in the hole, undefined."""
    hole, wall, radius = (jnp.array([value]) for value in (hole, wall, 2.0))

    def log_density(x):
        away = jnp.linalg.norm(x)
        value = -8 * (away - radius[0]) ** 2 - 0.5 * (x[0] - radius[0]) ** 2
        return jnp.where(away > hole[0], jnp.where(jnp.abs(x[0]) > wall[0], value, -jnp.inf), jnp.nan)

    return log_density


@pytest.mark.parametrize(("x1", "height"), [(-2.0, 0.0), (2.0, 8.0)])
def test_no_barrier_but_the_ends_and_the_way_round_a_hole(x1, height):
    """Downhill all the way the height is 0; the other way it is the climb. The straight line is undefined."""
    ends = jnp.array([x1, 0.0]), jnp.array([-x1, 0.0])
    found = sahmc.energy_barrier(ring(1.0, -1.0), *ends)
    assert np.isfinite(found.energy).all() and found.converged
    assert abs(found.height - height) < 2e-3 and np.linalg.norm(found.path, axis=1).min() > 1


def test_a_wall_without_a_gap_is_an_error():
    with pytest.raises(ValueError, match=r"a path of finite energies must join x1 and x2.*9 paths.*raise paths"):
        sahmc.energy_barrier(ring(1.0, 0.5), jnp.array([-2.0, 0.0]), jnp.array([2.0, 0.0]))


def test_a_search_cut_short_does_not_call_itself_converged():
    found = sahmc.energy_barrier(bent_wells, well(-1), well(1), steps=1)
    assert found.height > 9 and not found.converged and "NOT converged" in repr(found)


def test_a_path_that_hugs_a_wall_does_not_call_itself_converged():
    """The valley lies under the hole, so the best path runs along the edge, where there is a slope."""
    found = sahmc.energy_barrier(ring(2.2, -1.0), jnp.array([2.5, 0.0]), jnp.array([-2.5, 0.0]))
    assert np.isfinite(found.energy).all() and not found.converged


NODES = np.arange(2.0, 21.0, 2.0)


BETAS = np.array([1.0, 0.5, 0.2])


PARTITION = sahmc.EnergyPartition(NODES)


def tempered_energy(energy, theta):
    return -np.log(np.sum(np.exp(-BETAS * energy - theta)))


def test_a_linear_tilt_lowers_the_barrier_by_its_slope(set1):
    """Theta falls by 0.8 for each nat of energy, so that 0.2 of the known barrier is left."""
    found = barrier_between(set1, ORIGIN, A, tilt=sahmc.LinearTilt(PARTITION), theta=-0.8 * NODES)
    plain = barrier_between(set1, ORIGIN, A)
    known = 8.1415 + float(set1.log_density(jnp.zeros(2)))
    assert abs(found.tilted_height - 0.2 * known) < 1e-3
    assert found.height == plain.height and np.array_equal(found.path, plain.path)
    assert f"height {found.height:.2f}, {found.tilted_height:.2f} after the tilt" in repr(found)


@pytest.mark.parametrize(
    ("theta", "highest"),
    [
        # Region i holds energies up to 2 (i + 1); U goes from 2.94 to 8.14 and takes all values between.
        ([0.0, 0, -2, -4, -6, -8, -8, -8, -8, -8, -8], 4.0),
        # Made too flat: region 2, half way up, has become the barrier. No path avoids its energies.
        ([0.0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0], 11.0),
    ],
)
def test_a_step_tilt_lifts_whole_regions_whatever_the_path(set1, theta, highest):
    found = barrier_between(set1, ORIGIN, A, tilt=sahmc.StepTilt(PARTITION), theta=theta)
    assert 0 <= highest - (found.tilted_height - float(set1.log_density(jnp.zeros(2)))) < 0.03


def test_a_tempered_tilt_lowers_the_barrier_by_the_sum_of_its_levels(set2):
    theta = np.array([0.0, 1.5, 4.0])
    tilt = sahmc.TemperedTilt(sahmc.TemperatureLadder(BETAS))
    found = barrier_between(set2, ORIGIN, B, tilt=tilt, theta=theta)
    bottom, top = (tempered_energy(energy, theta) for energy in (-float(set2.log_density(jnp.zeros(2))), 22.9736))
    assert abs(found.tilted_height - (top - bottom)) < 2e-3 and found.tilted_height < 0.5 * found.height
    assert np.allclose(found.tilted_energy, [tempered_energy(energy, theta) for energy in found.energy], atol=1e-4)


def test_with_a_model_the_tilt_leaves_the_prior_alone(set1):
    """Mixture = likelihood x prior: the barrier is that of both together, Theta acts on the likelihood."""

    def log_prior(x):
        return -0.01 * jnp.sum(x**2)

    model = sahmc.Model(lambda x: set1.log_density(x) - log_prior(x), log_prior)
    settings = dict(tilt=sahmc.LinearTilt(PARTITION), theta=-0.8 * NODES)
    modes = modes_of(set1)
    found = sahmc.energy_barrier(model, modes[ORIGIN], modes[A], **settings)
    prior = 0.01 * np.sum(found.path**2, axis=1)
    assert found.converged and abs(found.saddle_energy - 8.1415) < 1e-3
    likelihood = found.energy - prior
    assert np.allclose(found.tilted_energy, found.energy + np.interp(likelihood, NODES, -0.8 * NODES), atol=1e-4)


def test_the_density_is_called_once_and_other_data_compile_nothing(set1, set2):
    calls = 0

    def search(target):
        def log_density(x):
            nonlocal calls
            calls += 1
            return target.log_density(x)

        return sahmc.energy_barrier(log_density, modes_of(target)[ORIGIN], modes_of(target)[A])

    first = search(set1)
    compiled = string_method.relax_round._cache_size()
    second = search(set2)
    assert calls == 2 and string_method.relax_round._cache_size() == compiled
    assert [round(barrier.saddle_energy, 2) for barrier in (first, second)] == [8.14, 13.09]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(x2=jnp.zeros(3)), "x1 and x2 must have the same structure and shapes"),
        (dict(x2={"a": jnp.zeros(2)}), "x1 and x2 must have the same structure and shapes"),
        (dict(x2=jnp.zeros(2, int)), r"floating-point arrays .*; got .*at x2"),
        (dict(x2=jnp.full(2, 1e30)), "the log density must be finite at x1 and x2"),
        (dict(tilt=sahmc.LinearTilt(PARTITION)), "theta of shape None.*result.tilt and result.theta"),
        (dict(theta=np.zeros(10)), r"NoneType of 0 regions, theta of shape \(10,\)"),
        (dict(tilt=sahmc.LinearTilt(PARTITION), theta=np.zeros((4, 10))), r"theta\[chain\] if every chain has its own"),
        (dict(tilt=sahmc.StepTilt(PARTITION), theta=np.zeros(10)), "StepTilt of 11 regions"),
        (dict(images=2), "images must be a whole number of at least 3"),
        (dict(paths=0), "paths must be a whole number of at least 1"),
        (dict(steps=0), "steps must be a whole number of at least 1"),
        (dict(log_density=lambda x: x), "a log density must return one real number"),
    ],
)
def test_bad_input_is_an_error_that_says_what_to_do(set1, change, message):
    given = dict(log_density=set1.log_density, x1=jnp.zeros(2), x2=jnp.ones(2)) | change
    with pytest.raises(ValueError, match=message):
        sahmc.energy_barrier(**given)
