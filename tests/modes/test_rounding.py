"""Where large numbers cancel, 32 bits are told from 64; elsewhere there is nothing to tell."""

import inspect
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from sahmc.engine.live import Live
from sahmc.models.energy import trace_energy
from sahmc.models.model import Labels, Model
from sahmc.models.positions import Unpacker
from sahmc.modes.rounding import off_by
from sahmc.results.findings.density import check_rounding

POINTS = np.array([[0.0, 1.0], [3.0, 5.0], [-2.0, 17.0], [0.0, 18.0]], np.float32)


def of_t(x):
    """The constant of Student's t, forty times, whose degrees of freedom are exp(x[1])."""
    nu = jnp.exp(x[1])
    return 40 * (gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * x[1]) - 0.5 * x[0] ** 2


def of_many(x):
    """A sum of many terms, rounded as usual."""
    return -0.5 * jnp.sum((jnp.linspace(-300.0, 300.0, 5000) - x[0]) ** 2) - 1e6


def outside(x):
    return -jax.pure_callback(
        lambda y: np.float32(y @ y), jax.ShapeDtypeStruct((), np.float32), x, vmap_method="sequential"
    )


def by_bits(x):
    """A function of the 32 bits of a number, which there are not in 64."""
    return -0.5 * x @ x + 0.0 * jax.lax.bitcast_convert_type(x, jnp.int32).sum()


def program(log_density, gradient=True):
    return trace_energy(Model(log_density=log_density), lambda flat: flat, jnp.zeros(2, jnp.float32), gradient)


def test_only_what_cancels_is_off():
    off = off_by(program(of_t), POINTS)
    assert (off[:2] == 0).all() and (off[2:] > 10).all()
    assert not off_by(program(of_many), POINTS).any()


def test_what_cannot_be_told_is_not_off():
    assert not off_by(program(outside, gradient=False), POINTS).any()
    assert not off_by(program(by_bits), POINTS).any()
    assert not off_by(program(of_t), POINTS.astype(float)).any()


def test_the_finding_names_the_place():
    live = SimpleNamespace(
        positions=np.broadcast_to(POINTS[0], (4, 50, 2)),
        finder=SimpleNamespace(energy_fn=program(of_t)),
        unpack=Unpacker(lambda flat: {"centre": flat[0], "log_nu": flat[1]}),
    )
    look = inspect.unwrap(Live.rounding)
    assert not list(check_rounding(*look(live, POINTS[:2]), Labels()))
    (found,) = check_rounding(*look(live, POINTS[2:3]), Labels())
    assert found.code == "precision" and found.severity == "error"
    assert "log_nu = 17" in found.sentence and "centre = -2" in found.sentence and "jax_enable_x64" in found.advice
