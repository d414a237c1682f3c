"""The files of a stage, and how they are read."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.tree_util import PyTreeDef
from jaxtyping import PyTree

from sahmc._support.sealed_files import DIGEST_BYTES, unsealed


class Stage(NamedTuple):
    """A stage as it was found on disk."""

    about: dict[str, Any]
    """The description stored with it."""
    leaves: list[np.ndarray]
    """The arrays of its state."""
    dtype: np.dtype | None
    """The type of its rows; None if it has none."""
    hash: hashlib.blake2b
    """The hash of its rows."""
    rows: np.ndarray | None
    """Its rows, if they are in the log."""


def read_stage(stem: Path) -> Stage | None:
    """Return a stage that has its own files; None if they are incomplete.

    ``stem`` is the path of its files without the suffixes.
    """
    content = unsealed(stem.with_suffix(".state"))
    if content is None:
        return None
    found = parse_stage(content)
    running = _hash_of(
        stem.with_suffix(".rows"), found.about["rows"] * (0 if found.dtype is None else found.dtype.itemsize)
    )
    if running is None or running.hexdigest() != found.about["rows_digest"]:
        return None
    return found._replace(hash=running)


def parse_stage(content: bytes) -> Stage:
    """Return a stage from its stored bytes."""
    with np.load(io.BytesIO(content)) as arrays:
        about = json.loads(str(arrays["about"]))
        rows = arrays["rows"] if "rows" in arrays.files else None
        leaves = [arrays[f"leaf{i}"] for i in range(sum(name.startswith("leaf") for name in arrays.files))]
    dtype = None if about["dtype"] is None else np.lib.format.descr_to_dtype(_tuples(about["dtype"]))
    return Stage(about, leaves, dtype, hashlib.blake2b(digest_size=DIGEST_BYTES), rows)


def mapped(stem: Path, dtype: np.dtype, rows: int) -> np.ndarray:
    """Return the rows of a stage that has its own files, without loading them into memory."""
    return np.memmap(stem.with_suffix(".rows"), dtype, "r", shape=rows)


def columns(rows: np.ndarray, structure: PyTreeDef) -> PyTree:
    """Return rows as a pytree of arrays."""
    return jax.tree.unflatten(structure, [rows[name] for name in rows.dtype.names or ()])


def _tuples(description: list[list]) -> list[tuple]:
    """Turn the lists in the description of a type back into tuples, which JSON lacks."""
    return [(name, kind, tuple(shape)) for name, kind, *rest in description for shape in (rest or [()])]


def _hash_of(path: Path, size: int) -> hashlib.blake2b | None:
    """Return the hash of the first ``size`` bytes of a file; None if there are fewer."""
    if not path.exists() or path.stat().st_size < size:
        return None
    content = np.memmap(path, np.uint8, "r", shape=size).data if size else b""  # an empty file cannot be mapped
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES)
