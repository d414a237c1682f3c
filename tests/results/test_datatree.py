"""What comes back fits into ArviZ and into a file."""

import json
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from records import differences

import sahmc
from sahmc.testing import mixture

pytest.importorskip("matplotlib").use("Agg")
unchecked_sample = getattr(sahmc.sample, "__wrapped__", sahmc.sample)  # the library's own checks, not those of types


@pytest.fixture(scope="module")
def result():
    def log_density(p):
        return mixture(-6.0, 4.0).log_density(p["x"]) - 0.5 * jnp.sum(p["y"] ** 2)

    start = {"x": jnp.zeros(2), "y": jnp.zeros((2, 2))}
    return sahmc.sample(
        log_density, start, draws=400, tune=500, chains=8, random_seed=0, progressbar=False, save_warmup=True
    )


@pytest.fixture(scope="module")
def tree(result):
    return result.to_datatree(coords={"axis": ["east", "north"]}, dims={"x": ["axis"]})


def test_groups_and_names(result, tree):
    assert set(tree.children) == {
        "posterior",
        "sample_stats",
        "weighted_posterior",
        "weighted_sample_stats",
        "warmup_posterior",
        "warmup_sample_stats",
        "sahmc",
    }
    assert tree["posterior"]["x"].dims == ("chain", "draw", "axis") and tree["posterior"]["y"].shape == (8, 400, 2, 2)
    assert list(tree["posterior"]["axis"].values) == ["east", "north"]
    assert {"lp", "diverging", "acceptance_rate", "step_size"} <= set(tree["sample_stats"].data_vars)
    assert {"log_weight", "region", "energy"} <= set(tree["weighted_sample_stats"].data_vars)
    assert np.array_equal(tree["weighted_posterior"]["x"].values, result.draws["x"])
    assert tree["sahmc"]["theta"].shape == tree["sahmc"]["visits"].shape == tree["sahmc"]["beta"].shape
    assert tree["warmup_posterior"].sizes["chain"] == 8
    attributes = tree["posterior"].attrs
    assert attributes["inference_library"] == "sahmc" and json.loads(attributes["settings"])["random_seed"] == 0
    assert "created_at" in attributes


def test_the_posterior_has_equal_weights(result, tree):
    """Its mean is the weighted mean, to within what resampling adds; that of the raw draws is not."""
    fine, equal = result.expectation(), tree["posterior"]["x"].mean(("chain", "draw")).values
    assert (np.abs(equal - fine.mean["x"]) < fine.mcse["x"]).all()
    lp = tree["sample_stats"]["lp"].values
    density = jax.vmap(jax.vmap(lambda x, y: mixture(-6.0, 4.0).log_density(x) - 0.5 * jnp.sum(y**2)))
    posterior = tree["posterior"]
    assert np.allclose(lp, density(posterior["x"].values, posterior["y"].values), atol=1e-3)


def test_draws_keep_their_order_in_time(result):
    chain, draw = result.resample_index(result.energy.size)
    flat = chain * result.energy.shape[1] + draw
    assert (np.diff(flat) >= 0).all() and (np.diff(flat) == 0).any()


def test_rejuvenated_draws_do_not_repeat(result):
    tree = result.to_datatree(rejuvenate=4)
    plain = result.to_datatree()
    x = tree["posterior"]["x"].values.reshape(-1, 2)
    assert len(np.unique(plain["posterior"]["x"].values.reshape(-1, 2), axis=0)) < 0.8 * len(x)
    assert len(np.unique(x, axis=0)) > 0.99 * len(x)
    fine, equal = result.expectation(), tree["posterior"]["x"].mean(("chain", "draw")).values
    assert (np.abs(equal - fine.mean["x"]) < 2 * fine.mcse["x"]).all()
    spread = tree["posterior"]["y"].std().item()
    assert abs(spread - 1) < 0.1


def test_bad_names_are_named(result):
    with pytest.raises(ValueError, match="'x', 'y'"):
        result.to_datatree(dims={"z": ["axis"]})
    with pytest.raises(ValueError, match="rejuvenate must be"):
        result.to_datatree(rejuvenate=-1)


def test_arviz_statistics(tree):
    arviz_stats = pytest.importorskip("arviz_stats")
    table = arviz_stats.summary(tree, var_names=["x", "y"])
    assert len(table) == 6 and {"mean", "sd", "r_hat", "ess_bulk"} <= set(table.columns)
    ess = arviz_stats.ess(tree, var_names=["x"])
    ess = ess["posterior"]["x"] if "posterior" in getattr(ess, "children", {}) else ess["x"]
    assert (np.asarray(ess) > 10).all()


def test_arviz_plots(tree, tmp_path):
    arviz_plots = pytest.importorskip("arviz_plots")
    picture = tmp_path / "pair.png"
    arviz_plots.plot_pair(tree, var_names=["x"]).savefig(str(picture))
    assert picture.stat().st_size > 5000
    arviz_plots.plot_trace(tree, var_names=["x"])


def test_the_umbrella_package(result, tree):
    az = pytest.importorskip("arviz")
    if az.__version__.startswith("0."):
        data = result.to_inferencedata(coords={"axis": ["east", "north"]}, dims={"x": ["axis"]})
        assert {"posterior", "sample_stats", "sahmc"} <= set(data.groups())
    else:
        data = tree
        with pytest.raises(ValueError, match="to_datatree"):
            result.to_inferencedata()
    assert len(az.summary(data, var_names=["x", "y"])) == 6
    assert np.asarray(az.ess(data, var_names=["x"])["x"]).min() > 10
    az.plot_pair(data, var_names=["x"])


@pytest.mark.parametrize("name", ["run.nc", "run.zarr"])
def test_saved_and_loaded(result, tmp_path, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # zarr's, of strings
        result.save(tmp_path / name)
        back = sahmc.Result.load(tmp_path / name)
    assert differences(back.record, result.record) == []
    assert jax.tree.structure(back.draws) == jax.tree.structure(result.draws)
    assert np.array_equal(back.draws["y"], result.draws["y"])
    assert back.findings == result.findings and repr(back) == repr(result) and str(back.warmup) == str(result.warmup)
    assert back.warmup.climb.hottest == result.warmup.climb.hottest and back.warmup_draws.values["x"].shape[0] == 8
    assert str(back.summary()) == str(result.summary()) and str(back.modes()) == str(result.modes())
    assert np.allclose(back.log_omega(), result.log_omega())
    assert json.loads(json.dumps(back.settings)) == json.loads(json.dumps(result.settings))
    with pytest.raises(ValueError, match="rejuvenate needs the model"):
        back.to_datatree(rejuvenate=1)
    with pytest.raises(ValueError, match="not written over"):
        result.save(tmp_path / name)


def test_what_is_no_result_is_refused(tmp_path, tree):
    (tmp_path / "text.nc").write_text("nothing")
    tree["posterior"].to_dataset().to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    for name, word in (("none.nc", "does not exist"), ("text.nc", "cannot be read"), ("other.nc", "Result.save")):
        with pytest.raises(ValueError, match=word):
            sahmc.Result.load(tmp_path / name)


@pytest.mark.parametrize("tilt", ["step", "none"])
def test_every_tilt_is_stored(tilt, tmp_path, set1):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = sahmc.sample(
            set1.log_density,
            jnp.zeros(2),
            tilt=tilt,
            theta="per-chain" if tilt == "step" else "shared",
            draws=60,
            tune=100,
            chains=8,
            random_seed=0,
            progressbar=False,
        )
        result.save(tmp_path / "run.nc")
    back = sahmc.Result.load(tmp_path / "run.nc")
    assert differences(back.record, result.record) == [] and back.tilt.name == tilt and repr(back) == repr(result)
    assert np.allclose(back.log_omega(), result.log_omega(), equal_nan=True)


def test_summary(result):
    summary = result.summary()
    table = summary.to_dataframe()
    assert list(table.index)[:3] == ["x[0]", "x[1]", "y[0, 0]"] and len(table) == 6
    fine = result.expectation()
    assert np.allclose(table["mean"][:2], fine.mean["x"]) and np.allclose(table["mcse"][:2], fine.mcse["x"])
    assert np.allclose(table["ess"][:2], result.ess()["x"])
    assert (table["hdi_3%"] < table["mean"]).all() and (table["mean"] < table["hdi_97%"]).all()
    text, page = str(summary), summary._repr_html_()
    assert "y[1, 1]" in text and "r_hat" in text and "seed 0" in text and "<table>" in page
    assert all(finding.code in text and finding.code in page for finding in result.findings)
    own = result.summary(lambda p: {"sum": p["x"].sum()}).to_dataframe()
    assert list(own.index) == ["sum"] and np.isclose(own["mean"].iloc[0], fine.mean["x"].sum(), atol=1e-4)
    with pytest.raises(ValueError, match="prob"):
        result.summary(prob=94.0)


def test_the_interval_is_the_shortest_that_holds_enough(result):
    """Of y, a standard normal under the weights: about -1.88 to 1.88; of the raw draws it would be far wider."""
    table = result.summary().to_dataframe().loc["y[0, 0]"]
    assert abs(table["hdi_97%"] - 1.88) < 0.35 and abs(table["hdi_3%"] + 1.88) < 0.35
    assert np.quantile(result.draws["y"][..., 0, 0], 0.97) > 2.3


def test_keep_reduces_positions_on_the_fly(set1):
    options = {"draws": 100, "tune": 200, "chains": 8, "random_seed": 0, "progressbar": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = sahmc.sample(set1.log_density, jnp.zeros(2), **options)
        part = sahmc.sample(set1.log_density, jnp.zeros(2), **options, keep=lambda x: {"sum": x.sum(), "high": x > 0})
    assert np.allclose(part.draws["sum"], whole.draws.sum(axis=-1), atol=1e-5)
    assert part.draws["high"].dtype == bool and np.array_equal(part.draws["high"], whole.draws > 0)
    assert np.isclose(part.expectation().mean["sum"], whole.expectation(lambda x: x.sum()).mean, atol=1e-4)
    with pytest.raises(ValueError, match="keep="):
        part.modes()
    for bad, word in ((3, "function of a position"), (lambda x: {}, "return arrays"), (lambda x: float(x[0]), "JAX")):
        with pytest.raises(ValueError, match=word):
            unchecked_sample(set1.log_density, jnp.zeros(2), **options, keep=bad)


def test_progress_is_told(set1):
    told = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sahmc.sample(set1.log_density, jnp.zeros(2), draws=100, tune=200, chains=8, random_seed=0, callback=told.append)
    stages = list(dict.fromkeys(p.stage for p in told))
    assert stages == ["pilot", "climb", "adapt", "draw"]
    last = {p.stage: p for p in told}
    assert last["draw"].done == last["draw"].total and last["adapt"].regions > 1
    assert all(0 <= p.acceptance_rate <= 1 and p.done <= p.total for p in told)
