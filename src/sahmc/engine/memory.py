"""The memory that a run needs, compared with the available memory before anything is allocated."""

from __future__ import annotations

import math
import os

import jax
from jaxtyping import Array, Float

from sahmc._support.traced import TracedFunction
from sahmc._support.validate import require
from sahmc.engine.devices import Devices
from sahmc.engine.loop import chunk_bytes
from sahmc.engine.plan import Plan

VECTORS, NUMBERS = 6, 24
"""The vectors of a position's size that a moving chain needs (position, momentum and gradient, before and after), and
the scalars besides."""
MANY = 2**16
"""The minimum number of chains for which memory is checked before starts are drawn."""
BESIDE = 8
"""The number of scalars kept of a draw besides its position."""


def require_memory(plan: Plan, dim: int, itemsize: int, devices: Devices, on_disk: bool, kept: int | None) -> None:
    """Raise ``ValueError`` if the chains do not fit into device memory, or all draws into host memory.

    A number takes ``itemsize`` bytes. With draws ``on_disk``, only device memory is checked. ``kept`` is the number of
    values kept of a draw instead of its ``dim`` coordinates.
    """
    here = -(-plan.chains // devices.num)
    needed = here * itemsize * (VECTORS * dim + NUMBERS) + chunk_bytes(here, dim)
    device = devices.first or jax.devices()[0]
    room = device_memory(device)
    require(
        room is None or needed <= room,
        f"the chains of a device must fit into its memory, {_size(room)} of {device.device_kind}",
        f"{here:,} chains in {dim:,} dimensions, at least {_size(needed)}",
        "lower chains, or pass devices= to split them over more",
    )
    if on_disk:
        return
    draws = plan.draws * plan.chains * itemsize * ((dim if kept is None else kept) + BESIDE)
    free = host_memory()
    require(
        free is None or draws <= free,
        f"all draws must fit into memory, of which {_size(free)} are free",
        f"{plan.draws:,} draws of {plan.chains:,} chains, {_size(draws)}",
        "pass checkpoint= to leave them on disk, keep= or thin= to keep less, or lower draws or chains",
    )


def numbers_of(keep: TracedFunction, position: Float[Array, " dim"]) -> int:
    """Return how many numbers ``keep`` returns for one position."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(jax.eval_shape(keep, position)))


def device_memory(device: jax.Device) -> int | None:
    """Return the bytes that JAX may use on an accelerator, or the free host memory for a CPU; None if unknown."""
    if device.platform == "cpu":
        return host_memory()
    stats = device.memory_stats() or {}
    return stats.get("bytes_limit")


def host_memory() -> int | None:
    """Return the bytes of free memory on this host; None if unknown."""
    try:
        with open("/proc/meminfo") as lines:
            told = dict(line.split(":", 1) for line in lines)
        return int(told["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _size(num: int | None) -> str:
    """Return a number of bytes with a readable unit."""
    amount = float(num or 0)
    for unit in ("bytes", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:,.1f} GiB"
