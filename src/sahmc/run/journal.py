"""The journal of a run: what its stages have done so far, in memory or on disk.

A run is a fixed sequence of stages, each a loop of moves, and all that happens between them follows from what they
return. So a run that was killed is resumed by running it again from the start, and every stage or part of one that is
found on disk is handed back at once: nothing else need be saved, and the bits cannot differ.
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

from sahmc._support.sealed_files import DIGEST_BYTES, sealed, told_of_space, unsealed, write_whole
from sahmc._support.validate import require
from sahmc.results.records import Counts, ThetaTrace
from sahmc.run.folder_lock import FolderLock
from sahmc.run.stage_files import Stage, columns, mapped, parse_stage, read_stage
from sahmc.run.stage_log import StageLog

RECORD_SECONDS = 10.0
"""The seconds between two records: the most that is lost."""
SPARE_BYTES = 2**20
"""The bytes that a run takes besides its draws."""
ASKED = "draws.json"
"""The file that holds the last goal of each pass."""
OURS = re.compile(r"[0-9]{3}-[a-z]+\.(state|rows)")
"""The names of the files of stages that go on, have many rows, or made the draws."""
LOG, RESULT = "stages.log", "result"
"""The file of stages that are behind the run, and that of what a complete run has led to."""
DRAWS = "draw"
"""The stage that makes the draws of the run."""
LOGGED_BYTES = 2**24
"""The most bytes of rows with which a stage goes into the log."""


class Goal(NamedTuple):
    """What a pass of a run is to do, and all that has led to it which the draws themselves do not tell."""

    draws: int
    """The draws of each chain."""
    request: str = ""
    """The precision and the limits for which there is a further round; empty in the first one."""
    looked: int = 0
    """The gradients spent on looking for modes in the draws of earlier rounds."""


class StageProgress(NamedTuple):
    """The progress of a stage: its moves, where they led, and sums over them."""

    moves: int
    """The number of moves made."""
    state: Any
    """The state of the run after them, a pytree of arrays."""
    visits: np.ndarray
    """The visits to each region."""
    counts: Counts
    """Counts over the moves."""
    mechanical_acceptance: float
    """The sum over trajectories of the acceptance that step sizes are tuned on."""
    rows: int
    """The number of draws that were stored."""
    trace: ThetaTrace | None
    """theta and round trips at some moments, if they are recorded."""


class Journal:
    """The journal of a run that is not kept on disk: stages begin at their beginning, and draws stay in memory."""

    seconds = 0.0
    """The seconds that earlier processes spent on this run."""
    asked: tuple[Goal, ...] = ()
    """The last goal of each pass of the run."""

    def ask(self, number: int, goal: Goal) -> None:
        """Note what pass ``number``, counted from 0, is to do."""
        self.asked = (*self.asked[:number], goal)

    def aim(self, number: int, draws: int) -> None:
        """Note that pass ``number`` is to make more or fewer draws than it was asked for."""
        self.ask(number, self.asked[number]._replace(draws=draws))

    def ask_for(self, draws: int) -> None:
        """Note that the last pass is to make so many draws of each chain; a run that is complete keeps those it has."""
        if self.asked and (self.asked[-1].draws < draws or self.read_result() is None):
            self.aim(len(self.asked) - 1, draws)

    def begin(self, name: str, so_far: StageProgress, structure: PyTreeDef, rows: int) -> StageProgress:
        """Begin a stage, and return what is known of it: ``so_far`` if nothing is.

        ``structure`` is the pytree structure of its draws, and ``rows`` is how many will be stored.
        """
        self.so_far = so_far
        self._parts: list[Any] = []
        return so_far

    def reopen(self, so_far: StageProgress, draws: Any, rows: int) -> StageProgress:
        """Go on with the last stage, which was ended at ``so_far`` with ``draws``, until ``rows`` are stored."""
        self.so_far, self._parts = so_far, [draws]
        return so_far

    def add(self, so_far: StageProgress, draws: Any) -> None:
        """Record that the stage has gone on.

        ``draws`` are those kept since it was last recorded, a pytree of arrays (draw, chain, ...), or None.
        """
        if draws is not None:
            self._parts.append(draws)
        self.so_far = so_far

    def end(self) -> None:
        """End the stage, for good or for now."""

    def draws(self) -> Any:
        """Return the draws of the stage, a pytree of arrays (draw, chain, ...); None if there are none."""
        if not self.so_far.rows:
            return None
        rows = self.so_far.rows
        return jax.tree.map(lambda *parts: np.concatenate(parts)[:rows], *self._parts)

    def read_result(self) -> bytes | None:
        """Return what ``write_result`` has written; None if nothing was."""
        return None

    def write_result(self, content: bytes) -> None:
        """Write down what the run has led to, once it is complete; a journal in memory has no need of that."""

    def drawn(self, stage: int, structure: PyTreeDef) -> Any:
        """Return the draws of a stage of a complete run, as ``draws`` does; None if they are not here."""
        return None

    def close(self) -> None:
        """Close the journal: there are no more stages."""


class DiskJournal(Journal):
    """The journal of a run that is kept in a folder.

    A stage that goes on has two files there: a ``.state``, which is replaced every few seconds, and ``.rows``, to which
    draws are added, one row each. A state holds the checksum of the rows that belong to it, its own, and the digest of
    the run's identity. Once the next stage begins, both go into the log of stages, one file, unless there are many rows
    or they are the draws of the run. A stage that does not agree with its checksum is forgotten, and so are all after
    it; one of another run is refused.
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
        """Note what a pass is to do, on disk as well."""
        before = self.asked
        super().ask(number, goal)
        if self.asked != before:
            self._lock.require_writable()
            write_whole(self._folder / ASKED, sealed(json.dumps(self.asked).encode()))

    def begin(self, name: str, so_far: StageProgress, structure: PyTreeDef, rows: int) -> StageProgress:
        """Begin a stage, and return what is on disk of it: ``so_far`` if nothing is.

        ``structure`` is the pytree structure of its draws, and ``rows`` is how many will be stored.
        """
        self._move_to_log()
        self._stage, self._name = self._stage + 1, name
        self._planned = rows
        self._stem = self._folder / f"{self._stage:03d}-{name}"
        self._structure, self._hash = structure, hashlib.blake2b(digest_size=DIGEST_BYTES)
        self._dtype: Any = None
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

    def reopen(self, so_far: StageProgress, draws: Any, rows: int) -> StageProgress:
        """Go on with the last stage, from what is on disk of it."""
        self._stage -= 1
        return self.begin(self._name, so_far, self._structure, rows)

    def add(self, so_far: StageProgress, draws: Any) -> None:
        """Record that the stage has gone on: write ``draws`` made since, if any, and now and then the state."""
        self._lock.require_writable()
        running = self._hash.copy()  # Ctrl-C may come at any point: rows count once hash and so_far agree on them
        if draws is not None and so_far.rows > self.so_far.rows:
            leaves = jax.tree.leaves(draws)
            if self._dtype is None:
                fields = [(f"f{i}", leaf.dtype, leaf.shape[1:]) for i, leaf in enumerate(leaves)]
                self._dtype = np.dtype(fields, align=True)
            rows: Any = np.zeros(len(leaves[0]), self._dtype)
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
        """End the stage, for good or for now, with all that it has done on disk."""
        if self._noted < self.so_far.moves:
            self._write()
        if self._rows is not None:
            self._rows.close()
            self._rows = None

    def draws(self) -> Any:
        """Return the draws of the stage, a pytree of arrays (draw, chain, ...) that stay on disk; None without any."""
        if not self.so_far.rows:
            return None
        if self._logged is not None:
            return columns(self._logged.rows, self._structure)
        return columns(mapped(self._stem, self._dtype, self.so_far.rows), self._structure)

    @property
    def stage(self) -> int:
        """The number of the stage that was begun last."""
        return self._stage

    def read_result(self) -> bytes | None:
        """Return what ``write_result`` has written for this run; None if nothing was, or it is damaged."""
        content = unsealed(self._folder / RESULT)
        run = self._run.encode()
        return content[len(run) :] if content is not None and content.startswith(run) else None

    def write_result(self, content: bytes) -> None:
        """Write down what the run has led to, once it is complete, so that it need not be gone through again."""
        if self._lock.writable:
            with told_of_space(self._folder, len(content), "make space and call sample or resume again"):
                write_whole(self._folder / RESULT, sealed(self._run.encode() + content))

    def drawn(self, stage: int, structure: PyTreeDef) -> Any:
        """Return the draws of a stage of a complete run, which stay on disk; None if they are not whole."""
        stem = self._folder / f"{stage:03d}-{DRAWS}"
        found = read_stage(stem)
        if found is None or found.dtype is None:
            return None
        self._require_ours(found, stem)
        return columns(mapped(stem, found.dtype, found.about["rows"]), structure)

    def close(self) -> None:
        """Close the files, so that another process may go on with the run."""
        if self._rows is not None:
            with suppress(OSError):  # rows that could not be written do not count
                self._rows.close()
        self._lock.close()

    def _size(self) -> int:
        """Return the bytes of the rows that count."""
        return self.so_far.rows * self._dtype.itemsize if self._dtype is not None else 0

    def _write(self) -> None:
        """Write the rows first, and then, in one stroke, the state that holds their checksum."""
        assert self._rows is not None
        with self._room():
            self._rows.flush()
            os.fsync(self._rows.fileno())
            write_whole(self._stem.with_suffix(".state"), sealed(self._content()))
        self._written, self._noted = time.monotonic(), self.so_far.moves

    def _content(self, **rows: Any) -> bytes:
        """Return what is written about the stage, with its ``rows`` if they are to be there too."""
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
        """Move the stage that is behind the run from its two files to the log, unless it has to stay where it is."""
        if self._stage < 0 or self._logged is not None or not self._lock.writable:
            return
        if self._stem.name.endswith(DRAWS) or self._size() > LOGGED_BYTES or self.so_far.rows < self._planned:
            return
        paths = [self._stem.with_suffix(ending) for ending in (".state", ".rows")]
        rows = {} if self._dtype is None else {"rows": np.fromfile(paths[1], self._dtype, self.so_far.rows)}
        with self._room():
            self._log.add(self._stage, self._content(**rows))
        for path in paths:
            with suppress(PermissionError):  # where a file cannot go while its rows are looked at
                path.unlink(missing_ok=True)

    def _room(self) -> AbstractContextManager[None]:
        """Return a context in which a full disk is told of, with what the stage still needs."""
        left = (self._planned - self.so_far.rows) * (0 if self._dtype is None else self._dtype.itemsize)
        todo = "make space and call sample or resume again: the run goes on from its last record"
        return told_of_space(self._folder, left + SPARE_BYTES, todo)

    def _recall(self, fresh: StageProgress) -> StageProgress | None:
        """Return what is on disk of this stage, or None if it is not whole; ``fresh`` is the stage at its beginning."""
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
        """Raise ``ValueError`` if a stage is of another run."""
        require(
            found.about["run"] == self._run,
            f"all files in {self._folder} must be of the run that is described in it",
            f"{stem.name}, of another run",
            "choose another folder, or take away what was copied into this one; nothing was changed",
        )


def asked_in(folder: Path) -> tuple[Goal, ...]:
    """Return the last goal of each pass of the run in a folder; none if that is not known."""
    found = unsealed(folder / ASKED)
    asked = [] if found is None else json.loads(found)
    return tuple(Goal(*goal) if isinstance(goal, list) else Goal(goal) for goal in asked)


def _seconds(folder: Path, log: StageLog) -> float:
    """Return the seconds spent on the run so far, by its last record."""
    files = sorted(folder.glob("[0-9][0-9][0-9]-*.state"))
    found = (unsealed(files[-1]) if files else None, log.last)
    return max([float(parse_stage(content).about["seconds"]) for content in found if content is not None], default=0.0)
