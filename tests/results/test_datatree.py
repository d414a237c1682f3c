"""What comes back fits into ArviZ and into a file."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sahmc.testing import mixture

pytest.importorskip("matplotlib").use("Agg")


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


def test_arviz_is_told_what_it_reads_and_numpy_takes_results_as_objects(result):
    az = pytest.importorskip("arviz")
    for read in (az.summary, az.ess):
        with pytest.raises(TypeError, match=r"got a sahmc\.Result\. To fix it, pass result\.to_datatree\(\)"):
            read(result)
    assert np.asarray(result).item() is result
    both = np.array([result, result], dtype=object)
    assert both.shape == (2,) and both[0] is result
