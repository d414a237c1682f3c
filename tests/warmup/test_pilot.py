"""The pilot, from starts that are no good."""

import jax.numpy as jnp

import sahmc


def test_a_chain_on_a_plateau_goes_on_where_others_are():
    """Far out the density is flat and absurdly low; without help that chain would stay there, at weight zero."""

    def log_density(x):
        return jnp.where(x[0] > 50, -1e5, -0.5 * jnp.sum(x**2))

    starts = [jnp.full(2, 100.0), *(jnp.full(2, 0.1 * k) for k in range(15))]
    result = sahmc.sample(log_density, starts, chains=16, draws=100, tune=400, random_seed=0, progressbar=False)
    assert "1 chains could not come down" in repr(result.warmup)
    assert not any(finding.code == "stranded" for finding in result.findings)  # dealt with, so no fault of the draws
    assert result.warmup.pilot.stranded == 1 and (result.log_density > -1000).all()
    mean = result.expectation()
    assert (abs(mean.mean) < 4 * mean.mcse).all()
