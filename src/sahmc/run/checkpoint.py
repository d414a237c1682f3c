"""A run that is kept in a folder: which run it is, and how to go on with it."""

from __future__ import annotations

import hashlib
import json
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cloudpickle
import jax
import numpy as np

from sahmc._support.sealed_files import DIGEST_BYTES, sealed, unsealed, write_whole
from sahmc._support.validate import require
from sahmc._version import __version__
from sahmc.run.journal import DiskJournal
from sahmc.run.plan import Plan

RUN, CALL = "run.json", "call.pickle"
"""The files that tell which run it is, and hold the arguments of ``sample``."""
AGAIN = "call sahmc.sample again, with the same arguments and this checkpoint"
"""The advice where stored arguments cannot be used."""


def stored_arguments(checkpoint: str | Path) -> dict[str, Any]:
    """Return the arguments of ``sample`` with which the run in a folder was begun, or raise ``ValueError``.

    They were stored by pickle: read only what you trust.
    """
    path = Path(checkpoint)
    require(recorded(path) is not None, "a checkpoint holds a run", f"{path}, which holds none", "check the path")
    content = unsealed(path / CALL)
    require(content is not None, "the arguments of the run must be in the checkpoint", f"no whole {path / CALL}", AGAIN)
    assert content is not None
    try:
        return pickle.loads(content)
    except Exception as error:
        raise ValueError(f"the stored model cannot be loaded here: {error!r}. To fix it, {AGAIN}.") from error


def recorded(checkpoint: str | Path) -> dict[str, Any] | None:
    """Return what a folder says of the run it holds: its identity and seed; None if there is no run in it yet.

    A folder that holds something else, or a damaged run, raises ``ValueError``.
    """
    path = Path(checkpoint)
    try:
        text = (path / RUN).read_text()
    except FileNotFoundError:
        strange = (
            [p.name for p in path.iterdir() if p.name not in (CALL, "lock") and not p.name.startswith(".part-")]
            if path.is_dir()
            else []
        )
        require(
            not strange,
            "checkpoint must be a folder that is new, empty or holds a run",
            f"{path} with {strange[0] if strange else ''} in it",
            "choose another folder; nothing was changed",
        )
        return None
    except NotADirectoryError:
        text = ""
    try:
        content = json.loads(text)
        about = content["run"]
        whole = content["checksum"] == _checksum(about)
    except (ValueError, TypeError, KeyError):
        whole, about = False, {}
    require(
        whole,
        "checkpoint must be a folder with a whole run in it",
        f"{path}, damaged or something else",
        "choose another folder, or delete this one to start anew; nothing was changed",
    )
    return about


def open_checkpoint(
    checkpoint: str | Path, identity: Mapping[str, Any], seed: Any, arguments: Mapping[str, Any]
) -> DiskJournal:
    """Return the journal of a run in a folder: a new one, or that of the same run, begun earlier.

    ``identity`` holds all that the bits of the run depend on, and the run in the folder must have the same. ``seed`` is
    what is recorded of the seed, and ``arguments`` are those of ``sample``, stored for ``resume``.
    """
    path = Path(checkpoint)
    known = recorded(path)
    if known is None:
        path.mkdir(parents=True, exist_ok=True)
        try:
            write_whole(path / CALL, sealed(cloudpickle.dumps({**arguments, "random_seed": seed})))
        except (pickle.PicklingError, TypeError, AttributeError, ValueError):  # the last from a pointer, as Stan's
            (path / CALL).unlink(missing_ok=True)  # `resume` says what to do then
        about = {"identity": dict(identity), "seed": seed}
        write_whole(path / RUN, json.dumps({"run": about, "checksum": _checksum(about)}, indent=1).encode())
    else:
        theirs = known["identity"]
        other = [
            f"{name} {theirs.get(name)!r} in the checkpoint and {identity.get(name)!r} here"
            for name in {**theirs, **identity}
            if theirs.get(name) != json.loads(json.dumps(identity.get(name)))
        ]
        require(
            not other,
            f"the run in {path} must be this one",
            "; ".join(other),
            "choose another folder, or change the arguments back; nothing was changed",
        )
    return DiskJournal(path)


def identity(plan: Plan, seed: Any, **parts: Any) -> dict[str, Any]:
    """Return all that the bits of a run depend on, as text, numbers and checksums that can be compared.

    ``seed`` is what is recorded of the seed, and ``parts`` are pytrees besides the plan, such as starts and the model.
    """
    names = ("draws", "tune", "chains", "thin", "target_accept", "theta", "adapt", "jumps")
    things = {"kernel": plan.kernel, "tilt": plan.tilt, "gain": plan.gain, "desired": plan.desired, **parts}
    return {
        **{name: getattr(plan, name) for name in names},
        "random_seed": seed,
        **{name: fingerprint(thing) for name, thing in things.items()},
        "sahmc": __version__,
        "jax": jax.__version__,
        "device": jax.devices()[0].device_kind,
    }


def fingerprint(thing: Any) -> str:
    """Return a checksum of a pytree: of the arrays in it, and of what is printed for the rest."""
    leaves, structure = jax.tree.flatten(thing)
    digest = hashlib.blake2b(_printed(structure), digest_size=8)
    for leaf in leaves:
        is_key = hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        array = np.asarray(jax.random.key_data(leaf) if is_key else leaf)
        digest.update(
            _printed(leaf) if array.dtype == object else f"{array.dtype}{array.shape}".encode() + array.tobytes()
        )
    return digest.hexdigest()


def _printed(thing: Any) -> bytes:
    """Return what is printed for a thing, without the addresses in memory."""
    return re.sub(r"0x[0-9a-f]+", "", str(thing)).encode()


def _checksum(about: Any) -> str:
    """Return the checksum of data that JSON can hold."""
    return hashlib.blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=DIGEST_BYTES).hexdigest()
