import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pymc as pm
import pytest
from models_pymc import MODELS, regression

import sahmc
from sahmc.tilt.importance import weighted_mean

NAMES = list(MODELS)


@pytest.fixture(autouse=True)
def as_pytensor_has_it(precision):
    """Whichever test comes first."""
    jax.config.update("jax_enable_x64", True)


NEW = int(pm.__version__.split(".")[0]) >= 6


def quietly(model, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return sahmc.sample(model, random_seed=0, progressbar=False, **options)


@pytest.mark.parametrize("name", NAMES)
def test_the_log_density_is_that_of_pymc(name):
    with jax.enable_x64(True):
        model = MODELS[name]()
        made = sahmc.from_pymc(model)
        whole = made.log_density or (lambda z: made.log_likelihood(z) + made.log_prior(z))
        assert made.has_prior == (name != "improper")
        own = {flag: model.compile_logp(jacobian=flag, mode="FAST_COMPILE") for flag in (True, False)}
        starts = [made.start(jax.random.key(seed)) for seed in range(5)]
        found = jax.jit(jax.vmap(whole))(jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts))
        points = [{k: np.asarray(v, float) for k, v in z.items()} for z in starts]
        # PyTensor's own JAX and C disagree on the Cholesky factor's prior by 1e-7
        close = 1e-6 if name == "correlation" else 1e-8
        if name == "simplex":  # whose position has one more coordinate than PyMC's, with a density of its own
            z = starts[0]["share_simplex__"]
            points = [{"share_simplex__": np.asarray(z - z.mean())[:-1]}]
            matrix = jax.jacobian(lambda z: made.constrain({"share_simplex__": z})["share"][:-1])(z)
            volume = np.linalg.slogdet(np.concatenate([matrix, np.full((1, 4), 0.5)]))[1]
            pin = jax.scipy.stats.norm.logpdf(0.5 * z.sum())
            np.testing.assert_allclose(found[0], own[False](points[0]) + volume + pin, rtol=1e-9, atol=close)
        else:
            np.testing.assert_allclose(found, [own[True](point) for point in points], rtol=1e-12, atol=close)
        if any(k.endswith("__") for k in points[0]):  # the twin that forgets the Jacobian
            assert abs(float(own[False](points[0])) - float(found[0])) > 1e-3


def check_means(name, draws=1000):
    model = MODELS[name]()
    result = quietly(model, draws=500, tune=500)
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = pm.sample(draws, tune=1000, chains=4, cores=1, random_seed=1, progressbar=False)
    mine, even = result.expectation(), np.full((4, draws), 1 / (4 * draws))
    posterior = theirs["posterior"] if NEW else theirs.posterior
    for k, mean in mine.mean.items():
        values = np.asarray(posterior[k].values, float)
        own = weighted_mean(values, even)
        error = 4 * np.hypot(mine.mcse[k], own.mcse) + 1e-6
        assert (abs(mean - own.mean) < error).all(), (k, mean, own.mean, error)
    return result, theirs


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_means_are_those_of_nuts(name):
    check_means(name)


@pytest.mark.slow
def test_the_datatree_has_what_pm_sample_returns():
    result, theirs = check_means("regression")
    tree = result.to_datatree()
    posterior = theirs["posterior"] if NEW else theirs.posterior
    for name, variable in posterior.data_vars.items():
        assert tree.posterior[name].dims == variable.dims
    assert list(tree.posterior.coords["predictor"].values) == ["first", "second"]
    observed, constant = (theirs[g] if NEW else getattr(theirs, g) for g in ("observed_data", "constant_data"))
    np.testing.assert_array_equal(tree.observed_data.y, observed["y"])
    np.testing.assert_array_equal(tree.constant_data.x, constant["x"])
    assert tree.constant_data.x.dims == ("row", "predictor")


def test_pymc_goes_on_from_our_draws():
    model = regression()
    result = quietly(model, draws=50, tune=100, chains=8, tilt="none")
    assert {"offset", "slope[first]", "slope[second]", "mean[39]"} <= set(result.summary().names)
    ours = result.to_datatree() if NEW else result.to_inferencedata()
    with model:
        likelihood = pm.compute_log_likelihood(ours, progressbar=False)
        predictive = pm.sample_posterior_predictive(ours, progressbar=False, random_seed=0)
    group = likelihood["log_likelihood"] if NEW else likelihood.log_likelihood
    draw = {k: v[0, 0] for k, v in result.to_datatree().posterior.data_vars.items()}
    mean = float(draw["offset"]) + np.asarray(model["x"].get_value()) @ draw["slope"].values
    scale, y = float(draw["scale"]), result.labels.observed_data["y"]
    by_hand = -0.5 * ((y - mean) / scale) ** 2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(group["y"].values[0, 0], by_hand, rtol=1e-4, atol=1e-4)
    made = predictive["posterior_predictive"] if NEW else predictive.posterior_predictive
    assert made["y"].shape == (8, 50, 40)


@pytest.mark.newest
def test_a_first_run_is_kept_and_resumed(tmp_path):
    """In a process of its own: the first model that PyTensor sees switches JAX to 64 bits."""
    script = """
import warnings
import numpy as np, pymc as pm, sahmc
warnings.simplefilter("ignore")
with pm.Model() as model:
    pm.Normal("y", pm.Normal("mean", 0, 2), pm.HalfNormal("scale", 1), observed=[0.3, 0.5, 1.0])
first = sahmc.sample(model, checkpoint="run", random_seed=0, draws=20, tune=60, chains=8, tilt="none",
                     progressbar=False)
again = sahmc.resume("run", progressbar=False)
assert first.draws["mean"].dtype == np.float64
assert all((values == again.draws[name]).all() for name, values in first.draws.items())
"""
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)


def test_initvals_may_be_of_some_variables():
    made = sahmc.from_pymc(regression())
    back = made.constrain(made.unconstrain({"scale": 0.25}))
    np.testing.assert_allclose(back["scale"], 0.25, rtol=1e-5)
    draw = {name: np.asarray(value) for name, value in back.items()}  # deterministics and all
    np.testing.assert_allclose(made.constrain(made.unconstrain(draw))["scale"], 0.25, rtol=1e-5)
    with pytest.raises(ValueError, match=r"free variables.*'scales'"):
        made.unconstrain({"scales": 0.25})
    with pytest.raises(ValueError, match=r"'scale' has \(\); got .*\(8,\)"):
        made.unconstrain({"scale": np.full(8, 0.25)})


def test_arguments_of_another_front_end_are_refused():
    with pm.Model() as model:
        pm.Normal("x")
    with pytest.raises(ValueError, match="for a model of NumPyro; got 'Model without a site"):
        sahmc.sample(model, model_args=(1.0,))


def test_a_discrete_variable_is_refused_with_what_to_do():
    with pm.Model() as model:
        count = pm.Poisson("count", 3.0)
        pm.Normal("y", count, 1.0, observed=1.0)
    with pytest.raises(ValueError, match=r"continuous; got \"discrete \['count'\]\".*pm.Mixture"):
        sahmc.sample(model)


def test_a_prior_is_known_to_have_mass_1_unless_a_transform_cuts_its_support():
    with pm.Model() as whole:
        pm.HalfNormal("a")
        pm.Dirichlet("b", np.ones(3))
        pm.Normal("y", 0, 1, observed=0.3)
    assert sahmc.from_pymc(whole).prior_normalised
    with pm.Model() as ordered:
        pm.Normal("a", 0, 1, shape=2, initval=[-1, 1], transform=pm.distributions.transforms.ordered)
        pm.Normal("y", 0, 1, observed=0.3)
    assert not sahmc.from_pymc(ordered).prior_normalised


def test_a_model_without_data_is_told_of_and_potentials_are_data():
    def model(y=None, potential=False):
        with pm.Model() as made:
            x = pm.Normal("x")
            if potential:
                pm.Potential("more", -(x**2))
            if y is not None:
                pm.Normal("y", x, observed=y)
        return made

    with pytest.warns(UserWarning, match="no observed data .* draws are of its prior alone"):
        sahmc.from_pymc(model())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        sahmc.from_pymc(model(y=1.0))
        sahmc.from_pymc(model(potential=True))
