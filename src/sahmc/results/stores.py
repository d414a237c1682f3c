"""Stores, the NetCDF or Zarr files of a tree. Draws are written in blocks, so they need not fit into memory."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from sahmc._support.sealed_files import FULL, told_of_space
from sahmc._support.validate import require

if TYPE_CHECKING:
    import xarray as xr

OLD = "old"
"""The name of a store that is being replaced, in a temporary folder next to it."""
LEFT_OVER = 3600.0
"""The seconds without a write after which a temporary folder is removed."""
BLOCK_BYTES = 2**22
"""The size of a block of a variable that is written at once, in bytes."""
CHECKSUM = "checksum"
"""The attribute that holds the checksum of a store."""
SPARE_BYTES = 2**22
"""The bytes allowed for a store in addition to its arrays."""
SAFE_CODECS = frozenset({"bytes", "zstd", "blosc", "gzip", "crc32c", "sharding_indexed", "transpose", "vlen-utf8"})
"""The accepted Zarr codecs; none of them can run code."""


class Streamed(NamedTuple):
    """A variable (chain, draw, ...) that is written in blocks."""

    group: str
    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype
    block: Callable[[slice], np.ndarray]
    """The function that returns a slice of the draws of all chains."""

    @property
    def nbytes(self) -> int:
        """The size of the whole variable in bytes."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    @property
    def step(self) -> int:
        """The number of draws in a block."""
        return max(1, BLOCK_BYTES // max(1, self.nbytes // max(1, self.shape[1])))

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield all blocks, each with its slice of draws."""
        for first in range(0, self.shape[1], self.step):
            some = slice(first, min(self.shape[1], first + self.step))
            yield some, np.ascontiguousarray(self.block(some))

    @property
    def chunks(self) -> tuple[int, ...]:
        """The shape of the chunks in the file."""
        first, draws, *rest = self.shape
        return (max(1, first), max(1, min(draws, self.step)), *(max(1, n) for n in rest))


def write_store(tree: xr.DataTree, streamed: Sequence[Streamed], names: Sequence[str], target: Path) -> None:
    """Write a tree and the ``streamed`` variables to ``target``, atomically.

    An old store stays until the new one is complete. ``names`` are the attributes that the checksum covers, in addition
    to all variables.
    """
    need = sum(s.nbytes for s in streamed) + sum(node.to_dataset().nbytes for node in tree.subtree) + SPARE_BYTES
    _sweep(target)
    todo = "make space, or save it elsewhere: the result is still in memory, and an older file is still there"
    folder = Path(tempfile.mkdtemp(dir=target.parent, prefix=_beside(target)))
    part, old = folder / f"part{target.suffix}", folder / OLD
    try:
        with told_of_space(target.parent, need, todo):
            if shutil.disk_usage(target.parent).free < need:
                raise OSError(FULL[0], "")
            (_write_zarr if target.suffix == ".zarr" else _write_netcdf)(tree, streamed, names, part)
        while part.exists():
            if target.is_dir():
                with contextlib.suppress(FileNotFoundError):  # another save has just removed it
                    _put_away(old)
                    target.rename(old)
            try:
                part.replace(target)
            except OSError:  # another save has just written its own
                if not target.is_dir():
                    raise
    finally:
        restore(target)
        _put_away(old)
        shutil.rmtree(folder, ignore_errors=True)


def _put_away(old: Path) -> None:
    """Give an old store, if it exists, another name, so that no process restores it while it is removed."""
    with contextlib.suppress(FileNotFoundError):
        old.rename(old.with_name(f"gone-{secrets.token_hex(4)}"))


def restore(target: Path) -> None:
    """Restore the old store, if there is one, after a save was interrupted while replacing it."""
    if target.exists():
        return
    for old in sorted(target.parent.glob(f"{_folders(target)}/{OLD}")):
        with contextlib.suppress(OSError):
            old.rename(target)
            return


def _sweep(target: Path) -> None:
    """Remove the temporary folders of interrupted saves to ``target``."""
    for folder in target.parent.glob(_folders(target)):
        with contextlib.suppress(OSError):
            last = max(path.stat().st_mtime for path in (folder, *folder.rglob("*")))
            if folder.is_dir() and not (folder / OLD).exists() and time.time() - last > LEFT_OVER:
                shutil.rmtree(folder)


def _beside(target: Path) -> str:
    """Return the name prefix of temporary folders, in which a file is written before it replaces ``target``."""
    return f".{target.name}.sahmc-"


def _folders(target: Path) -> str:
    """Return the pattern of the names of temporary folders."""
    return glob.escape(_beside(target)) + "????????"


def checksum(tree: xr.DataTree, names: Sequence[str], streamed: Mapping[tuple[str, str], str] | None = None) -> str:
    """Return the checksum of the variables of a tree and of its attributes ``names``.

    ``streamed`` holds the digests of variables that are not in the tree, by group and name.
    """
    found = dict(streamed or {})
    for node in tree.subtree:
        for name, variable in node.data_vars.items():
            found[node.path.strip("/"), str(name)] = _digest_of(variable.dims, variable.values)
    about = {name: str(tree.attrs[name]) for name in names}
    content = [about, sorted([*key, value] for key, value in found.items())]
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


def require_safe_zarr(store: Path) -> None:
    """Raise ``ValueError`` if reading a Zarr store could run code: an old format, or an unknown codec."""
    old = next((p for name in (".zgroup", ".zarray", ".zmetadata") for p in store.rglob(name)), None)
    require(old is None, "a Zarr store must be of format 3", str(old), "pass what save() wrote")
    for path in store.rglob("zarr.json"):
        strange = _codecs(json.loads(path.read_text())) - SAFE_CODECS
        must = "a Zarr store must use codecs that only unpack numbers"
        require(not strange, must, f"{path} with {', '.join(sorted(strange))}", "pass what save() wrote")


def _codecs(about: object) -> set[str]:
    """Return the names of all codecs in the metadata of a Zarr store."""
    if isinstance(about, list):
        return set().union(*map(_codecs, about))
    if not isinstance(about, dict):
        return set()
    here = about.get("codecs", [])
    names = {str(c.get("name") if isinstance(c, dict) else c) for c in here} if isinstance(here, list) else {"?"}
    if "filters" in about or "compressor" in about:  # Zarr format 2
        names.add("filters")
    return names.union(*map(_codecs, about.values()))


def _write_netcdf(tree: xr.DataTree, streamed: Sequence[Streamed], names: Sequence[str], path: Path) -> None:
    import h5netcdf

    with _patient(path) as file:
        tree.to_netcdf(file, engine="h5netcdf")
        file.require_space()
        with h5netcdf.File(file, "r+") as store:
            seals = {}
            for what in streamed:
                is_flag = what.dtype == bool  # NetCDF has no booleans; xarray stores them in the same way
                seal = _Seal(what.dtype, what.shape)
                variable = store[what.group].create_variable(
                    what.name, what.dims, np.dtype("i1") if is_flag else what.dtype, chunks=what.chunks
                )
                if is_flag:
                    variable.attrs["dtype"] = "bool"
                for some, block in what.blocks():
                    variable[:, some] = block.astype("i1") if is_flag else block
                    file.require_space()
                    seal.add(block)
                seals[what.group, what.name] = seal.digest()
            store.attrs[CHECKSUM] = checksum(tree, names, seals)


def _write_zarr(tree: xr.DataTree, streamed: Sequence[Streamed], names: Sequence[str], path: Path) -> None:
    import zarr

    rename(tree, escaped)
    tree.to_zarr(path, mode="w", consolidated=False, zarr_format=3)
    store = zarr.open_group(path, mode="r+", zarr_format=3)
    seals = {}
    for what in streamed:
        seal = _Seal(what.dtype, what.shape)
        array = store.create_array(
            f"{what.group}/{escaped(what.name)}",
            shape=what.shape,
            dtype=what.dtype,
            chunks=what.chunks,
            dimension_names=[escaped(name) for name in what.dims],
        )
        for some, block in what.blocks():
            array[:, some] = block
            seal.add(block)
        seals[what.group, what.name] = seal.digest()
    rename(tree, unescaped)
    store.attrs[CHECKSUM] = checksum(tree, names, seals)


def escaped(name: str) -> str:
    """Return a name as Zarr can hold it, to which a backslash is a slash."""
    return name.replace("%", "%25").replace("\\", "%5C")


def unescaped(name: str) -> str:
    """Return the name that ``escaped`` was given."""
    return name.replace("%5C", "\\").replace("%25", "%")


def rename(tree: xr.DataTree, new: Callable[[str], str]) -> None:
    """Give all variables and axes of a tree the names that a function makes of theirs."""
    for node in tree.subtree:
        here = node.to_dataset(inherit=False)
        names = {name: new(str(name)) for name in (*here.variables, *here.dims)}
        if any(name != other for name, other in names.items()):
            node.dataset = here.rename(names)


class _Seal:
    """The digest of an array (chain, draw, ...) that arrives in blocks of draws."""

    def __init__(self, dtype: np.dtype, shape: tuple[int, ...]):
        self._about = f"{dtype.newbyteorder('=').str}{shape}"
        self._rows = [hashlib.blake2b(digest_size=16) for _ in range(shape[0])]

    def add(self, block: np.ndarray) -> None:
        """Add further draws."""
        for row, values in zip(self._rows, block, strict=True):
            row.update(np.ascontiguousarray(values).tobytes())

    def digest(self) -> str:
        """Return the digest of all blocks added so far."""
        rows = "".join(row.hexdigest() for row in self._rows)
        return hashlib.blake2b((self._about + rows).encode(), digest_size=16).hexdigest()


def _digest_of(dims: tuple[Hashable, ...], values: np.ndarray) -> str:
    """Return the digest of a variable; for draws it does not depend on the division into blocks."""
    values = np.asarray(values)
    if dims[:2] == ("chain", "draw"):
        seal = _Seal(values.dtype, values.shape)
        seal.add(values)
        return seal.digest()
    plain = values.astype(str) if values.dtype.kind in "OUSTmM" else values
    about = f"{plain.dtype.kind}{plain.dtype.itemsize if plain.dtype.kind != 'U' else ''}{plain.shape}".encode()
    content = "\0".join(plain.ravel().tolist()).encode() if plain.dtype.kind == "U" else plain.tobytes()
    return hashlib.blake2b(about + content, digest_size=16).hexdigest()


class _Patient:
    """A file that ignores write errors until asked, because HDF would crash the interpreter if the disk is full."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self.error: OSError | None = None

    def _tried(self, call: Callable[..., int | None], *args: object) -> int:
        """Return the number that ``call`` returns; 0 if there has been an error, or is one now."""
        if self.error is None:
            try:
                return call(*args) or 0
            except OSError as error:
                self.error = error
        return 0

    def write(self, data: Any) -> int:
        """Write all data, or pretend to."""
        rest = memoryview(data).cast("B")
        while self.error is None and len(rest):  # the last write before the disk is full may be partial
            rest = rest[self._tried(self._file.write, rest) :]
        return len(data)

    def require_space(self) -> None:
        """Raise the first write error, if there was one: unwritten data must not be read."""
        if self.error is not None:
            raise self.error

    def truncate(self, size: int | None = None) -> int:
        """Set the size, or pretend to."""
        return self._tried(self._file.truncate, size) or size or 0

    def flush(self) -> None:
        """Write buffered data, or pretend to."""
        self._tried(self._file.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextlib.contextmanager
def _patient(path: Path) -> Iterator[Any]:
    """Yield a new file; raise its first write error, if any, at the end."""
    with path.open("w+b", buffering=0) as raw:
        file = _Patient(raw)
        try:
            yield file
        except Exception:
            if file.error is None:
                raise
        if file.error is not None:
            raise file.error
