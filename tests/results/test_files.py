"""A run in a file comes back whole."""

import errno
import json
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from records import differences

import sahmc
from sahmc.models.model import Labels
from sahmc.results import stores

pytest.importorskip("matplotlib").use("Agg")


@pytest.mark.newest
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
    with pytest.raises(ValueError, match="rejuvenate needs the run that made the draws"):
        back.to_datatree(rejuvenate=1)
    with pytest.raises(ValueError, match="written over another"):
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


def test_names_with_slashes_are_stored(tmp_path):
    """NumPyro's scope makes them; a tree takes them for groups."""
    start = {"outer/x": jnp.zeros(2), "inner": {"outer": jnp.zeros(())}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = sahmc.sample(
            lambda p: -0.5 * jnp.sum(p["outer/x"] ** 2) - 0.5 * p["inner"]["outer"] ** 2,
            start,
            draws=20,
            tune=40,
            chains=4,
            random_seed=0,
            progressbar=False,
        )
    for name in ("run.nc", "run.zarr"):
        result.save(tmp_path / name)
        back = sahmc.Result.load(tmp_path / name)
        assert differences(back.record, result.record) == []
        assert np.array_equal(back.draws["outer/x"], result.draws["outer/x"])
    assert "outer.x" in result.to_datatree()["posterior"]


@pytest.mark.parametrize("name", ["run.nc", "run.zarr"])
def test_a_flipped_bit_is_never_loaded(result, tmp_path, name):
    """20 of them: either the content is the same all the same, as in padding, or it is refused."""
    result.save(tmp_path / name)
    files = sorted(p for p in (tmp_path / name).rglob("*") if p.is_file()) or [tmp_path / name]
    sizes = np.cumsum([p.stat().st_size for p in files])
    refused = 0
    rng = np.random.default_rng(0)
    for _ in range(20):
        where, bit = rng.integers(sizes[-1]), 1 << rng.integers(8)
        which = int(np.searchsorted(sizes, where, side="right"))
        content = files[which].read_bytes()
        broken = bytearray(content)
        broken[where - (sizes[which] - len(content))] ^= bit
        files[which].write_bytes(broken)
        try:
            back = sahmc.Result.load(tmp_path / name)
        except ValueError:
            refused += 1
        else:
            assert differences(back.record, result.record) == []
        files[which].write_bytes(content)
    assert refused > 4


class Full:
    """A file on a disk with little space left."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, data):
        self.room -= len(data)
        if self.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.file.write(data)

    def __getattr__(self, name):
        return getattr(self.file, name)


@pytest.mark.parametrize("room", [100, 3_000, 100_000, 300_000])
def test_a_full_disk_leaves_the_old_file_and_says_what_to_do(result, tmp_path, room, monkeypatch):
    path = tmp_path / "run.nc"
    path.write_text("what was there")
    patient = stores._Patient
    monkeypatch.setattr(stores, "_Patient", lambda file: patient(Full(file, room)))
    with pytest.raises(OSError, match=r"no space left in .* MiB more are needed.*still in memory"):
        result.save(path, overwrite=True)
    assert path.read_text() == "what was there" and [p.name for p in tmp_path.iterdir()] == ["run.nc"]
    monkeypatch.undo()
    result.save(path, overwrite=True)
    assert differences(sahmc.Result.load(path).record, result.record) == []


FILLED = """
import resource, signal, sys
import sahmc
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
result, told = sahmc.Result.load(sys.argv[1]), 0
for kib in (1, 30, 60, 100, 200):
    resource.setrlimit(resource.RLIMIT_FSIZE, (kib * 1024, resource.RLIM_INFINITY))
    try:
        result.save(sys.argv[2])
    except OSError:
        told += 1
sys.exit(10 + told)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="files have no largest size there")
def test_a_file_that_finds_room_for_a_part_of_it_ends_in_an_error_and_not_in_a_crash(result, tmp_path):
    """HDF crashes at the end of the process if it has read what was never written."""
    whole = tmp_path / "whole.nc"
    result.save(whole)
    assert whole.stat().st_size > 200 * 1024
    done = subprocess.run([sys.executable, "-c", FILLED, str(whole), str(tmp_path / "run.nc")], check=False)
    assert done.returncode == 15 and [path.name for path in tmp_path.iterdir()] == ["whole.nc"]


@pytest.mark.parametrize("name", ["run.nc", "run.zarr"])
def test_too_little_space_is_seen_before_anything_is_written(result, tmp_path, name, monkeypatch):
    monkeypatch.setattr(stores.shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(OSError, match="no space left"):
        result.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_store_that_cannot_be_finished_leaves_the_old_one(result, tmp_path, monkeypatch):
    path = tmp_path / "run.zarr"
    result.save(path)
    write = stores._write_zarr

    def fails(*args):
        write(*args)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(stores, "_write_zarr", fails)
    with pytest.raises(OSError, match="an older file is still there"):
        result.save(path, overwrite=True)
    assert differences(sahmc.Result.load(path).record, result.record) == []
    assert [p.name for p in tmp_path.iterdir()] == ["run.zarr"]


def test_a_store_that_could_run_code_is_not_opened(result, tmp_path):
    path = tmp_path / "run.zarr"
    result.save(path)
    about = path / "posterior" / "x" / "zarr.json"
    harmful = json.loads(about.read_text())
    harmful["codecs"] = [{"name": "numcodecs.pickle", "configuration": {}}]
    about.write_text(json.dumps(harmful))
    with pytest.raises(ValueError, match=r"numcodecs\.pickle"):
        sahmc.Result.load(path)
    about.unlink()
    (path / "posterior" / ".zarray").write_text('{"zarr_format": 2, "filters": [{"id": "pickle"}]}')
    with pytest.raises(ValueError, match="must be of format 3"):
        sahmc.Result.load(path)


def test_groups_that_others_added_do_not_matter(result, tmp_path):
    path = tmp_path / "run.nc"
    result.save(path)
    xr.Dataset({"y": ("draw", np.arange(3.0))}).to_netcdf(path, mode="a", group="predictions", engine="h5netcdf")
    assert differences(sahmc.Result.load(path).record, result.record) == []


def test_draws_are_written_without_a_copy_of_them_all(result):
    """Blocks of draws, of no more than BLOCK_BYTES each, are all of the variable."""
    values = np.arange(3 * 50_000 * 8, dtype=np.float64).reshape(3, 50_000, 8)
    streamed = stores.Streamed(
        "g", "x", ("chain", "draw", "d"), values.shape, values.dtype, lambda some: values[:, some]
    )
    parts = list(streamed.blocks())
    assert len(parts) > 2 and all(block.nbytes <= stores.BLOCK_BYTES for _, block in parts)
    assert np.array_equal(np.concatenate([block for _, block in parts], axis=1), values)


def test_the_evidence_is_sealed_too(result, tmp_path):
    result.save(tmp_path / "run.zarr")
    about = tmp_path / "run.zarr" / "zarr.json"
    content = json.loads(about.read_text())
    for name in ("prior_mass", "bridge"):
        changed = {**content, "attributes": {**content["attributes"], name: "[50.0, 0.0]"}}
        about.write_text(json.dumps(changed))
        with pytest.raises(ValueError, match="checksum"):
            sahmc.Result.load(tmp_path / "run.zarr")
    about.write_text(json.dumps(content))
    sahmc.Result.load(tmp_path / "run.zarr")


def test_a_folder_of_something_else_is_not_written_over(result, tmp_path):
    for name in ("thesis.zarr", "thesis.nc"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis.txt").write_text("three years of work")
        with pytest.raises(ValueError, match="holds something else"):
            result.save(tmp_path / name, overwrite=True)
        assert (tmp_path / name / "thesis.txt").exists()
    (tmp_path / "empty.zarr").mkdir()
    for _ in range(2):
        result.save(tmp_path / "empty.zarr", overwrite=True)
    sahmc.Result.load(tmp_path / "empty.zarr")


@pytest.mark.parametrize("name", ["run.nc", "run.zarr"])
def test_two_saves_at_once_leave_one_that_is_whole(result, tmp_path, name):
    path = tmp_path / name
    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(result.save, path, overwrite=True) for _ in range(9)]:
            done.result()
    assert differences(sahmc.Result.load(path).record, result.record) == []
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_store_whose_save_was_ended_between_old_and_new_is_put_back(result, tmp_path):
    path = tmp_path / "run.zarr"
    result.save(path)
    beside = tmp_path / ".run.zarr.sahmc-abcdefgh"
    (tmp_path / ".run.zarr.backup").mkdir()
    os.utime(tmp_path / ".run.zarr.backup", (0, 0))
    beside.mkdir()
    path.rename(beside / "old")
    assert differences(sahmc.Result.load(path).record, result.record) == []
    (beside / "part.zarr").mkdir()
    os.utime(beside, (0, 0))
    os.utime(beside / "part.zarr", (0, 0))
    result.save(path, overwrite=True)
    assert not beside.exists()  # what was left of a save that ended an hour ago
    assert (tmp_path / ".run.zarr.backup").exists()
    path.rename(tmp_path / "old")
    beside.mkdir()
    (tmp_path / "old").rename(beside / "old")
    with pytest.raises(ValueError, match="nothing is written over"):
        result.save(path)


@pytest.mark.parametrize(
    "name", ["chain", "draw", "..", "/", "a\0b", "x" * 300, "zarr.json", ".zarray", "\ud800", "a_dim_0", "b.c"]
)
def test_names_that_no_file_can_hold_are_refused_at_once(name):
    start = {name: 0.0, "a": jnp.zeros(2), "b/c": 0.0}
    with pytest.raises(ValueError, match="names that a tree of ArviZ and a file can hold") as told:
        sahmc.sample(lambda p: -0.5 * p[name] ** 2, start, progressbar=False)
    assert "To fix it" in str(told.value)


def test_names_that_are_the_same_once_dicts_are_flat_are_refused_at_once():
    with pytest.raises(ValueError, match="must have different names"):
        sahmc.sample(lambda p: -0.5 * p["a.b"] ** 2, {"a.b": 0.0, "a": {"b": 0.0}})


def test_axes_of_a_model_have_names_of_their_own(result):
    """A variable of that name would be taken for a coordinate, and disappear."""
    model = sahmc.Model(log_density=lambda p: -0.5 * jnp.sum(p["a"] ** 2), labels=Labels(dims={"a": ["a"]}))
    with pytest.raises(ValueError, match="the name of an axis"):
        sahmc.sample(model, {"a": jnp.zeros(2)})
    for dims in ({"x": ["x"]}, {"x": ["draw"]}):
        for call in (result.assign_coords, result.to_datatree):
            with pytest.raises(ValueError, match="names that no variable has"):
                call(coords={}, dims=dims)


@pytest.mark.parametrize("store", ["run.nc", "run.zarr"])
def test_backslashes_in_names_come_back(tmp_path, store):
    names = (r"$\mu$", "\\", "a%5Cb", "a\\b")
    model = sahmc.Model(
        log_density=lambda p: sum(-0.5 * jnp.sum(p[name] ** 2) for name in names),
        labels=Labels(coords={r"\place": [10, 20]}, dims={r"$\mu$": [r"\place"]}),
    )
    start = {name: jnp.zeros(2) for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = sahmc.sample(model, start, draws=20, tune=40, chains=4, random_seed=0, progressbar=False)
    result.save(tmp_path / store)
    back = sahmc.Result.load(tmp_path / store)
    assert differences(back.record, result.record) == []
    assert back.to_datatree().equals(result.to_datatree())
    assert list(back.to_datatree()["posterior"].coords[r"\place"].values) == [10, 20]
