"""The identity of a run, as files carry it: its checksum, and how two of them differ."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import numpy as np

from sahmc._support.hosts import agreed, gathered
from sahmc._support.sealed_files import DIGEST_BYTES
from sahmc._support.validate import require

HASHED = {
    "kernel": "the kernel",
    "tilt": "the tilt or its partition",
    "gain": "the gain",
    "desired": "the desired frequencies",
    "start": "where chains start",
    "program": "the steps of the log density",
    "data": "the data in the log density",
    "values": "the values of the log density or its gradient",
    "keep": "the function keep",
    "symmetries": "the symmetries",
    "earlier": "the run from which it starts",
}
"""The parts that are compared by checksum, with their names in messages."""


def different(theirs: Mapping[str, object], ours: Mapping[str, object]) -> list[str]:
    """Return the differences between two identities as text; ``theirs`` is that of a checkpoint."""
    ours = json.loads(json.dumps(ours))
    names = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
    if "data" in names or "program" in names:
        names = [name for name in names if name != "values"]
    return [
        f"{HASHED[name]} changed"
        if name in HASHED
        else f"{name} is {theirs.get(name)!r} in the checkpoint and {ours.get(name)!r} here"
        for name in names
    ]


def require_one_run(ours: Mapping[str, object]) -> None:
    """Raise ``ValueError`` in all processes unless all have the same identity; ``ours`` is this process's.

    Chains of all processes learn together. If their data differed, no process would sample its own posterior.
    """
    seals = gathered(np.frombuffer(bytes.fromhex(digest(ours)), np.uint8))
    first = agreed(json.loads(json.dumps(ours)))
    others = [i for i, seal in enumerate(seals) if not np.array_equal(seal, seals[0])]
    what = "; ".join(different(first, ours)).replace("in the checkpoint", "in process 0")
    require(
        not others,
        "all processes of a run must be given the same model, data and arguments, and have the same versions",
        f"something else in {', '.join(f'process {i}' for i in others)}" + (f": {what}" if what else ""),
        "give all of them the same",
    )


def digest(identity: Mapping[str, object]) -> str:
    """Return the checksum of an identity, which every file of the run carries."""
    return hashlib.blake2b(json.dumps(identity, sort_keys=True).encode(), digest_size=DIGEST_BYTES).hexdigest()
