"""Files that are written completely or not at all, and that detect damage by a checksum."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DIGEST_BYTES = 32
"""The length of a checksum, in bytes."""
PART = ".part-"
"""The prefix of the names of files that are still incomplete."""
FULL = (errno.ENOSPC, errno.EDQUOT)
"""The error numbers of a full disk."""


def sealed(content: bytes) -> bytes:
    """Return the content with its checksum in front."""
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest() + content


def unsealed(path: Path) -> bytes | None:
    """Return the content of a sealed file; None if the file is missing or damaged."""
    return opened(path.read_bytes()) if path.exists() else None


def opened(data: bytes) -> bytes | None:
    """Return the content that ``sealed`` has put a checksum in front of; None if it is damaged."""
    return data[DIGEST_BYTES:] if sealed(data[DIGEST_BYTES:]) == data else None


@contextmanager
def told_of_space(folder: Path, need: int, todo: str) -> Iterator[None]:
    """Make a full-disk error say where it occurred, how many bytes are needed, and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        words = f"no space left in {folder}; {need / 2**20:.1f} MiB more are needed. To fix it, {todo}"
        raise OSError(error.errno, words) from error


def write_whole(path: Path, content: bytes) -> None:
    """Write a complete file or nothing, whatever happens."""
    name = path.with_name(f"{PART}{secrets.token_hex(8)}")
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        name.unlink(missing_ok=True)
        raise
