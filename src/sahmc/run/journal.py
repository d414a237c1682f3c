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

RECORD_SECONDS = 10.0
"""The seconds between two records: the most that is lost."""
READ_BYTES = 2**24
"""The bytes of a file that are read at once."""
SPARE_BYTES = 2**20
"""The bytes that a run takes besides its draws."""
ASKED = "draws.json"
"""The file that holds how many draws each pass was asked for."""
OURS = re.compile(r"[0-9]{3}-[a-z]+\.(state|rows)")
"""The names of the files of stages."""


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
    asked: tuple[int, ...] = ()
    """The draws that each pass of the run was last asked for."""

    def ask(self, number: int, draws: int) -> None:
        """Note that pass ``number``, counted from 0, is to make so many draws of each chain."""
        self.asked = (*self.asked[:number], draws)

    def ask_for_more(self, draws: int) -> None:
        """Note that the last pass is to make so many draws of each chain, if it was to make fewer."""
        if self.asked and self.asked[-1] < draws:
            self.ask(len(self.asked) - 1, draws)

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

    def close(self) -> None:
        """Close the journal: there are no more stages."""


class DiskJournal(Journal):
    """The journal of a run that is kept in a folder.

    Each stage has two files there: a ``.state``, which is replaced every few seconds, and ``.rows``, to which draws are
    added, one row each. A state holds the checksum of the rows that belong to it, its own, and the digest of the run's
    identity. A stage that does not agree with its checksum is forgotten, and so are all after it; one of another run is
    refused.
    """

    def __init__(self, folder: Path, run: str, lock: FolderLock):
        self._folder, self._run, self._lock = folder, run, lock
        self._stage = -1
        self._rows: BinaryIO | None = None
        self.seconds = _seconds(folder)
        self._began = time.monotonic()
        self.asked = asked_in(folder)

    def ask(self, number: int, draws: int) -> None:
        """Note what a pass is to do, on disk as well."""
        before = self.asked
        super().ask(number, draws)
        if self.asked != before:
            self._lock.require_writable()
            write_whole(self._folder / ASKED, sealed(json.dumps(self.asked).encode()))

    def begin(self, name: str, so_far: StageProgress, structure: PyTreeDef, rows: int) -> StageProgress:
        """Begin a stage, and return what is on disk of it: ``so_far`` if nothing is.

        ``structure`` is the pytree structure of its draws, and ``rows`` is how many will be stored.
        """
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
        self.so_far = known or so_far
        if self._lock.writable:
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
        rows = np.memmap(self._stem.with_suffix(".rows"), self._dtype, "r", shape=self.so_far.rows)
        return jax.tree.unflatten(self._structure, [rows[name] for name in self._dtype.names])

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
        np.savez(buffer, about=json.dumps(about), **arrays)
        assert self._rows is not None
        with self._room():
            self._rows.flush()
            os.fsync(self._rows.fileno())
            write_whole(self._stem.with_suffix(".state"), sealed(buffer.getvalue()))
        self._written, self._noted = time.monotonic(), self.so_far.moves

    def _room(self) -> AbstractContextManager[None]:
        """Return a context in which a full disk is told of, with what the stage still needs."""
        left = (self._planned - self.so_far.rows) * (0 if self._dtype is None else self._dtype.itemsize)
        todo = "make space and call sample or resume again: the run goes on from its last record"
        return told_of_space(self._folder, left + SPARE_BYTES, todo)

    def _recall(self, fresh: StageProgress) -> StageProgress | None:
        """Return what is on disk of this stage, or None if it is not whole; ``fresh`` is the stage at its beginning."""
        found = read_stage(self._stem)
        if found is None:
            return None
        about, leaves, self._dtype, self._hash = found
        require(
            about["run"] == self._run,
            f"all files in {self._folder} must be of the run that is described in it",
            f"{self._stem.name}, of another run",
            "choose another folder, or take away what was copied into this one; nothing was changed",
        )
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


def read_stage(stem: Path) -> tuple[dict[str, Any], list[np.ndarray], np.dtype | None, hashlib.blake2b] | None:
    """Return what was written about a stage, its arrays, the type of its rows and their hash; None if it is not whole.

    ``stem`` is the path of its files without their endings.
    """
    content = unsealed(stem.with_suffix(".state"))
    if content is None:
        return None
    with np.load(io.BytesIO(content)) as arrays:
        about = json.loads(str(arrays["about"]))
        leaves = [arrays[f"leaf{i}"] for i in range(len(arrays.files) - 1)]
    dtype = None if about["dtype"] is None else np.lib.format.descr_to_dtype(_tuples(about["dtype"]))
    running = _hash_of(stem.with_suffix(".rows"), 0 if dtype is None else about["rows"] * dtype.itemsize)
    if running is None or running.hexdigest() != about["rows_digest"]:
        return None
    return about, leaves, dtype, running


def asked_in(folder: Path) -> tuple[int, ...]:
    """Return the draws that each pass of the run in a folder was last asked for; none if that is not known."""
    found = unsealed(folder / ASKED)
    return () if found is None else tuple(json.loads(found))


def _tuples(description: Any) -> Any:
    """Turn the lists of a description of a type back into tuples, which JSON does not know."""
    return [(name, kind, tuple(shape)) for name, kind, *rest in description for shape in (rest or [()])]


def _hash_of(path: Path, size: int) -> hashlib.blake2b | None:
    """Return the hash of the first ``size`` bytes of a file; None if there are fewer."""
    if not path.exists() or path.stat().st_size < size:
        return None
    running = hashlib.blake2b(digest_size=DIGEST_BYTES)
    with path.open("rb") as file:
        while size:
            block = file.read(min(size, READ_BYTES))
            running.update(block)
            size -= len(block)
    return running


def _seconds(folder: Path) -> float:
    """Return the seconds spent on the run so far, by its last record."""
    last = sorted(folder.glob("[0-9][0-9][0-9]-*.state"))
    found = unsealed(last[-1]) if last else None
    if found is None:
        return 0.0
    with np.load(io.BytesIO(found)) as arrays:
        return float(json.loads(str(arrays["about"]))["seconds"])
