"""A log density that rises without end is refused before anything is sampled."""

import jax.numpy as jnp
import numpy as np
import pytest

import sahmc
from sahmc.models.energy import trace_energy
from sahmc.models.model import Model
from sahmc.run.start import check_bounded


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
