"""A run that is kept in a folder: which run it is, and how to go on with it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import cloudpickle
import jax

from sahmc._support.sealed_files import PART, sealed, told_of_space, unsealed, write_whole
from sahmc._support.validate import as_path, require, require_writable
from sahmc.run.folder_lock import LOCK, FolderLock
from sahmc.run.hosts import agreed
from sahmc.run.identity import different, digest
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
    holds = path.exists() and recorded(path) is not None
    require(holds, "a checkpoint holds a run", f"{path}, which holds none", "check the path")
    content = unsealed(path / CALL)
    require(content is not None, "the arguments of the run must be in the checkpoint", f"no whole {path / CALL}", AGAIN)
    assert content is not None
    try:
        return pickle.loads(content)
    except Exception as error:
        raise ValueError(f"the stored model cannot be loaded here: {error!r}. To fix it, {AGAIN}.") from error


def recorded(checkpoint: str | Path) -> dict[str, Any] | None:
    """Return what a folder says of the run it holds: its identity and seed; None if there is no run in it yet.

    A folder that holds something else, or a damaged run, raises ``ValueError``.
    """
    path = as_path(checkpoint, "checkpoint")
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
        require_writable(path)
        return None
    except NotADirectoryError:
        text = ""
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

    ``identity`` holds all that the bits of the run depend on, and the run in the folder must have the same. ``seed`` is
    what is recorded of the seed, and ``arguments`` are those of ``sample``, stored for ``resume``.
    """
    path = Path(checkpoint)
    recorded(path)  # what is not ours is refused before anything is written
    todo = "make space, or choose another folder"
    with told_of_space(path, SPARE_BYTES, todo):
        path.mkdir(parents=True, exist_ok=True)
        lock = FolderLock(path)
    try:
        known = recorded(path)  # once more: another process may have been first
        if known is None:
            lock.require_writable()
            with told_of_space(path, SPARE_BYTES, todo):
                _begin(path, identity, seed, arguments)
        else:
            other = different(known["identity"], identity)
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


def _begin(path: Path, identity: Mapping[str, Any], seed: Any, arguments: Mapping[str, Any]) -> None:
    """Write down which run a folder is to hold."""
    try:
        write_whole(path / CALL, sealed(cloudpickle.dumps({**arguments, "random_seed": seed})))
    except (pickle.PicklingError, TypeError, AttributeError, ValueError):  # the last from a pointer, as Stan's
        (path / CALL).unlink(missing_ok=True)  # `resume` says what to do then
    about = {"identity": dict(identity), "seed": seed}
    write_whole(path / RUN, json.dumps({"run": about, "checksum": digest(about)}, indent=1).encode())
