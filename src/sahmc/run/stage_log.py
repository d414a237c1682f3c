"""The stages of a run that are behind it, in one file, so that a long warm-up does not fill a folder with files."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from sahmc._support.sealed_files import opened, sealed

HEAD = struct.Struct("<8sQQ")
"""The head of an entry: a mark, the number of its stage, and the bytes that follow."""
NUMBER = struct.Struct("<Q")
"""The number of a stage, with which the content of its entry begins."""
MARK = b"sahmc-1\n"
"""The mark with which an entry begins."""


class StageLog:
    """A file of entries, one for each stage, each with a checksum; they are added at its end, in the order of stages.

    What comes after an entry that is cut short is not read, and is written over.
    """

    def __init__(self, path: Path):
        self._path = path
        self._places: dict[int, tuple[int, int]] = {}
        self._end = 0
        if path.exists():
            self._scan(path.stat().st_size)

    def _scan(self, size: int) -> None:
        """Note where the entries of a file of ``size`` bytes are."""
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
        """Return what was added of a stage; None if nothing was, or it is damaged."""
        if stage not in self._places:
            return None
        begin, length = self._places[stage]
        with self._path.open("rb") as file:
            file.seek(begin)
            content = opened(file.read(length))
        own = NUMBER.pack(stage)  # under the checksum too
        return content[len(own) :] if content is not None and content.startswith(own) else None

    def add(self, stage: int, content: bytes) -> None:
        """Add what is to be known of a stage; it is on disk when this returns."""
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
        """Forget a stage and all that were added after it; they are written over by what is added next."""
        gone = {number: place for number, place in self._places.items() if number >= stage}
        for number in gone:
            del self._places[number]
        self._end = min([begin - HEAD.size for begin, _ in gone.values()], default=self._end)
