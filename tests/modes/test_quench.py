"""Many points go to the bottom of whatever basin they come to."""

import jax.numpy as jnp
import numpy as np

from sahmc.models.energy import trace_energy
from sahmc.models.model import Model
from sahmc.modes.quench import quench, quench_all


def program(log_density, dim):
    return trace_energy(Model(log_density=log_density), lambda flat: flat, jnp.zeros(dim, jnp.float32), True)


def test_a_long_narrow_valley_is_no_obstacle():
    """A condition of ten thousand, turned at random: gradient descent would take thousands of steps."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(20, 20)))[0]
    curve = jnp.asarray(turn @ np.diag(np.geomspace(1, 1e4, 20)) @ turn.T, jnp.float32)
    fn = program(lambda x: -0.5 * x @ curve @ x, 20)
    start = rng.normal(size=(96, 20)).astype(np.float32)
    _, energy, at_rest, steps = quench(fn, start, np.ones(20, np.float32), 300)
    assert np.asarray(at_rest).all() and np.asarray(energy).max() < 0.5 and int(steps) < 300
    _, early, resting, _ = quench(fn, start, np.ones(20, np.float32), 5)
    assert not np.asarray(resting).any() and np.asarray(early).min() > 0.5


def test_walls_and_bends_are_survived():
    """Points behind a wall stay where they are; Rosenbrock's valley is followed to its end."""
    fn = program(lambda x: jnp.where(x[0] > -5, -100 * (x[1] - x[0] ** 2) ** 2 - (1 - x[0]) ** 2, -jnp.inf), 2)
    start = np.array([[-9.0, 0.0], [-1.2, 1.0], [2.0, -3.0]], np.float32)
    end, energy, at_rest, _ = (np.asarray(part) for part in quench(fn, start, np.ones(2, np.float32), 300))
    assert (end[0] == start[0]).all() and energy[0] == np.inf and not at_rest[0]
    assert at_rest[1:].all() and np.allclose(end[1:], 1.0, atol=0.05)


def test_a_minimum_narrower_than_the_precision_is_one():
    """Steps of 32 bits are a third of its width. No step leads down, and no slope is small enough to be at rest."""
    width = 3e-6
    fn = program(lambda x: -133.0 - 0.5 * jnp.sum(((x - 8.1281611) / width) ** 2), 2)
    starts = (8.128161 + np.linspace(0, 3 * width, 4, dtype=np.float32)[:, None] * np.ones(2)).astype(np.float32)
    ends, _, at_rest, cost = quench_all(fn, starts, np.full(2, width, np.float32), 1000)
    assert at_rest.all() and np.abs(ends - 8.1281611).max() < width and cost < 400
