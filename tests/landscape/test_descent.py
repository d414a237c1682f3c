"""Ways downhill."""

import jax.numpy as jnp
import numpy as np

import sahmc
from sahmc.landscape.quench import come_down
from sahmc.models.energy import trace_energy
from sahmc.testing.targets import eight_modes


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
