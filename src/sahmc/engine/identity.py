"""The identity of a run: everything that determines its bits, so that no run is mistaken for another."""

from __future__ import annotations

import hashlib
import os
import re

import jax
import numpy as np
from jaxtyping import PyTree

from sahmc._support.traced import TracedFunction
from sahmc._version import __version__
from sahmc.engine.plan import Plan
from sahmc.engine.start import Prepared, evaluate_starts

PLAIN = (
    *("draws", "tune", "chains", "thin", "target_accept", "theta", "adapt", "jumps", "reference"),
    *("has_prior", "prior_normalised"),
)
"""The settings that are compared, and reported to the user, as they are."""
SETTINGS = ("jax_enable_x64", "jax_default_prng_impl", "jax_threefry_partitionable", "jax_default_matmul_precision")
"""The JAX settings that affect the bits of a run."""


def identity(
    ready: Prepared, seed: int | list[int], kept: TracedFunction | None, save_warmup: bool
) -> dict[str, object]:
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


def fingerprint(thing: PyTree) -> str:
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


def _values(ready: Prepared) -> list[PyTree]:
    """Return energies and gradients at the starts and at points near and far around them.

    They reveal differences that the traced program does not show, such as in callbacks, which have no text.
    """
    rng = np.random.default_rng(0)
    distance = np.resize([0.1, 1.0, 10.0], len(ready.positions))[:, None]
    around = ready.positions + (distance * rng.standard_normal(ready.positions.shape)).astype(ready.positions.dtype)
    chains = [evaluate_starts(ready.energy_fn, places)[1].chains for places in (ready.positions, around)]
    return [(c.energy, c.grad, c.base) for c in chains]


def _printed(thing: object) -> bytes:
    """Return the printed form of an object, without memory addresses."""
    return re.sub(r"0x[0-9a-f]+", "", str(thing)).encode()
