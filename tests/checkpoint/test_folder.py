"""A run that is killed goes on to the same bits, and what is torn is never taken for whole."""

import dataclasses
import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import warnings
from contextlib import closing
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from records import differences

import sahmc
from sahmc.checkpoint import folder as checkpoint
from sahmc.checkpoint import journal
from sahmc.checkpoint.folder_lock import FolderLock
from sahmc.checkpoint.identity import HASHED
from sahmc.checkpoint.journal import DiskJournal
from sahmc.checkpoint.stage_files import read_stage
from sahmc.engine import identity
from sahmc.engine import loop as run
from sahmc.engine.plan import Plan
from sahmc.sampling import outcome

OPTIONS = {"draws": 300, "tune": 120, "chains": 8, "random_seed": 3, "progressbar": False}


def log_density(x):
    return jnp.logaddexp(-0.5 * jnp.sum((x - 4) ** 2), -0.5 * jnp.sum((x + 4) ** 2))


def sample(model=log_density, start=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return sahmc.sample(model, jnp.zeros(3) if start is None else start, **{**OPTIONS, **options})


def same(one, two):
    """Whether all that two runs have made is the same, but for the time they took."""
    return not differences(one.record, two.record, but=("record.settings['sampling_time']",))


@pytest.fixture(scope="module")
def whole():
    return sample()


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "kept"
    sample(checkpoint=folder)
    return folder


@pytest.fixture
def complete(kept, tmp_path):
    shutil.copytree(kept, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def copy(complete):
    """A run that has made all its draws and was killed before it was examined."""
    (complete / journal.RESULT).unlink()
    return complete


def never(*args):
    raise AssertionError("something was done anew")


@pytest.mark.newest
def test_keeping_a_run_changes_no_bit_of_it_and_a_complete_one_is_gone_through_without_a_move(whole, copy, monkeypatch):
    monkeypatch.setattr(run, "run_chunk", never)
    again = sample(checkpoint=copy)
    assert same(whole, again) and isinstance(again.draws.base, np.memmap)
    assert (copy / journal.RESULT).exists()


def test_a_complete_run_is_read_back_and_only_then_gone_through_when_something_is_asked(whole, complete, monkeypatch):
    with monkeypatch.context() as patch:
        for name in ("warm_up", "examine", "start_chains"):
            patch.setattr(outcome, name, never)
        again = sample(checkpoint=complete)
        assert same(whole, again) and same(whole, sahmc.resume(complete, progressbar=False))
        assert isinstance(again.draws.base, np.memmap)
        assert again.settings["sampling_time"] > 0 and again.live.has_positions
    assert np.array_equal(again.live.step_scale, whole.live.step_scale)
    assert len(list(complete.iterdir())) < 10


def test_all_that_a_run_may_keep_is_read_back(tmp_path, monkeypatch):
    """A prior apart, trajectories that grow, something kept in place of positions, and draws of the warm-up."""
    model = sahmc.Model(log_likelihood=log_density, log_prior=lambda x: -0.05 * jnp.sum(x**2))
    options = {"draws": 20, "tune": 40, "chains": 4, "kernel": "nuts", "tilt": "none", "save_warmup": True}
    options |= {"keep": lambda x: {"sum": x.sum(), "far": x > 0}, "checkpoint": tmp_path / "run"}
    one = sample(model, **options)
    monkeypatch.setattr(outcome, "warm_up", never)
    two = sample(model, **options)
    assert same(one, two) and two.warmup_draws is not None and two.record.draws.tree_depth is not None


@pytest.mark.parametrize("name", [journal.RESULT, "*-draw.rows", "*-draw.state"])
def test_a_complete_run_with_a_torn_file_is_gone_through_again(name, whole, complete):
    path = next(complete.glob(name))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert same(whole, sample(checkpoint=complete))


class Killed(BaseException):
    pass


def cut_small(monkeypatch):
    """Chunks of ``FIRST_CHUNK`` moves, whatever the speed of the machine, with a record after each."""
    monkeypatch.setattr(journal, "RECORD_SECONDS", 0.0)
    monkeypatch.setattr(run, "CHUNK_SECONDS", 0.0)


@pytest.fixture(scope="module")
def num_chunks(tmp_path_factory):
    original, count = run.run_chunk, 0

    def counted(*args):
        nonlocal count
        count += 1
        return original(*args)

    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        patch.setattr(run, "run_chunk", counted)
        sample(checkpoint=tmp_path_factory.mktemp("run") / "counted")
    return count


@pytest.mark.parametrize("share", np.linspace(0.0, 1.0, 15))
def test_a_run_that_dies_in_any_chunk_is_resumed_to_the_same_bits(share, whole, num_chunks, tmp_path, monkeypatch):
    """Dead without a chance to write anything: neither ``end`` nor ``close`` of the journal is called."""
    original, calls, last = run.run_chunk, 0, 1 + round(share * (num_chunks - 1))
    cut_small(monkeypatch)

    def dying(*args):
        nonlocal calls
        calls += 1
        if calls == last:
            monkeypatch.setattr(DiskJournal, "end", lambda self: None)
            raise Killed
        return original(*args)

    monkeypatch.setattr(run, "run_chunk", dying)
    with pytest.raises(Killed):
        sample(checkpoint=tmp_path / "run")
    monkeypatch.undo()
    assert same(whole, sample(checkpoint=tmp_path / "run"))


ROOT = Path(__file__).parent.parent.parent


SCRIPT = """
import os, signal, sys, threading, warnings
sys.path.append("tests/helpers")
import jax
import jax.numpy as jnp
import sahmc
from sahmc.checkpoint import journal
from sahmc.engine import loop as run
from tests.checkpoint.test_folder import OPTIONS, log_density
warnings.simplefilter("ignore")
journal.RECORD_SECONDS, run.CHUNK_SECONDS = 0.0, 0.0
folder, number, after = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
count = 0
def arm(_):
    global count
    count += 1
    if count == number:
        threading.Timer(after, os.kill, (os.getpid(), signal.SIGKILL)).start()
sahmc.sample(log_density, jnp.zeros(3), **OPTIONS, checkpoint=folder, callback=arm)
"""


@pytest.mark.newest
def test_killed_for_good_and_resumed(whole, tmp_path):
    """By the operating system, in the middle of whatever it does, again and again. 20 moments: SAHMC_KILLS=20."""
    moments = random.Random(0)
    killed = runs = 0
    while killed < int(os.environ.get("SAHMC_KILLS", "2")):
        when = str(moments.randint(1, 90)), str(moments.uniform(0.0, 0.02))
        folder = tmp_path / f"run{runs}"
        done = subprocess.run([sys.executable, "-c", SCRIPT, str(folder), *when], check=False, cwd=ROOT)
        assert done.returncode in (0, -signal.SIGKILL)
        if done.returncode == 0:
            assert same(whole, sample(checkpoint=folder))
            runs += 1
        killed += done.returncode != 0
    assert same(whole, sample(checkpoint=tmp_path / f"run{runs}"))


def test_a_file_torn_at_every_tenth_byte_is_refused_or_done_again(complete):
    """Never taken for whole: all that is read is either what was written or forgotten."""
    stem = next(complete.glob("*-draw.state")).with_suffix("")
    for path in sorted(p for p in complete.iterdir() if p.stat().st_size and p.name != journal.LOG):
        content = path.read_bytes()
        step = 10 if len(content) < 10_000 else len(content) // 500
        for cut in range(0, len(content), step):
            path.write_bytes(content[:cut])
            if path.name == checkpoint.RUN:
                with pytest.raises(ValueError, match="nothing was changed"):
                    checkpoint.recorded(complete)
            elif path.name == checkpoint.CALL:
                with pytest.raises(ValueError, match=r"call sahmc\.sample again"):
                    sahmc.resume(complete)
            elif path.name in (journal.RESULT, journal.ASKED):
                assert journal.unsealed(path) is None
            else:
                assert read_stage(stem) is None
        path.write_bytes(content)
    assert read_stage(stem) is not None


@pytest.mark.parametrize("share", [0.0, 0.1, 0.6, 0.999])
@pytest.mark.parametrize("name", [journal.LOG, "*-draw.state", "*-draw.rows"])
def test_a_run_with_a_torn_file_ends_in_the_same_bits(share, name, whole, copy):
    path = next(copy.glob(name))
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    assert same(whole, sample(checkpoint=copy))


@pytest.mark.parametrize("name", [journal.LOG, "*-draw.rows"])
def test_a_flipped_bit_is_seen(name, whole, copy):
    path = next(copy.glob(name))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert same(whole, sample(checkpoint=copy))


def listing(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


@pytest.mark.newest
@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"tune": 121}, "tune is 120 in the checkpoint and 121 here"),
        ({"random_seed": 4}, "random_seed is 3 in the checkpoint and 4 here"),
        ({"model": lambda x: -0.5 * jnp.sum(x**2)}, "the steps of the log density changed"),
        ({"model": lambda x: jnp.logaddexp(-0.5 * jnp.sum((x - 5) ** 2), -0.5 * jnp.sum((x + 4) ** 2))}, "log density"),
        ({"start": jnp.ones(3)}, "where chains start changed"),
        ({"kernel": sahmc.HMC(0.1, 3)}, "kernel"),
        ({"partition": sahmc.TemperatureLadder.geometric(30, 6)}, "tilt"),
        ({"keep": lambda x: x[0]}, "keep"),
    ],
)
def test_another_run_is_refused_and_nothing_changes(change, word, copy):
    before = listing(copy)
    with pytest.raises(ValueError, match=word):
        sample(checkpoint=copy, **change)
    assert listing(copy) == before


def test_a_folder_with_something_else_in_it_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match=r"thesis\.tex"):
        sample(checkpoint=tmp_path)
    assert listing(tmp_path) == {"thesis.tex": b"years of work"}
    with pytest.raises(ValueError, match="choose another folder"):
        sample(checkpoint=tmp_path / "thesis.tex")
    with pytest.raises(ValueError, match="holds none"):
        sahmc.resume(tmp_path / "nothing")


def test_a_folder_that_cannot_be_written_to_is_refused_before_anything_is_computed(tmp_path, monkeypatch):
    def never(x):
        raise AssertionError("the log density was called")

    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path)
    for folder in (tmp_path, tmp_path / "new" / "run"):
        with pytest.raises(ValueError, match=f"can be written to; got '{tmp_path}, which cannot'"):
            sahmc.sample(never, jnp.zeros(2), checkpoint=folder)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_read_or_made_is_told(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"a folder that can be read; got .*too long\. To fix it"):
        checkpoint.recorded(tmp_path / ("x" * 300))

    def refuse(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(ValueError, match=r"a folder that can be made; got .*Read-only file system\. To fix it"):
        checkpoint.open_checkpoint(tmp_path / "run", {}, 0, {})


def test_two_processes_do_not_write_to_one_folder(copy):
    with closing(FolderLock(copy)), pytest.raises(ValueError, match="one process at a time"):
        sample(checkpoint=copy)


def test_of_two_runs_begun_at_once_in_a_new_folder_one_is_refused(tmp_path, monkeypatch):
    """The second comes while the first writes down its model; it must neither replace it nor be given its draws."""
    quick = {"draws": 20, "tune": 40, "checkpoint": tmp_path / "run"}
    dumps, refused = checkpoint.cloudpickle.dumps, []

    def slow_dumps(arguments):
        monkeypatch.setattr(checkpoint.cloudpickle, "dumps", dumps)
        with pytest.raises(ValueError, match="one process at a time") as error:
            sample(lambda x: -0.5 * jnp.sum((x + 5) ** 2), **quick)
        refused.append(error)
        return dumps(arguments)

    monkeypatch.setattr(checkpoint.cloudpickle, "dumps", slow_dumps)
    sample(lambda x: -0.5 * jnp.sum((x - 5) ** 2), **quick)
    assert refused
    with pytest.raises(ValueError, match="must be this one"):
        sample(lambda x: -0.5 * jnp.sum((x + 5) ** 2), **quick)


def test_stages_of_another_run_are_refused(copy, tmp_path):
    sample(checkpoint=tmp_path / "other", random_seed=4)
    for pattern in ("[0-9]*", journal.LOG):
        for path in (tmp_path / "other").glob(pattern):
            shutil.copy(path, copy / path.name)
        with pytest.raises(ValueError, match="of another run"):
            sample(checkpoint=copy)


def mirrored(sign):
    """Two data sets whose energies at the origin agree, inside a nested jit."""
    data = sign * np.arange(3, dtype=np.float32)
    return jax.jit(lambda x: -0.5 * jnp.sum((x - data) ** 2))


def called_back(sign):
    """Two functions without any text, whose values at the origin agree."""

    def log_density(x):
        value = lambda x: np.float32(-0.5 * np.sum((np.asarray(x) - sign) ** 2))  # noqa: E731
        return jax.pure_callback(value, jnp.zeros(()), x, vmap_method="sequential")

    return log_density


@pytest.mark.parametrize(
    ("model", "kernel", "word"),
    [
        (mirrored, "hmc", "the data in the log density changed"),
        (called_back, "random_walk", "the values of the log density .* changed"),
    ],
)
def test_changed_data_that_leave_the_energy_of_the_start_are_seen(model, kernel, word, tmp_path):
    quick = {"draws": 20, "tune": 40, "chains": 4, "kernel": kernel, "checkpoint": tmp_path / "run"}
    sample(model(1.0), **quick)
    sample(model(1.0), **quick)
    with pytest.raises(ValueError, match=word):
        sample(model(-1.0), **quick)


def test_settings_that_change_bits_are_seen(copy, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    with pytest.raises(ValueError, match=r"XLA_FLAGS is .* here"):
        sample(checkpoint=copy)


@pytest.mark.parametrize("examined", [True, False])
def test_a_complete_run_in_a_folder_that_can_only_be_read(examined, whole, complete, monkeypatch):
    copy = complete
    if not examined:
        (copy / journal.RESULT).unlink()

    def read_only(path, mode="r", **options):
        if mode not in ("r", "rb"):
            raise PermissionError(path)
        return open(path, mode, **options)

    before = listing(copy)
    monkeypatch.setattr(Path, "open", read_only)
    assert same(whole, sample(checkpoint=copy))
    monkeypatch.undo()
    assert listing(copy) == before
    for path in copy.glob("*-draw.*"):
        path.unlink()
    monkeypatch.setattr(Path, "open", read_only)
    with pytest.raises(ValueError, match="copy it to a place of your own"):
        sample(checkpoint=copy)


def test_a_record_that_is_no_text_is_a_damaged_run(copy):
    (copy / "run.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="checkpoint"):
        sample(checkpoint=copy)


def test_files_have_the_modes_that_the_user_gives_to_new_ones(copy):
    assert len({path.stat().st_mode for path in copy.iterdir() if path.is_file()}) == 1


def test_left_overs_are_cleared_away_and_files_of_others_are_not(whole, copy):
    (copy / ".part-abc").write_text("half a state")
    (copy / "999-notes.txt").write_text("mine")
    next(copy.glob("*-draw.state")).unlink()
    assert same(whole, sample(checkpoint=copy))
    assert not (copy / ".part-abc").exists() and (copy / "999-notes.txt").read_text() == "mine"


def test_a_seed_that_was_drawn_is_found_again(tmp_path):
    quick = {"draws": 20, "tune": 40, "random_seed": None, "checkpoint": tmp_path / "run"}
    one = sample(**quick)
    assert same(one, sample(**quick)) and one.settings["random_seed"] >= 0


def test_an_interrupted_run_is_resumed(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "CHUNK_SECONDS", 0.0)

    def stop(progress):
        if progress.stage == "draw" and progress.done > progress.total / 2:
            raise KeyboardInterrupt

    part = sample(checkpoint=tmp_path / "run", callback=stop)
    assert part.settings["interrupted"] and part.draws.shape[1] < 300
    assert same(whole, sahmc.resume(tmp_path / "run", progressbar=False))


@pytest.mark.newest
def test_every_setting_of_a_run_belongs_to_its_identity():
    """A checkpoint made with another one is refused; ``moves`` follow from the kernel and ``spent`` from the run."""
    known = {*identity.PLAIN, *HASHED, "moves", "spent"}
    assert {field.name for field in dataclasses.fields(Plan)} <= known
