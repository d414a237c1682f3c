import importlib.util
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from models_numpyro import MODELS, X, Y, regression
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import potential_energy

import sahmc
from sahmc.tilt.importance import weighted_mean

NAMES = list(MODELS)


def seeded(model):
    return numpyro.handlers.seed(model, jax.random.key(0))


@pytest.mark.parametrize("name", NAMES)
def test_the_log_density_is_that_of_numpyro(name):
    model, args = MODELS[name]
    with jax.enable_x64(True):
        made = sahmc.from_numpyro(model, *args)
        whole = made.log_density or (lambda z: made.log_likelihood(z) + made.log_prior(z))
        starts = [made.start(jax.random.key(seed)) for seed in range(5)]
        many = jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)
        found = jax.jit(jax.vmap(whole))(many)
        if name != "simplex":  # whose position is another than NumPyro's
            own = jax.jit(jax.vmap(lambda z: -potential_energy(seeded(model), args, {}, z)))(many)
            np.testing.assert_allclose(found, own, rtol=1e-12, atol=1e-8)
        if made.has_prior:
            density, jacobian = by_hand(model, args, made, starts[0])
            np.testing.assert_allclose(density + jacobian, found[0], rtol=1e-9, atol=1e-8)
            assert abs(density - found[0]) > 1e-3  # the twin that forgets the Jacobian


def by_hand(model, args, made, z):
    """Log density of the constrained sites, and log |det| of the map to free coordinates of these, differentiated."""
    sites = {k: v for k, v in made.constrain(z).items() if k in z}
    with numpyro.handlers.seed(rng_seed=0), numpyro.handlers.substitute(data=sites), numpyro.handlers.trace() as trace:
        model(*args)
    density = sum(float(jnp.sum(_log_prob(site))) for site in trace.values() if site["type"] == "sample")
    jacobian = 0.0
    for k, v in z.items():
        is_simplex = v.shape == (4,)
        matrix = jax.jit(jax.jacobian(lambda x, k=k: _free(made.constrain({**z, k: x})[k])))(v)
        if is_simplex:  # the sum of the logits is one more coordinate, with a density of its own
            matrix = np.concatenate([matrix, np.full((1, 4), 0.5)])
            density += float(jax.scipy.stats.norm.logpdf(0.5 * v.sum()))
        jacobian += float(np.linalg.slogdet(np.reshape(matrix, (v.size, v.size)))[1])
    return density, jacobian


def _log_prob(site):
    return site["fn"].log_prob(site["value"])


def _free(value):
    """Of a simplex all elements but the last; of a correlation's root those below the diagonal."""
    if value.ndim == 2:
        return value[np.tril_indices(len(value), -1)]
    return value[:-1] if value.shape == (4,) else value


def numpyro_means(model, args, draws=2000):
    """Constrained means by NumPyro's NUTS, and their standard errors."""
    mcmc = MCMC(
        NUTS(model), num_warmup=1000, num_samples=draws, num_chains=4, chain_method="vectorized", progress_bar=False
    )
    mcmc.run(jax.random.key(1), *args)
    samples = mcmc.get_samples(group_by_chain=True)
    even = np.full((4, draws), 1 / (4 * draws))
    return {k: weighted_mean(np.asarray(v, float), even) for k, v in samples.items()}


def check_means(name):
    model, args = MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = sahmc.sample(model, model_args=args, random_seed=0, draws=500, tune=500, progressbar=False)
    mine = result.expectation()
    for k, theirs in numpyro_means(model, args).items():
        error = 4 * np.hypot(mine.mcse[k], theirs.mcse) + 1e-6
        assert (abs(mine.mean[k] - theirs.mean) < error).all(), (k, mine.mean[k], theirs.mean, error)
    return result


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_means_are_those_of_nuts(name):
    check_means(name)


def test_variables_come_out_named_with_plates_as_dims():
    result = check_means("regression")
    tree = result.to_datatree()
    assert set(tree.posterior.data_vars) == {"offset", "slope", "scale", "mean"}
    assert tree.observed_data.y.dims == ("row",) and (result.draws["scale"] > 0).all()
    assert result.draws["slope"].shape == (32, 500, 2)
    assert np.isfinite(result.log_evidence().mean)
    again = result.summary(lambda draw: {"twice": 2 * draw["offset"]})
    np.testing.assert_allclose(again.columns["mean"][0], 2 * result.expectation().mean["offset"], rtol=1e-5)


def test_plates_are_dims_of_latent_variables():
    made = sahmc.from_numpyro(*_with(MODELS["schools"]))
    assert made.labels.dims["effect_decentered"] == ("school",) == made.labels.dims["y"]


def test_plates_are_dims_of_deterministics_where_sizes_tell():
    def model():
        with numpyro.plate("county", 3):
            a = numpyro.sample("a", dist.Normal(0, 1))
            numpyro.deterministic("twice", 2 * a)
            numpyro.deterministic("pairs", jnp.stack([a, -a], axis=-1))
            numpyro.deterministic("square", jnp.outer(a, a))
            numpyro.deterministic("total", a.sum())

    dims = sahmc.from_numpyro(model).labels.dims
    assert dict(dims) == {"a": ("county",), "twice": ("county",), "pairs": ("county", "pairs_dim_1")}


def _with(pair):
    return (pair[0], *pair[1])


@pytest.mark.newest
def test_a_run_is_kept_and_resumed(tmp_path):
    settings = {"random_seed": 0, "draws": 20, "tune": 60, "chains": 8, "tilt": "none", "progressbar": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        first = sahmc.sample(regression, model_args=(X, Y), checkpoint=tmp_path / "run", **settings)
        again = sahmc.resume(tmp_path / "run", progressbar=False)
    for name, values in first.draws.items():
        np.testing.assert_array_equal(values, again.draws[name])
    with pytest.raises(ValueError, match=r"must be this one; got .the data in the log density changed"):
        sahmc.sample(regression, model_args=(X, 2 * Y), checkpoint=tmp_path / "run", **settings)


def test_initvals_are_constrained_values():
    made = sahmc.from_numpyro(regression, X, Y)
    values = {"offset": 0.1, "slope": np.array([1.0, 2.0]), "scale": 0.5}
    back = made.constrain(made.unconstrain(values))
    for k, v in values.items():
        np.testing.assert_allclose(back[k], v, rtol=1e-5)
    assert "mean" in back and made.unconstrain(back).keys() == values.keys()  # a draw, deterministics and all
    with pytest.raises(ValueError, match=r"no \['scale'\] and an unknown \['scales'\]"):
        made.unconstrain({"offset": 0.1, "slope": values["slope"], "scales": 0.5})


@pytest.mark.parametrize("shape", [(1,), (8,)])
def test_initvals_of_another_shape_are_refused(shape):
    """One value for each chain, as NumPyro has it: broadcasting made another model of it, without a word."""

    def model():
        numpyro.sample("y", dist.Normal(numpyro.sample("m", dist.Normal(0, 1)), 1), obs=1.0)

    with pytest.raises(ValueError, match=r"'m' has \(\); got .*list of such dicts"):
        sahmc.sample(model, {"m": np.ones(shape)}, chains=8)


def test_supports_that_move_with_the_latent_values_are_kept():
    """Where data cannot leave their support no mask is computed over them; where they can, their density is zero."""

    def fixed(y):
        numpyro.sample("y", dist.HalfNormal(numpyro.sample("scale", dist.HalfNormal(3.0))), obs=y)

    def moving(y):
        with numpyro.plate("row", len(y)):
            numpyro.sample("y", dist.Uniform(0.0, numpyro.sample("top", dist.HalfNormal(9.0))), obs=y)

    def shifted(y):
        shift = numpyro.sample("shift", dist.Normal())
        numpyro.sample("y", dist.HalfNormal(1.0), obs=y - shift)

    inside = jnp.array([0.5, 1.5])
    steps = {}
    for model, low, high in (
        (fixed, {"scale": -1.0}, {"scale": 1.0}),
        (moving, {"top": 0.0}, {"top": 1.0}),
        (shifted, {"shift": 1.0}, {"shift": 0.0}),
    ):
        made = sahmc.from_numpyro(model, inside)
        likely = [bool(jnp.isfinite(made.log_likelihood(jax.tree.map(jnp.asarray, z)))) for z in (low, high)]
        steps[model.__name__] = likely, "select_n" in str(jax.make_jaxpr(made.log_likelihood)(high))
    assert steps == {
        "fixed": ([True, True], False),
        "moving": ([False, True], True),
        "shifted": ([False, True], True),
    }
    with pytest.raises(ValueError, match=r"in the support of their distribution, HalfNormal; got .*some of 'y'"):
        sahmc.from_numpyro(fixed, -inside)
    with pytest.raises(ValueError, match=r"got .*some of 'y'.*mask what is missing"):
        sahmc.from_numpyro(fixed, jnp.array([0.5, jnp.nan]))


def test_a_discrete_site_is_refused_with_what_to_do():
    def poisson(y):
        rate = numpyro.sample("count", dist.Poisson(3.0))
        numpyro.sample("y", dist.Normal(rate, 1.0), obs=y)

    with pytest.raises(ValueError, match=r"continuous; got \"discrete sites \['count'\].*MixtureSameFamily"):
        sahmc.sample(poisson, model_args=(1.0,))


def test_what_is_no_posterior_is_refused():
    def subsampled(y):
        mean = numpyro.sample("mean", dist.Normal())
        with numpyro.plate("row", 40, subsample_size=5):
            numpyro.sample("y", dist.Normal(mean, 1.0), obs=numpyro.subsample(y, 0))

    def learnt(y):
        numpyro.sample("y", dist.Normal(numpyro.param("mean", 0.0), 1.0), obs=y)

    def nothing(y):
        numpyro.sample("y", dist.Normal(0.0, 1.0), obs=y)

    for model, words in ((subsampled, "subsample_size"), (learnt, "param sites"), (nothing, "no latent site")):
        with pytest.raises(ValueError, match=words):
            sahmc.from_numpyro(model, Y)


def test_a_log_density_is_not_taken_for_a_model():
    with pytest.raises(ValueError, match="initvals are needed"):
        sahmc.sample(lambda x: -0.5 * jnp.sum(x**2))
    with pytest.raises(ValueError, match="model_args and model_kwargs are for a model of NumPyro"):
        sahmc.sample(lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(2), model_args=(1.0,))


def two_modes(y=None):
    mean = numpyro.sample("mean", dist.Normal(0, 5))
    numpyro.deterministic("size", jnp.abs(mean))
    with numpyro.plate("row", 5):
        numpyro.sample("y", dist.Normal(jnp.abs(mean), 0.4), obs=y)


@pytest.mark.newest
def test_as_a_kernel_of_numpyro():
    """Both signs of the mean have half of the mass; the weights matter, since draws are of the tilted density."""
    data = jnp.array([4.0, 4.2, 3.9, 4.1, 4.05])
    mcmc = MCMC(
        sahmc.numpyro.SAHMC(two_modes), num_warmup=300, num_samples=300, num_chains=16, chain_method="vectorized",
        progress_bar=False,
    )  # fmt: skip
    mcmc.run(jax.random.key(0), y=data, extra_fields=("log_weight", "accept_prob"))
    raw, drawn = mcmc.get_samples(), sahmc.numpyro.resample(mcmc)
    assert raw["size"].shape == (16 * 300,) and drawn["mean"].shape == (16 * 300,)
    weight = np.exp(np.asarray(mcmc.get_extra_fields(group_by_chain=True)["log_weight"], float))
    values = np.asarray(mcmc.get_samples(group_by_chain=True)["mean"], float)
    side = weighted_mean((values > 0).astype(float), weight / weight.sum())
    assert abs(side.mean - 0.5) < 4 * side.mcse < 0.4
    precision = 5 / 0.4**2 + 1 / 25
    spread = precision**-0.5
    size = weighted_mean(np.abs(values), weight / weight.sum())
    truth = float(data.sum()) / 0.4**2 / precision
    assert abs(size.mean - truth) < 4 * size.mcse < 0.1
    assert abs(drawn["size"].std() - spread) < 0.2 * spread < abs(np.asarray(raw["size"]).std() - spread)


def test_the_kernel_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match="either a model or a potential_fn"):
        sahmc.numpyro.SAHMC()
    with pytest.raises(ValueError, match="options of SAHMC"):
        sahmc.numpyro.SAHMC(two_modes, draws=3)
    mcmc = MCMC(
        sahmc.numpyro.SAHMC(potential_fn=lambda z: 0.5 * jnp.sum(z**2), tilt="none"), num_warmup=50, num_samples=20,
        num_chains=4, chain_method="vectorized", progress_bar=False,
    )  # fmt: skip
    mcmc.run(jax.random.key(0), init_params=jnp.zeros((4, 2)))
    assert mcmc.get_samples(group_by_chain=True).shape == (4, 20, 2)
    with pytest.raises(ValueError, match="log_weight"):
        sahmc.numpyro.resample(mcmc)


def test_a_discrete_site_is_summed_out_where_funsor_can():
    def model(y):
        mean = numpyro.sample("mean", dist.Normal(0, 3).expand([2]).to_event(1))
        with numpyro.plate("row", len(y)):
            which = numpyro.sample("which", dist.Bernoulli(0.5), infer={"enumerate": "parallel"})
            numpyro.sample("y", dist.Normal(jnp.where(which == 1, mean[1], mean[0]), 0.5), obs=y)

    y = np.array([-2.0, 1.9, 2.1])
    if importlib.util.find_spec("funsor") is None:
        with pytest.raises(ValueError, match=r"needs funsor; got .*'which'.*pip install funsor"):
            sahmc.from_numpyro(model, y)
        return
    made = sahmc.from_numpyro(model, y)
    centres = jnp.array([-1.0, 1.0])
    each = jnp.log(0.5) + dist.Normal(centres, 0.5).log_prob(y[:, None])
    own = jnp.sum(jax.nn.logsumexp(each, axis=1)) + jnp.sum(dist.Normal(0, 3).log_prob(centres))
    np.testing.assert_allclose(made.log_density({"mean": centres}), own, rtol=1e-5)
    assert not made.has_prior and "which" not in made.labels.dims


def test_a_prior_is_known_to_have_mass_1_where_nothing_is_masked_or_scaled():
    from numpyro import handlers

    def plain(scale=1.0, mask=True, factor=0.0):
        with handlers.scale(scale=scale) if scale != 1.0 else handlers.block(hide=[]), handlers.mask(mask=mask):
            x = numpyro.sample("x", dist.LogNormal(0.0, 1.0))
        numpyro.factor("more", factor)
        numpyro.sample("y", dist.Normal(x, 1.0), obs=0.3)

    assert sahmc.from_numpyro(plain).prior_normalised
    assert sahmc.from_numpyro(plain, factor=3.0).prior_normalised  # a factor is part of the likelihood
    assert not sahmc.from_numpyro(plain, scale=2.0).prior_normalised
    assert not sahmc.from_numpyro(plain, mask=jnp.array(False)).prior_normalised


def test_a_model_without_data_is_told_of_and_factors_are_data():
    def model(y=None, factor=None):
        x = numpyro.sample("x", dist.Normal(0, 1))
        if factor is not None:
            numpyro.factor("more", factor * x)
        if y is not None:
            numpyro.sample("y", dist.Normal(x, 1), obs=y)

    with pytest.warns(UserWarning, match="no observed data .* draws are of its prior alone"):
        sahmc.from_numpyro(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sahmc.from_numpyro(model, y=1.0)
        sahmc.from_numpyro(model, factor=1.0)
