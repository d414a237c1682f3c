"""Records to bytes and back: JSON for text and numbers, plus arrays. Pickle is avoided because it can run code."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sahmc._support.pytree import assembled
from sahmc.results.records import Counts, Finding, ModeAssignment, ThetaRecord, ThetaTrace
from sahmc.results.warmup_record import Climb, LearntReference, Pilot, Rung, SearchPower, WarmupRecord
from sahmc.tilt import TILTS
from sahmc.tilt.partition import EnergyPartition, TemperatureLadder

RECORDS = (
    *(Counts, Finding, ModeAssignment, ThetaRecord, ThetaTrace),
    *(Climb, LearntReference, Pilot, Rung, SearchPower, WarmupRecord),
)
"""The classes of the records of a run and of its warm-up."""


def pack(value: object) -> bytes:
    """Return a value as bytes: numbers, text, arrays and records, nested in dicts, lists and tuples.

    Raise ``TypeError`` for anything else.
    """
    arrays: list[np.ndarray] = []
    text = json.dumps(_described(value, arrays))
    buffer = io.BytesIO()
    content: dict[str, Any] = {f"array{i}": array for i, array in enumerate(arrays)}
    np.savez(buffer, text=text, **content)
    return buffer.getvalue()


def unpack(content: bytes) -> Any:
    """Return the value that ``pack`` converted to bytes."""
    with np.load(io.BytesIO(content), allow_pickle=False) as found:
        arrays = [found[f"array{i}"] for i in range(len(found.files) - 1)]
        return _restored(json.loads(str(found["text"])), arrays, _kinds())


def _kinds() -> dict[str, type]:
    """Return the known classes, by name."""
    return {kind.__name__: kind for kind in (*RECORDS, EnergyPartition, TemperatureLadder, *TILTS.values())}


def _described(value: Any, arrays: list[np.ndarray]) -> object:
    """Return a value in a form that fits JSON, with its arrays appended to ``arrays``."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, (np.ndarray, np.generic, jax.Array)):
        array = np.asarray(value)
        if array.dtype == object:
            raise TypeError("an array of objects")
        arrays.append(array)
        what = "jax" if isinstance(value, jax.Array) else "number" if isinstance(value, np.generic) else "array"
        return {what: len(arrays) - 1}
    if isinstance(value, Mapping):
        return {"dict": [[key, _described(item, arrays)] for key, item in value.items()]}
    if type(value) in (list, tuple):
        return {type(value).__name__: [_described(item, arrays) for item in value]}
    kind: Any = type(value)
    if kind not in _kinds().values():
        raise TypeError(f"a {kind.__name__}")
    names = kind._fields if issubclass(kind, tuple) else [field.name for field in dataclasses.fields(kind)]
    return {"kind": kind.__name__, "of": {name: _described(getattr(value, name), arrays) for name in names}}


def _restored(plain: object, arrays: list[np.ndarray], kinds: Mapping[str, type]) -> object:
    """Return the value that ``_described`` described; ``kinds`` are the known classes."""
    if not isinstance(plain, dict):
        return plain
    if "kind" in plain:
        kind: Any = kinds[plain["kind"]]
        fields = {name: _restored(item, arrays, kinds) for name, item in plain["of"].items()}
        return kind(**fields) if kind in RECORDS else assembled(kind, fields)
    what, content = next(iter(plain.items()))
    if what == "dict":
        return {key: _restored(item, arrays, kinds) for key, item in content}
    if what in ("list", "tuple"):
        return {"list": list, "tuple": tuple}[what](_restored(item, arrays, kinds) for item in content)
    array = arrays[content]
    return jnp.asarray(array) if what == "jax" else array[()] if what == "number" else array
