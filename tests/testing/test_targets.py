"""The answers that targets claim are those of their densities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sahmc.testing.targets import RAW, SUITE, banana, gaussian, mixture, student_mixture, two_widths, wall


@pytest.mark.parametrize("name", SUITE)
def test_every_target_starts_where_its_density_is_finite(name):
    target = SUITE[name]()
    value, grad = jax.value_and_grad(target.log_density)(jnp.asarray(target.start, jnp.float32))
    assert np.isfinite(value) and np.isfinite(grad).all()
    assert len(target.answers(jnp.asarray(target.start, jnp.float32))) == len(target.truth)
    assert np.isclose(target.masses.sum(), 1, atol=2e-3) and target.mean.shape == target.variance.shape


def on_a_grid(target, low, high, third=None, cells=1500):
    axes = [np.linspace(a, b, cells) for a, b in zip(low, high, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))
    if third is not None:
        points = np.column_stack([points, np.full(len(points), third)])
    points = jnp.asarray(points, jnp.float32)
    log_density = np.asarray(jax.jit(jax.vmap(target.log_density))(points), float)
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    answers = np.asarray(jax.jit(jax.vmap(target.answers))(points), float)
    mean = weight @ answers
    return mean, weight @ np.asarray(points, float) ** 2 - (weight @ np.asarray(points, float)) ** 2


@pytest.mark.parametrize(
    ("target", "low", "high", "tolerance"),
    [
        (mixture(), (-15, -15), (13, 13), 1e-3),
        (two_widths(2, 0.3), (-3, -6), (14, 6), 1e-3),
        (banana(), (-60, -8), (60, 105), 1e-2),
        (gaussian(2), (-7, -7), (7, 7), 1e-3),
        (student_mixture(), (-500, -500), (520, 500), 2e-2),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_answers_in_the_plane(target, low, high, tolerance):
    mean, variance = on_a_grid(target, low, high)
    assert np.allclose(mean, target.truth, rtol=tolerance, atol=tolerance)
    assert np.allclose(variance, target.variance, rtol=10 * tolerance)


def test_answers_of_the_wall():
    mean, variance = on_a_grid(wall(), (-1, -1.2), (7, 1.2), third=0.0)
    assert np.allclose(mean[:2], wall().mean[:2], atol=5e-3) and np.allclose(
        variance[:2], wall().variance[:2], rtol=1e-2
    )
    assert wall().log_density(jnp.array([-0.1, 0.0, 0.0])) == -jnp.inf


SYMMETRIES = {
    "mixture-labels-3": lambda x: x.reshape(3, 3)[:, [1, 2, 0]].reshape(-1),
    "one-factor-10": lambda x: np.concatenate([-x[:10], x[10:]]),
    "two-rates": lambda x: x[[2, 3, 0, 1]],
    "two-lines": lambda x: np.concatenate([x[[1, 0, 3, 2, 4]], -x[5:]]),
    "hidden-units": lambda x: x * np.array([-1, 1, -1, 1, -1, 1, 1]),
    "phase-retrieval-10": lambda x: -x,
    "hidden-states": lambda x: x[[1, 0, 3, 2, 5, 4]],
}
"""A symmetry of each raw target whose modes are copies of each other."""


@pytest.mark.parametrize("name", RAW)
def test_raw_targets_know_their_modes(name):
    """Copies are copies: a symmetry leaves the density and changes the mode; a map that is none does not."""
    target = RAW[name]()
    start = np.asarray(target.start, float)
    assert np.isfinite(target.log_density(jnp.asarray(start, jnp.float32))) and np.isclose(target.masses.sum(), 1)
    assert len(target.answers(jnp.asarray(start, jnp.float32))) == len(target.truth)
    if name not in SYMMETRIES:
        return
    for shift in np.random.default_rng(0).normal(size=(5, len(start))):
        point = start + 0.05 * shift
        there = SYMMETRIES[name](point)
        values = [float(target.log_density(jnp.asarray(x, jnp.float32))) for x in (point, there, point[::-1])]
        assert np.isclose(values[0], values[1], rtol=1e-4, atol=1e-2)
        assert name == "phase-retrieval-10" or not np.isclose(values[0], values[2], rtol=1e-4, atol=1e-2)
        assert int(target.mode(jnp.asarray(point))) != int(target.mode(jnp.asarray(there)))
