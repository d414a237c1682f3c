"""The journal of a run: what its stages have done so far, in memory or on disk.

A run is a fixed sequence of stages, each a loop of moves. Everything between stages follows from what they return. So a
run that was killed is resumed by running it again from the start. Every stage, or part of one, that is found on disk is
returned at once. Nothing else needs to be saved, and the bits cannot differ.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import PyTreeDef
from jaxtyping import PyTree

from sahmc._support.sealed_files import DIGEST_BYTES, sealed, told_of_space, unsealed, write_whole
from sahmc._support.validate import require
from sahmc.checkpoint.folder_lock import FolderLock
from sahmc.checkpoint.stage_files import Stage, columns, mapped, parse_stage, read_stage
from sahmc.checkpoint.stage_log import StageLog
from sahmc.results.records import Counts, ThetaTrace

RECORD_SECONDS = 10.0
"""The number of seconds between two records: the most work that can be lost."""
SPARE_BYTES = 2**20
"""The disk space in bytes that a run needs besides its draws."""
ASKED = "draws.json"
"""The file with the last goal of each pass."""
OURS = re.compile(r"[0-9]{3}-[a-z]+\.(state|rows)")
"""The pattern of the files of single stages: a stage in progress, one with many rows, or one that made the draws."""
LOG, RESULT = "stages.log", "result"
"""The file of finished stages, and the file with the result of a complete run."""
DRAWS = "draw"
"""The stage that makes the draws of the run."""
LOGGED_BYTES = 2**24
"""The maximum size in bytes of the rows of a stage that is moved to the log."""


class Goal(NamedTuple):
    """The goal of a pass of a run, with what led to it that the draws do not show."""

    draws: int
    """The number of draws of each chain."""
    request: str = ""
    """The precision and limits that call for a further round; empty in the first round."""
    looked: int = 0
    """The number of gradients spent on searching for modes in the draws of earlier rounds."""


class StageProgress(NamedTuple):
    """The progress of a stage: its moves, the state they led to, and sums over them."""

    moves: int
    """The number of moves made."""
    state: PyTree
    """The state of the run after these moves, a pytree of arrays."""
    visits: np.ndarray
    """The visits to each region."""
    counts: Counts
    """Counts over the moves."""
    mechanical_acceptance: float
    """The acceptance probability used to tune step sizes, summed over trajectories."""
    rows: int
    """The number of draws stored."""
    trace: ThetaTrace | None
    """theta and round trips at some moments, if recorded."""


class Journal:
    """The journal of a run that is not kept on disk: every stage starts afresh, and draws stay in memory."""

    seconds = 0.0
    """The time in seconds that earlier processes spent on this run."""
    asked: tuple[Goal, ...] = ()
    """The last goal of each pass of the run."""

    def ask(self, number: int, goal: Goal) -> None:
        """Note the goal of pass ``number``, counted from 0."""
        self.asked = (*self.asked[:number], goal)

    def aim(self, number: int, draws: int) -> None:
        """Note that pass ``number`` is to make another number of draws than before."""
        self.ask(number, self.asked[number]._replace(draws=draws))

    def ask_for(self, draws: int) -> None:
        """Note that the last pass is to make ``draws`` draws of each chain; a complete run keeps those it has."""
        if self.asked and (self.asked[-1].draws < draws or self.read_result() is None):
            self.aim(len(self.asked) - 1, draws)

    def begin(self, name: str, so_far: StageProgress, structure: PyTreeDef, rows: int) -> StageProgress:
        """Begin a stage, and return its recorded progress, or ``so_far`` if there is none.

        ``structure`` is the pytree structure of its draws, and ``rows`` is the number of draws to store.
        """
        self.so_far = so_far
        self._parts: list[PyTree] = []
        return so_far

    def reopen(self, so_far: StageProgress, draws: PyTree, rows: int) -> StageProgress:
        """Go on with the last stage, which ended at ``so_far`` with ``draws``, until ``rows`` draws are stored."""
        self.so_far, self._parts = so_far, [draws]
        return so_far

    def add(self, so_far: StageProgress, draws: PyTree) -> None:
        """Record the stage's new progress.

        ``draws`` are those made since the last record, a pytree of arrays (draw, chain, ...), or None.
        """
        if draws is not None:
            self._parts.append(draws)
        self.so_far = so_far

    def end(self) -> None:
        """End the stage, for good or for now."""

    def draws(self) -> PyTree:
        """Return the draws of the stage, a pytree of arrays (draw, chain, ...); None if there are none."""
        if not self.so_far.rows:
            return None
        rows = self.so_far.rows
        return jax.tree.map(lambda *parts: np.concatenate(parts)[:rows], *self._parts)

    def read_result(self) -> bytes | None:
        """Return what ``write_result`` wrote; None if nothing was written."""
        return None

    def write_result(self, content: bytes) -> None:
        """Write the result of a complete run; a journal in memory has no need to."""

    def drawn(self, stage: int, structure: PyTreeDef) -> PyTree:
        """Return the draws of a stage of a complete run, as ``draws`` does; None if they are not here."""
        return None

    def close(self) -> None:
        """Close the journal: there are no more stages."""


class DiskJournal(Journal):
    """The journal of a run that is kept in a folder.

    A stage in progress has two files: ``.state``, replaced every few seconds, and ``.rows``, to which draws are
    appended, one row each. A state holds its own checksum, that of the rows that belong to it, and the digest of the
    run's identity.

    Once the next stage begins, both files move into one log of stages. They stay if there are many rows, or if these
    are the draws of the run. A stage that fails its checksum is discarded, with all later stages. A stage of another
    run is refused.
    """

    def __init__(self, folder: Path, run: str, lock: FolderLock):
        self._folder, self._run, self._lock = folder, run, lock
        self._stage = -1
        self._rows: BinaryIO | None = None
        self._log = StageLog(folder / LOG)
        self._logged: Stage | None = None
        self.seconds = _seconds(folder, self._log)
        self._began = time.monotonic()
        self.asked = asked_in(folder)

    def ask(self, number: int, goal: Goal) -> None:
        """Note the goal of a pass, on disk as well."""
        before = self.asked
        super().ask(number, goal)
        if self.asked != before:
            self._lock.require_writable()
            write_whole(self._folder / ASKED, sealed(json.dumps(self.asked).encode()))

    def begin(self, name: str, so_far: StageProgress, structure: PyTreeDef, rows: int) -> StageProgress:
        """Begin a stage, and return its progress on disk, or ``so_far`` if there is none.

        ``structure`` is the pytree structure of its draws, and ``rows`` is the number of draws to store.
        """
        self._move_to_log()
        self._stage, self._name = self._stage + 1, name
        self._planned = rows
        self._stem = self._folder / f"{self._stage:03d}-{name}"
        self._structure, self._hash = structure, hashlib.blake2b(digest_size=DIGEST_BYTES)
        self._dtype: np.dtype | None = None
        known = self._recall(so_far)
        if known is None:
            self._lock.require_writable()
            for path in self._folder.iterdir():
                if OURS.fullmatch(path.name) and int(path.name[:3]) >= self._stage:
                    path.unlink()
            self._log.forget(self._stage)
        self.so_far = known or so_far
        if self._lock.writable and self._logged is None:
            with self._room():
                self._rows = self._stem.with_suffix(".rows").open("r+b" if known else "w+b")
            self._rows.truncate(self._size())
            self._rows.seek(0, os.SEEK_END)
        self._written = time.monotonic() if known else -RECORD_SECONDS
        self._noted = self.so_far.moves if known else -1
        return self.so_far

    def reopen(self, so_far: StageProgress, draws: PyTree, rows: int) -> StageProgress:
        """Go on with the last stage from its record on disk."""
        self._stage -= 1
        return self.begin(self._name, so_far, self._structure, rows)

    def add(self, so_far: StageProgress, draws: PyTree) -> None:
        """Record the stage's new progress: write any new ``draws`` at once, and the state every few seconds."""
        self._lock.require_writable()
        running = self._hash.copy()  # Ctrl-C may come at any point: rows count once hash and so_far agree
        if draws is not None and so_far.rows > self.so_far.rows:
            leaves = jax.tree.leaves(draws)
            if self._dtype is None:
                fields = [(f"f{i}", leaf.dtype, leaf.shape[1:]) for i, leaf in enumerate(leaves)]
                self._dtype = np.dtype(fields, align=True)
            rows = np.zeros(len(leaves[0]), self._dtype)
            for i, leaf in enumerate(leaves):
                rows[f"f{i}"] = leaf
            assert self._rows is not None
            with self._room():
                self._rows.seek(self._size())
                self._rows.write(rows.data)
            running.update(rows.data)
        self._hash, self.so_far = running, so_far
        if time.monotonic() - self._written > RECORD_SECONDS:
            self._write()

    def end(self) -> None:
        """End the stage, for good or for now, with everything on disk."""
        if self._noted < self.so_far.moves:
            self._write()
        if self._rows is not None:
            self._rows.close()
            self._rows = None

    def draws(self) -> PyTree:
        """Return the draws of the stage, a pytree of arrays (draw, chain, ...) left on disk; None if there are none."""
        if not self.so_far.rows:
            return None
        rows = None if self._logged is None else self._logged.rows
        if rows is None:
            assert self._dtype is not None
            rows = mapped(self._stem, self._dtype, self.so_far.rows)
        return columns(rows, self._structure)

    @property
    def stage(self) -> int:
        """The number of the last stage begun."""
        return self._stage

    def read_result(self) -> bytes | None:
        """Return what ``write_result`` wrote for this run; None if there is nothing, or it is damaged."""
        content = unsealed(self._folder / RESULT)
        run = self._run.encode()
        return content[len(run) :] if content is not None and content.startswith(run) else None

    def write_result(self, content: bytes) -> None:
        """Write the result of a complete run, so that it need not be recomputed."""
        if self._lock.writable:
            with told_of_space(self._folder, len(content), "make space and call sample or resume again"):
                write_whole(self._folder / RESULT, sealed(self._run.encode() + content))

    def drawn(self, stage: int, structure: PyTreeDef) -> PyTree:
        """Return the draws of a stage of a complete run, which stay on disk; None if they are damaged or missing."""
        stem = self._folder / f"{stage:03d}-{DRAWS}"
        found = read_stage(stem)
        if found is None or found.dtype is None:
            return None
        self._require_ours(found, stem)
        return columns(mapped(stem, found.dtype, found.about["rows"]), structure)

    def close(self) -> None:
        """Close the files, so that another process may continue the run."""
        if self._rows is not None:
            with suppress(OSError):  # rows that could not be written do not count
                self._rows.close()
        self._lock.close()

    def _size(self) -> int:
        """Return the size in bytes of the rows recorded so far."""
        return self.so_far.rows * self._dtype.itemsize if self._dtype is not None else 0

    def _write(self) -> None:
        """Write the rows first, then replace, in one step, the state that holds their checksum."""
        assert self._rows is not None
        with self._room():
            self._rows.flush()
            os.fsync(self._rows.fileno())
            write_whole(self._stem.with_suffix(".state"), sealed(self._content()))
        self._written, self._noted = time.monotonic(), self.so_far.moves

    def _content(self, **rows: Any) -> bytes:
        """Return the record of the stage as bytes; ``rows``, if given, are included."""
        about = {
            "run": self._run,
            "moves": self.so_far.moves,
            "rows": self.so_far.rows,
            "counts": list(self.so_far.counts),
            "mechanical_acceptance": self.so_far.mechanical_acceptance,
            "dtype": None if self._dtype is None else np.lib.format.dtype_to_descr(self._dtype),
            "rows_digest": self._hash.hexdigest(),
            "seconds": self.seconds + time.monotonic() - self._began,
        }
        leaves = jax.tree.leaves((self.so_far.state, self.so_far.visits, self.so_far.trace))
        buffer = io.BytesIO()
        arrays: dict[str, Any] = {f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
        np.savez(buffer, about=json.dumps(about), **arrays, **rows)
        return buffer.getvalue()

    def _move_to_log(self) -> None:
        """Move the files of the finished stage to the log, unless they must stay where they are."""
        if self._stage < 0 or self._logged is not None or not self._lock.writable:
            return
        if self._stem.name.endswith(DRAWS) or self._size() > LOGGED_BYTES or self.so_far.rows < self._planned:
            return
        paths = [self._stem.with_suffix(ending) for ending in (".state", ".rows")]
        rows = {} if self._dtype is None else {"rows": np.fromfile(paths[1], self._dtype, self.so_far.rows)}
        with self._room():
            self._log.add(self._stage, self._content(**rows))
        for path in paths:
            with suppress(PermissionError):  # some systems cannot delete a file that is in use
                path.unlink(missing_ok=True)

    def _room(self) -> AbstractContextManager[None]:
        """Return a context that reports a full disk, with the space the stage still needs."""
        left = (self._planned - self.so_far.rows) * (0 if self._dtype is None else self._dtype.itemsize)
        todo = "make space and call sample or resume again: the run goes on from its last record"
        return told_of_space(self._folder, left + SPARE_BYTES, todo)

    def _recall(self, fresh: StageProgress) -> StageProgress | None:
        """Return the stage's progress on disk, None if incomplete; ``fresh`` is its progress at the beginning."""
        logged = self._log.read(self._stage)
        self._logged = None if logged is None else parse_stage(logged)
        found = self._logged or read_stage(self._stem)
        if found is None:
            return None
        self._require_ours(found, self._stem)
        about, leaves, self._dtype, self._hash, _ = found
        known, tree = jax.tree.flatten(fresh.state)
        count = len(known)
        state = jax.tree.unflatten(tree, map(jnp.asarray, leaves[:count]))
        trace = None if fresh.trace is None else ThetaTrace(*leaves[count + 1 :])
        return StageProgress(
            moves=about["moves"],
            state=state,
            visits=leaves[count],
            counts=Counts(*about["counts"]),
            mechanical_acceptance=about["mechanical_acceptance"],
            rows=about["rows"],
            trace=trace,
        )

    def _require_ours(self, found: Stage, stem: Path) -> None:
        """Raise ``ValueError`` if a stage belongs to another run."""
        require(
            found.about["run"] == self._run,
            f"all files in {self._folder} must be of the run that is described in it",
            f"{stem.name}, of another run",
            "choose another folder, or take away what was copied into this one; nothing was changed",
        )


def asked_in(folder: Path) -> tuple[Goal, ...]:
    """Return the last goal of each pass of the run in a folder; empty if unknown."""
    found = unsealed(folder / ASKED)
    asked = [] if found is None else json.loads(found)
    return tuple(Goal(*goal) if isinstance(goal, list) else Goal(goal) for goal in asked)


def _seconds(folder: Path, log: StageLog) -> float:
    """Return the seconds spent on the run so far, according to its last record."""
    files = sorted(folder.glob("[0-9][0-9][0-9]-*.state"))
    found = (unsealed(files[-1]) if files else None, log.last)
    return max([float(parse_stage(content).about["seconds"]) for content in found if content is not None], default=0.0)
