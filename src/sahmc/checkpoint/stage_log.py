"""The finished stages of a run, in one file, so that a long warm-up does not fill a folder with files."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from sahmc._support.sealed_files import opened, sealed

HEAD = struct.Struct("<8sQQ")
"""The header of an entry: a mark, the number of its stage, and the number of bytes that follow."""
NUMBER = struct.Struct("<Q")
"""The number of a stage, which begins the content of its entry."""
MARK = b"sahmc-1\n"
"""The mark that begins an entry."""


class StageLog:
    """A file of entries, one per stage, each with a checksum; entries are appended in the order of stages.

    Anything after a truncated entry is ignored and later overwritten.
    """

    def __init__(self, path: Path):
        self._path = path
        self._places: dict[int, tuple[int, int]] = {}
        self._end = 0
        if path.exists():
            self._scan(path.stat().st_size)

    def _scan(self, size: int) -> None:
        """Note the positions of the entries in a file of ``size`` bytes."""
        with self._path.open("rb") as file:
            while self._end + HEAD.size <= size:
                file.seek(self._end)
                mark, stage, length = HEAD.unpack(file.read(HEAD.size))
                begin = self._end + HEAD.size
                if mark != MARK or begin + length > size:
                    return
                self._places[stage] = begin, length
                self._end = begin + length

    @property
    def last(self) -> bytes | None:
        """The content of the last entry; None if there is none."""
        return self.read(max(self._places)) if self._places else None

    def read(self, stage: int) -> bytes | None:
        """Return the entry of a stage; None if it is missing or damaged."""
        if stage not in self._places:
            return None
        begin, length = self._places[stage]
        with self._path.open("rb") as file:
            file.seek(begin)
            content = opened(file.read(length))
        own = NUMBER.pack(stage)  # the checksum covers this too
        return content[len(own) :] if content is not None and content.startswith(own) else None

    def add(self, stage: int, content: bytes) -> None:
        """Add the entry of a stage; it is on disk when this returns."""
        entry = sealed(NUMBER.pack(stage) + content)
        with self._path.open("r+b" if self._path.exists() else "w+b") as file:
            file.truncate(self._end)
            file.seek(self._end)
            file.write(HEAD.pack(MARK, stage, len(entry)) + entry)
            file.flush()
            os.fsync(file.fileno())
        self._places[stage] = self._end + HEAD.size, len(entry)
        self._end += HEAD.size + len(entry)

    def forget(self, stage: int) -> None:
        """Forget a stage and all later ones; the next entry overwrites them."""
        gone = {number: place for number, place in self._places.items() if number >= stage}
        for number in gone:
            del self._places[number]
        self._end = min([begin - HEAD.size for begin, _ in gone.values()], default=self._end)
