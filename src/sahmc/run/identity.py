"""The identity of a run: everything that determines its bits, so that no run is mistaken for another."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from sahmc._support.sealed_files import DIGEST_BYTES
from sahmc._support.traced import TracedFunction
from sahmc._support.validate import require
from sahmc._version import __version__
from sahmc.run.hosts import agreed, gathered
from sahmc.run.plan import Plan
from sahmc.run.start import Prepared, evaluate_starts

PLAIN = (
    *("draws", "tune", "chains", "thin", "target_accept", "theta", "adapt", "jumps", "reference"),
    *("has_prior", "prior_normalised"),
)
"""The settings that are compared, and reported to the user, as they are."""
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
SETTINGS = ("jax_enable_x64", "jax_default_prng_impl", "jax_threefry_partitionable", "jax_default_matmul_precision")
"""The JAX settings that affect the bits of a run."""


def identity(ready: Prepared, seed: Any, kept: TracedFunction | None, save_warmup: bool) -> dict[str, Any]:
    """Return everything that determines the bits of a run, as text, numbers and checksums.

    ``seed`` is the recorded form of the seed, and ``kept`` is the traced ``keep``.
    """
    plan: Plan = ready.plan
    parts = {
        "kernel": plan.kernel,
        "tilt": plan.tilt,
        "gain": plan.gain,
        "desired": plan.desired,
        "start": ready.positions,
        "program": ready.energy_fn.steps,
        "data": ready.energy_fn.constants(),
        "values": _values(ready),
        "keep": None if kept is None else (kept.steps, kept.constants()),
        "symmetries": None if plan.symmetries is None else str(plan.symmetries.each),
        "earlier": plan.earlier,
    }
    return {
        **{name: getattr(plan, name) for name in PLAIN},
        "save_warmup": save_warmup,
        "random_seed": seed,
        **{name: fingerprint(part) for name, part in parts.items()},
        "sahmc": __version__,
        "jax": jax.__version__,
        "device": jax.devices()[0].device_kind,
        **{name: getattr(jax.config, name) for name in SETTINGS},
        "XLA_FLAGS": re.sub(r"\s*--xla_force_host_platform_device_count=\S*", "", os.environ.get("XLA_FLAGS", "")),
    }


def different(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
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


def require_one_run(ours: Mapping[str, Any]) -> None:
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


def digest(identity: Mapping[str, Any]) -> str:
    """Return the checksum of an identity, which every file of the run carries."""
    return hashlib.blake2b(json.dumps(identity, sort_keys=True).encode(), digest_size=DIGEST_BYTES).hexdigest()


def fingerprint(thing: Any) -> str:
    """Return a checksum of a pytree: of its arrays, and of the printed form of the rest."""
    leaves, structure = jax.tree.flatten(thing)
    running = hashlib.blake2b(_printed(structure), digest_size=8)
    for leaf in leaves:
        is_key = hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        array = np.asarray(jax.random.key_data(leaf) if is_key else leaf)
        running.update(
            _printed(leaf) if array.dtype == object else f"{array.dtype}{array.shape}".encode() + array.tobytes()
        )
    return running.hexdigest()


def _values(ready: Prepared) -> list[Any]:
    """Return energies and gradients at the starts and at points near and far around them.

    They reveal differences that the traced program does not show, such as in callbacks, which have no text.
    """
    rng = np.random.default_rng(0)
    distance = np.resize([0.1, 1.0, 10.0], len(ready.positions))[:, None]
    around = ready.positions + (distance * rng.standard_normal(ready.positions.shape)).astype(ready.positions.dtype)
    chains = [evaluate_starts(ready.energy_fn, places)[1].chains for places in (ready.positions, around)]
    return [(c.energy, c.grad, c.base) for c in chains]


def _printed(thing: Any) -> bytes:
    """Return the printed form of an object, without memory addresses."""
    return re.sub(r"0x[0-9a-f]+", "", str(thing)).encode()
