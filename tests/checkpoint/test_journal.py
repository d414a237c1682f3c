"""What a journal vouches for is whole."""

import errno
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sahmc._support.sealed_files import sealed
from sahmc.checkpoint.folder_lock import FolderLock
from sahmc.checkpoint.journal import ASKED, DiskJournal, Goal, StageProgress, asked_in
from sahmc.results.records import Counts

NONE = Counts(*(0 for _ in Counts._fields))


def test_goals_of_an_older_run_are_read(tmp_path):
    (tmp_path / ASKED).write_bytes(sealed(b'[300, [40, "asked", 7]]'))
    assert asked_in(tmp_path) == (Goal(300), Goal(40, "asked", 7))


def test_rows_beyond_the_last_record_do_not_count(tmp_path):
    """Killed after rows were written and before the state that vouches for them."""
    state = (jnp.zeros(2),)
    fresh = StageProgress(0, state, np.zeros(1, np.int64), NONE, 0.0, 0, None)
    book = DiskJournal(tmp_path, "run", FolderLock(tmp_path))
    book.begin("draw", fresh, jax.tree.structure(0), 8)
    book.add(StageProgress(4, (jnp.ones(2),), np.ones(1, np.int64), NONE, 0.0, 4, None), np.arange(4.0))
    book._written = time.monotonic() + 1000
    book.add(StageProgress(8, (2 * jnp.ones(2),), np.ones(1, np.int64), NONE, 0.0, 8, None), np.arange(4.0, 8.0))
    book._rows.flush()
    book.close()
    book = DiskJournal(tmp_path, "run", FolderLock(tmp_path))
    past = book.begin("draw", fresh, jax.tree.structure(0), 8)
    assert past.moves == past.rows == 4 and np.array_equal(past.state[0], [1, 1])
    book.add(past._replace(moves=8, rows=8), 10 + np.arange(4.0))
    book.end()
    assert np.array_equal(book.draws(), [0, 1, 2, 3, 10, 11, 12, 13])
    book.close()


def test_ctrl_c_while_rows_are_written_loses_only_those(tmp_path):
    """The rows are in the file, but neither counted nor in the checksum."""
    state = (jnp.zeros(2),)
    fresh = StageProgress(0, state, np.zeros(1, np.int64), NONE, 0.0, 0, None)
    book = DiskJournal(tmp_path, "run", FolderLock(tmp_path))
    book.begin("draw", fresh, jax.tree.structure(0), 8)
    book.add(fresh._replace(moves=4, rows=4), np.arange(4.0))
    book._rows = Pressing(book._rows)
    with pytest.raises(KeyboardInterrupt):
        book.add(fresh._replace(moves=8, rows=8), np.arange(4.0))
    book.end()
    book.close()
    book = DiskJournal(tmp_path, "run", FolderLock(tmp_path))
    assert book.begin("draw", fresh, jax.tree.structure(0), 8).rows == 4
    book.close()


class Pressing:
    """A file in which Ctrl-C comes just after a write."""

    def __init__(self, file):
        self._file = file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def write(self, data):
        self._file.write(data)
        raise KeyboardInterrupt


def test_a_full_disk_says_where_and_how_to_go_on(tmp_path):
    fresh = StageProgress(0, (jnp.zeros(2),), np.zeros(1, np.int64), NONE, 0.0, 0, None)
    book = DiskJournal(tmp_path, "run", FolderLock(tmp_path))
    book.begin("draw", fresh, jax.tree.structure(0), 2**20)
    book.add(fresh._replace(moves=4, rows=4), np.arange(4.0))
    book._rows = Full(book._rows)
    with pytest.raises(OSError, match=rf"{tmp_path}; 9\.0 MiB more.*goes on from its last record"):
        book.add(fresh._replace(moves=8, rows=8), np.arange(4.0))
    book.close()


class Full(Pressing):
    """A file on a disk that is full."""

    def write(self, data):
        raise OSError(errno.ENOSPC, "No space left on device")
