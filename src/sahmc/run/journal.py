"""What the stages of a run have done so far, in memory or on disk; what is on disk is not done again.

A run is a fixed sequence of stages, each a loop of moves, and all that happens between them follows from what they
return. So a run that was killed is resumed by running it again from the start, every stage or part of one that is found
on disk being handed back at once: nothing else need be saved, and the bits cannot differ.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sahmc._support.validate import require

SECONDS = 10.0
"""Between two records: the most that is lost."""
DIGEST = 32
BLOCK = 2**24


class Past(NamedTuple):
    """What a stage has done: its moves, where they led, sums over them, and how many draws were kept."""

    moves: int
    state: Any
    visits: np.ndarray
    tally: Any
    rows: int
    path: Any
    """What was noted at fixed moments on the way."""


class Journal:
    """Of a run that is not kept on disk: every stage begins at its beginning, and draws stay in memory."""

    seconds = 0.0
    """Spent on this run by earlier processes."""

    def begin(self, name: str, past: Past, structure: Any) -> Past:
        """A stage begins: what is known of it, ``past`` if nothing is. ``structure`` is that of its draws."""
        self.past = past
        self._parts: list[Any] = []
        return past

    def add(self, past: Past, draws: Any) -> None:
        """The stage has gone on; ``draws`` are those it kept since, or None."""
        if draws is not None:
            self._parts.append(draws)
        self.past = past

    def end(self) -> None:
        """The stage ends, for good or for now."""

    def draws(self) -> Any:
        """Those of the stage, arrays (draw, chain, ...); None if there are none."""
        if not self.past.rows:
            return None
        rows = self.past.rows
        return jax.tree.map(lambda *parts: np.concatenate(parts)[:rows], *self._parts)

    def close(self) -> None:
        """No more stages."""


class DiskJournal(Journal):
    """Of each stage a ``.state``, replaced every few seconds, and ``.rows``, to which draws are added, one row each.

    A state holds the checksum of the rows that belong to it, and its own. A stage that does not agree with its checksum
    is forgotten, and so are all after it.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._lock = _lock(folder)
        self._stage = -1
        self._rows: BinaryIO | None = None
        self.seconds = _seconds(folder)
        self._began = time.monotonic()

    def begin(self, name: str, past: Past, structure: Any) -> Past:
        self._stage += 1
        self._stem = self._folder / f"{self._stage:03d}-{name}"
        self._structure, self._hash = structure, hashlib.blake2b(digest_size=DIGEST)
        self._dtype: Any = None
        known = self._recall(past)
        if known is None:
            for path in sorted(self._folder.glob("[0-9][0-9][0-9]-*")):
                if int(path.name[:3]) >= self._stage:
                    path.unlink()
        self.past = known or past
        self._rows = self._stem.with_suffix(".rows").open("r+b" if known else "w+b")
        self._rows.truncate(self._size())
        self._rows.seek(0, os.SEEK_END)
        self._written = time.monotonic() if known else -SECONDS
        self._noted = self.past.moves if known else -1
        return self.past

    def add(self, past: Past, draws: Any) -> None:
        running = self._hash.copy()  # Ctrl-C may come at any point: rows count once hash and past agree on them
        if draws is not None and past.rows > self.past.rows:
            leaves = jax.tree.leaves(draws)
            if self._dtype is None:
                fields = [(f"f{i}", leaf.dtype, leaf.shape[1:]) for i, leaf in enumerate(leaves)]
                self._dtype = np.dtype(fields, align=True)
            rows: Any = np.zeros(len(leaves[0]), self._dtype)
            for i, leaf in enumerate(leaves):
                rows[f"f{i}"] = leaf
            assert self._rows is not None
            self._rows.seek(self._size())
            self._rows.write(rows.data)
            running.update(rows.data)
        self._hash, self.past = running, past
        if time.monotonic() - self._written > SECONDS:
            self._write()

    def end(self) -> None:
        if self._noted < self.past.moves:
            self._write()
        if self._rows is not None:
            self._rows.close()
            self._rows = None

    def draws(self) -> Any:
        if not self.past.rows:
            return None
        rows = np.memmap(self._stem.with_suffix(".rows"), self._dtype, "r", shape=self.past.rows)
        return jax.tree.unflatten(self._structure, [rows[name] for name in self._dtype.names])

    def close(self) -> None:
        if self._rows is not None:
            self._rows.close()
        self._lock.close()

    def _size(self) -> int:
        return self.past.rows * self._dtype.itemsize if self._dtype is not None else 0

    def _write(self) -> None:
        """Rows first, then the state that vouches for them, in one stroke."""
        assert self._rows is not None
        self._rows.flush()
        os.fsync(self._rows.fileno())
        about = {
            "moves": self.past.moves,
            "rows": self.past.rows,
            "tally": list(self.past.tally),
            "dtype": None if self._dtype is None else np.lib.format.dtype_to_descr(self._dtype),
            "rows_digest": self._hash.hexdigest(),
            "seconds": self.seconds + time.monotonic() - self._began,
        }
        leaves = jax.tree.leaves((self.past.state, self.past.visits, self.past.path))
        buffer = io.BytesIO()
        arrays: dict[str, Any] = {f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
        np.savez(buffer, about=json.dumps(about), **arrays)
        write_whole(self._stem.with_suffix(".state"), sealed(buffer.getvalue()))
        self._written, self._noted = time.monotonic(), self.past.moves

    def _recall(self, fresh: Past) -> Past | None:
        """What is on disk of this stage, if it is whole."""
        found = read_stage(self._stem)
        if found is None:
            return None
        about, leaves, self._dtype, self._hash = found
        known, tree = jax.tree.flatten(fresh.state)
        count = len(known)
        state = jax.tree.unflatten(tree, map(jnp.asarray, leaves[:count]))
        path = None if fresh.path is None else type(fresh.path)(*leaves[count + 1 :])
        return Past(about["moves"], state, leaves[count], type(fresh.tally)(*about["tally"]), about["rows"], path)


def read_stage(stem: Path) -> tuple[dict[str, Any], list[np.ndarray], np.dtype | None, Any] | None:
    """What was written about a stage, its arrays, the type of its rows and their hash; None if it is not whole."""
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


def _tuples(description: Any) -> Any:
    """JSON knows no tuples."""
    return [(name, kind, tuple(shape)) for name, kind, *rest in description for shape in (rest or [()])]


def sealed(content: bytes) -> bytes:
    """With a checksum in front."""
    return hashlib.blake2b(content, digest_size=DIGEST).digest() + content


def unsealed(path: Path) -> bytes | None:
    """The content of a sealed file; None if there is no such file, or not the whole of it."""
    if not path.exists():
        return None
    data = path.read_bytes()
    return data[DIGEST:] if sealed(data[DIGEST:]) == data else None


def write_whole(path: Path, content: bytes) -> None:
    """All of it or nothing, whatever happens on the way."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".part-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _hash_of(path: Path, size: int) -> Any:
    """Of the first ``size`` bytes; None if there are fewer."""
    if not path.exists() or path.stat().st_size < size:
        return None
    running = hashlib.blake2b(digest_size=DIGEST)
    with path.open("rb") as file:
        while size:
            block = file.read(min(size, BLOCK))
            running.update(block)
            size -= len(block)
    return running


def _seconds(folder: Path) -> float:
    """Spent on the run so far, by its last record."""
    last = sorted(folder.glob("[0-9][0-9][0-9]-*.state"))
    found = unsealed(last[-1]) if last else None
    if found is None:
        return 0.0
    with np.load(io.BytesIO(found)) as arrays:
        return float(json.loads(str(arrays["about"]))["seconds"])


def _lock(folder: Path) -> BinaryIO:
    """Held while a process writes here."""
    file = (folder / "lock").open("wb")
    try:
        import fcntl
    except ImportError:  # not a Unix: two processes on one checkpoint are not told apart
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        free = False
    else:
        free = True
    require(free, "a checkpoint serves one process at a time", f"{folder}, in use by another", "wait for the other run")
    return file
