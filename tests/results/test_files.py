"""A run in a file comes back whole."""

import json
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from records import differences

import sahmc

pytest.importorskip("matplotlib").use("Agg")


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
