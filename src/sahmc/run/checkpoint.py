"""A run that is kept in a folder: which run it is, and how to go on with it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import cloudpickle
import jax

from sahmc._support.sealed_files import FULL, PART, sealed, told_of_space, unsealed, write_whole
from sahmc._support.validate import as_path, require, require_writable
from sahmc.run.folder_lock import LOCK, FolderLock
from sahmc.run.hosts import agreed
from sahmc.run.identity import different, digest, require_one_run
from sahmc.run.journal import SPARE_BYTES, DiskJournal, Journal
from sahmc.run.shared_journal import SharedJournal

RUN, CALL = "run.json", "call.pickle"
"""The files that tell which run it is, and hold the arguments of ``sample``."""
AGAIN = "call sahmc.sample again, with the same arguments and this checkpoint"
"""The advice where stored arguments cannot be used."""


def stored_arguments(checkpoint: str | Path) -> dict[str, Any]:
    """Return the arguments of ``sample`` with which the run in a folder was begun, or raise ``ValueError``.

    They were stored by pickle: read only what you trust.
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


def recorded(checkpoint: str | Path) -> dict[str, Any] | None:
    """Return what a folder says of the run it holds: its identity and seed; None if there is no run in it yet.

    A folder that holds something else, or a damaged run, raises ``ValueError``; so does one in which a run cannot be
    kept. (Of several processes only the first one writes, and it is asked later.)
    """
    path = as_path(checkpoint, "checkpoint")
    about = _run_in(path)
    if about is None and jax.process_count() == 1:
        require_writable(path)
    return about


def _run_in(path: Path) -> dict[str, Any] | None:
    """Return what a folder says of the run it holds, or None; what is no such folder raises ``ValueError``."""
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
    checkpoint: str | Path | None, identity: Callable[[], Mapping[str, Any]], seed: Any, arguments: Mapping[str, Any]
) -> Journal:
    """Return the journal of a run: in memory without a ``checkpoint``, else in that folder.

    The other arguments are those of ``open_checkpoint``, the identity as a function that makes it. Where several
    processes run together the first one has the folder.
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
    checkpoint: str | Path, identity: Mapping[str, Any], seed: Any, arguments: Mapping[str, Any]
) -> DiskJournal:
    """Return the journal of a run in a folder: a new one, or that of the same run, begun earlier.

    ``identity`` holds all that the bits of the run depend on, and the run in the folder must have the same, but for the
    number of draws. ``seed`` is what is recorded of the seed, and ``arguments`` are those of ``sample``, stored for
    ``resume``.
    """
    path = Path(checkpoint)
    _run_in(path)  # what is not ours is refused before anything is written
    todo = "make space, or choose another folder"
    with told_of_space(path, SPARE_BYTES, todo):
        _make(path)
        lock = FolderLock(path)
    try:
        known = _run_in(path)  # once more: another process may have been first
        if known is None:
            lock.require_writable()
            with told_of_space(path, SPARE_BYTES, todo):
                _begin(path, identity, seed, arguments)
        else:
            theirs = known["identity"]
            identity = {**identity, "draws": theirs["draws"]}  # the first ones are the same, however many there are
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
    """Make a folder unless it is there, or raise ``ValueError`` if that cannot be, but for want of space."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in FULL:
            raise
        must = f"checkpoint must be a folder that can be made; got {str(path)!r}: {error.strerror}"
        raise ValueError(f"{must}. To fix it, choose another folder.") from error


def _begin(path: Path, identity: Mapping[str, Any], seed: Any, arguments: Mapping[str, Any]) -> None:
    """Write down which run a folder is to hold."""
    try:
        write_whole(path / CALL, sealed(cloudpickle.dumps({**arguments, "random_seed": seed})))
    except (pickle.PicklingError, TypeError, AttributeError, ValueError):  # the last from a pointer, as Stan's
        (path / CALL).unlink(missing_ok=True)  # `resume` says what to do then
    about = {"identity": dict(identity), "seed": seed}
    write_whole(path / RUN, json.dumps({"run": about, "checksum": digest(about)}, indent=1).encode())
