"""A log density that rises without end is refused before anything is sampled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sahmc
from sahmc.engine.start import check_bounded
from sahmc.models.energy import trace_energy
from sahmc.models.model import Model


def check(log_density, start):
    start = np.asarray(start, np.float32)
    check_bounded(trace_energy(Model(log_density=log_density), lambda x: x, jnp.asarray(start), True), start)


def test_a_forgotten_minus_sign_is_told():
    with pytest.raises(ValueError, match=r"must fall, or at least not rise without end.*look for a missing minus sign"):
        sahmc.sample(lambda x: 0.5 * jnp.sum(x**2), jnp.zeros(2), progressbar=False)


@pytest.mark.parametrize("dim", [1, 30])
@pytest.mark.parametrize(
    "log_density",
    [
        lambda x: -0.5 * jnp.sum(x**2),
        lambda x: -0.5 * jnp.sum((x - 1e6) ** 2),  # rises one way
        lambda x: -jnp.sum(jnp.log1p(x**2)),
        lambda x: 0.0 * jnp.sum(x),  # flat
        lambda x: jnp.where(jnp.sum(x**2) < 100, jnp.sum(x**2), -jnp.inf),  # highest at a wall
        lambda x: jnp.logaddexp(-0.5 * jnp.sum(x**2), 50 - 0.5 * jnp.sum((jnp.abs(x) - 50) ** 2)),  # rises both ways
        lambda x: -0.5 * jnp.sum((jnp.abs(x) - 1e6) ** 2),  # the same in other units
        lambda x: jnp.sum(jnp.exp(x)) * jnp.nan,
    ],
)
def test_what_can_be_sampled_is_not_refused(log_density, dim):
    check(log_density, np.ones(dim))
    with pytest.raises(ValueError, match="rise without end"):
        check(lambda x: 0.1 * jnp.sum(x**2), np.ones(dim))


@pytest.mark.parametrize(
    "options",
    [
        dict(kernel=sahmc.HMC(0.1, 3, "unit")),
        dict(kernel=sahmc.HMC(0.1, 3, "unit"), tilt="none"),
        dict(kernel="random_walk"),
        dict(kernel=sahmc.RandomWalk(0.1, 1.0), tilt="none"),
        dict(tilt="none", tune=1),
    ],
    ids=["fixed step", "fixed step, no tilt", "random walk", "fixed random walk", "no tilt"],
)
def test_a_forgotten_minus_sign_is_told_whatever_the_kernel(options):
    with pytest.raises(ValueError, match="look for a missing minus sign"):
        sahmc.sample(lambda x: 0.5 * jnp.sum(x**2), jnp.zeros(2), progressbar=False, **options)


def test_modes_that_are_very_far_apart_in_one_coordinate_are_not_refused():
    check(lambda x: -0.5 * ((jnp.abs(x[0]) - 3e8) / 1e3) ** 2 - 0.5 * x[1] ** 2, np.zeros(2))
    with pytest.raises(ValueError, match="rise without end"):
        check(lambda x: 0.5 * x[0] ** 4 - 0.5 * x[1] ** 2, np.zeros(2))  # too large for a float, far away


def test_code_outside_jax_is_not_asked_far_away():
    asked = []

    def outside(x):
        asked.append(float(np.abs(x).max()))
        return np.float32(-0.5 * np.sum(np.square(x)))

    def log_density(x):
        return jax.pure_callback(outside, jax.ShapeDtypeStruct((), x.dtype), x, vmap_method="sequential")

    start = np.zeros(2, np.float32)
    energy_fn = trace_energy(Model(log_density=log_density), lambda x: x, jnp.asarray(start), False)
    assert check_bounded(energy_fn, start) == 0 and not any(far > 1 for far in asked)


def test_starts_of_32_bits_are_looked_at_with_64_bits_on():
    with jax.enable_x64(True):
        start = np.zeros(2, np.float32)
        energy_fn = trace_energy(
            Model(log_density=lambda x: 0.5 * jnp.sum(x**2)), lambda x: x, jnp.asarray(start), True
        )
        with pytest.raises(ValueError, match="rise without end"):
            check_bounded(energy_fn, start)


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("dim", [2, 12])
@pytest.mark.parametrize(
    "log_density",
    [
        lambda x: -(x[0] ** 2) + x[1] ** 2,
        lambda x: -1e6 * jnp.sum(x**2) + (1e6 + 1) * x[1] ** 2,  # hardly any random line rises
        lambda x: -jnp.sum(x[:2] ** 2) + 3 * x[0] * x[1],  # along no coordinate
        lambda x: -jnp.sum(jnp.log1p(x**2)) + x[1] ** 4,
    ],
)
def test_one_wrong_sign_is_told(log_density, dim, gradient):
    start = np.full(dim, 0.3, np.float32)
    energy_fn = trace_energy(Model(log_density=log_density), lambda x: x, jnp.asarray(start), gradient)
    with pytest.raises(ValueError, match="rise without end"):
        check_bounded(energy_fn, start)


def funnel(x):
    return -0.5 * (x[0] / 3) ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 0.5 * (len(x) - 1) * x[0]


def flat_funnel(x):
    return -0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 0.5 * (len(x) - 1) * x[0]


def ridge(x):
    """A proper density, Cauchy in the first coordinate, that is ever higher and narrower along it."""
    precision = jnp.minimum(x[0] ** 2, 1e30)
    return -jnp.log1p(x[0] ** 2) + jnp.sum(0.5 * precision - 0.5 * jnp.exp(jnp.minimum(precision, 80)) * x[1:] ** 2)


@pytest.mark.parametrize("start", [0.0, 0.3, -20.0])
@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize(
    "log_density",
    [
        funnel,
        flat_funnel,
        ridge,
        lambda x: -1.5 * jnp.sum(jnp.log1p(x**2 / 2)),  # Student's t with 2 degrees of freedom
        lambda x: -0.5 * jnp.sum((x / 1e6) ** 2),  # a wide prior
        lambda x: -0.5 * x[0] ** 2 + 0.0 * x[1],  # improper, flat in one coordinate
        lambda x: jnp.sum(jnp.tanh(x)) - 0.5 * x[0] ** 2,  # plateaus
        lambda x: 50 * jnp.sum(x) - jnp.sum(jnp.exp(x)),  # logs of gamma variables
        lambda x: -((1 - x[0]) ** 2) - 100 * (x[1] - x[0] ** 2) ** 2,  # Rosenbrock's
        lambda x: -0.5 * (x[0] * x[1] - 1e6) ** 2 - 1e-3 * jnp.sum(x**2),  # a product, in large units
        lambda x: 20 * jnp.sum(jnp.log(jnp.abs(x))) - jnp.sum(jnp.abs(x)),  # a pole at the start
    ],
)
def test_proper_densities_of_strange_shape_are_not_refused(log_density, gradient, start):
    start = np.full(3, start, np.float32)
    energy_fn = trace_energy(Model(log_density=log_density), lambda x: x, jnp.asarray(start), gradient)
    check_bounded(energy_fn, start)


def test_models_with_known_answers_are_not_refused():
    for make in sahmc.testing.SUITE.values():
        target = make()
        check(target.log_density, target.start)
