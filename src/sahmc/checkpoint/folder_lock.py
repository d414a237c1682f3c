"""A folder lock, so that only one process at a time writes to a run."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from sahmc._support.sealed_files import FULL, PART
from sahmc._support.validate import require

LOCK = "lock"
"""The name of the locked file."""


class FolderLock:
    """A folder reserved for this process while the lock is open; a folder that is not writable can only be read."""

    def __init__(self, folder: Path):
        self.folder, self.writable = folder, True
        self._file: BinaryIO | None = None
        try:
            self._file = (folder / LOCK).open("ab")
        except OSError as error:  # a read-only medium, or someone else's run
            if error.errno in FULL:
                raise
            self.writable = False
            return
        require(
            _held(self._file),
            "a checkpoint serves one process at a time",
            f"{folder}, in use by another",
            "wait for the other run",
        )
        for left_over in folder.glob(f"{PART}*"):
            left_over.unlink(missing_ok=True)

    def require_writable(self) -> None:
        """Raise ``ValueError`` if the folder can only be read."""
        require(
            self.writable,
            "a run that is not complete needs a folder that can be written to",
            f"{self.folder}, which can only be read",
            "copy it to a place of your own, and go on there",
        )

    def close(self) -> None:
        """Close the lock, so that other processes may use the folder."""
        if self._file is not None:
            self._file.close()


def _held(file: BinaryIO) -> bool:
    """Tell whether this process could lock an open file."""
    try:
        import fcntl
    except ImportError:  # not Unix: two processes on one checkpoint are not detected
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return False
    return True
