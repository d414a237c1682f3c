"""A run kept in a folder: its identity, and how to resume it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypedDict

import cloudpickle
import jax

from sahmc._support.hosts import agreed
from sahmc._support.sealed_files import FULL, PART, sealed, told_of_space, unsealed, write_whole
from sahmc._support.validate import as_path, require, require_writable
from sahmc.checkpoint.folder_lock import LOCK, FolderLock
from sahmc.checkpoint.identity import different, digest, require_one_run
from sahmc.checkpoint.journal import SPARE_BYTES, DiskJournal, Journal
from sahmc.checkpoint.shared_journal import SharedJournal

RUN, CALL = "run.json", "call.pickle"
"""The file that identifies the run, and the one with the arguments of ``sample``."""
AGAIN = "call sahmc.sample again, with the same arguments and this checkpoint"
"""The advice if the stored arguments cannot be used."""


class About(TypedDict):
    """The identity of a run, and the recorded form of its seed."""

    identity: dict[str, object]
    seed: int | list[int]


def stored_arguments(checkpoint: str | Path) -> dict[str, Any]:
    """Return the arguments of ``sample`` that started the run in a folder, or raise ``ValueError``.

    They are pickled, so load only checkpoints you trust.
    """
    path = as_path(checkpoint, "checkpoint")
    require(_run_in(path) is not None, "a checkpoint holds a run", f"{path}, which holds none", "check the path")
    content = unsealed(path / CALL)
    require(content is not None, "the arguments of the run must be in the checkpoint", f"no whole {path / CALL}", AGAIN)
    assert content is not None
    try:
        return pickle.loads(content)
    except Exception as error:
        raise ValueError(f"the stored model cannot be loaded here: {error!r}. To fix it, {AGAIN}.") from error


def recorded(checkpoint: str | Path) -> About | None:
    """Return the identity and seed of the run in a folder, or None if it holds no run yet.

    Raises ``ValueError`` for a folder with other files, a damaged run, or a folder that is not writable. Of several
    processes only the first one writes, so writability is checked later.
    """
    path = as_path(checkpoint, "checkpoint")
    about = _run_in(path)
    if about is None and jax.process_count() == 1:
        require_writable(path)
    return about


def _run_in(path: Path) -> About | None:
    """Return the record of the run in a folder, or None; raise ``ValueError`` if the folder holds something else."""
    try:
        text = (path / RUN).read_text()
    except FileNotFoundError:
        strange = (
            [p.name for p in path.iterdir() if p.name not in (CALL, LOCK) and not p.name.startswith(PART)]
            if path.is_dir()
            else []
        )
        require(
            not strange,
            "checkpoint must be a folder that is new, empty or holds a run",
            f"{path} with {strange[0] if strange else ''} in it",
            "choose another folder; nothing was changed",
        )
        return None
    except (NotADirectoryError, UnicodeDecodeError):
        text = ""
    except OSError as error:
        raise ValueError(
            f"checkpoint must be a folder that can be read; got {str(path)!r}: {error.strerror}. To fix it, choose "
            "another, or change its permissions."
        ) from error
    try:
        content = json.loads(text)
        about = content["run"]
        whole = content["checksum"] == digest(about)
    except (ValueError, TypeError, KeyError):
        whole, about = False, {}
    require(
        whole,
        "checkpoint must be a folder with a whole run in it",
        f"{path}, damaged or something else",
        "choose another folder, or delete this one to start anew; nothing was changed",
    )
    return about


def open_journal(
    checkpoint: str | Path | None,
    identity: Callable[[], Mapping[str, object]],
    seed: int | list[int],
    arguments: Mapping[str, object],
) -> Journal:
    """Return the journal of a run: in memory without a ``checkpoint``, otherwise in that folder.

    ``identity`` is a function that returns the identity; the other arguments are those of ``open_checkpoint``. If
    several processes run together, the first one owns the folder.
    """
    if jax.process_count() > 1:
        limits = {name: repr(arguments.get(name)) for name in ("until", "max_time", "max_gradients")}
        require_one_run({**identity(), **limits, "checkpoint": checkpoint is not None})
    if checkpoint is None:
        return Journal()
    journal, error = Journal(), None
    if jax.process_index() == 0:
        try:
            journal = open_checkpoint(checkpoint, identity(), seed, arguments)
        except (ValueError, OSError) as refused:
            error = refused
    error = agreed(error)
    if error is not None:
        raise error
    return journal if jax.process_count() == 1 else SharedJournal(journal)


def open_checkpoint(
    checkpoint: str | Path, identity: Mapping[str, object], seed: int | list[int], arguments: Mapping[str, object]
) -> DiskJournal:
    """Return the journal of a run in a folder, new or resumed.

    ``identity`` holds everything that determines the bits of the run. A run already in the folder must have the same
    identity; only the number of draws may differ. ``seed`` is the recorded form of the seed. ``arguments`` are those of
    ``sample``, stored for ``resume``.
    """
    path = Path(checkpoint)
    _run_in(path)  # refuse a foreign folder before anything is written
    todo = "make space, or choose another folder"
    with told_of_space(path, SPARE_BYTES, todo):
        _make(path)
        lock = FolderLock(path)
    try:
        known = _run_in(path)  # again: another process may have been faster
        if known is None:
            lock.require_writable()
            with told_of_space(path, SPARE_BYTES, todo):
                _begin(path, identity, seed, arguments)
        else:
            theirs = known["identity"]
            identity = {**identity, "draws": theirs["draws"]}  # runs of different lengths share their first draws
            other = different(theirs, identity)
            require(
                not other,
                f"the run in {path} must be this one",
                "; ".join(other),
                "choose another folder, or change the arguments back; nothing was changed",
            )
        return DiskJournal(path, digest(identity), lock)
    except BaseException:
        lock.close()
        raise


def _make(path: Path) -> None:
    """Make a folder if needed; raise ``ValueError`` if that fails, unless the disk is full."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in FULL:
            raise
        must = f"checkpoint must be a folder that can be made; got {str(path)!r}: {error.strerror}"
        raise ValueError(f"{must}. To fix it, choose another folder.") from error


def _begin(path: Path, identity: Mapping[str, object], seed: int | list[int], arguments: Mapping[str, object]) -> None:
    """Write the identity, seed and arguments of a new run to its folder."""
    try:
        write_whole(path / CALL, sealed(cloudpickle.dumps({**arguments, "random_seed": seed})))
    except (pickle.PicklingError, TypeError, AttributeError, ValueError):  # the last from a pointer, as in Stan
        (path / CALL).unlink(missing_ok=True)  # `resume` says what to do then
    about = {"identity": dict(identity), "seed": seed}
    write_whole(path / RUN, json.dumps({"run": about, "checksum": digest(about)}, indent=1).encode())
