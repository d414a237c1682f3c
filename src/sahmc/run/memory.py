"""The memory that a run needs at least, compared with what there is before anything is allocated."""

from __future__ import annotations

import math
import os
from typing import Any

import jax
from jaxtyping import Array, Float

from sahmc._support.traced import TracedFunction
from sahmc._support.validate import require
from sahmc.run.devices import Devices
from sahmc.run.loop import chunk_bytes
from sahmc.run.plan import Plan

VECTORS, NUMBERS = 6, 24
"""The vectors of a position's size that a chain needs while it moves (position, momentum and gradient, before and
after), and the numbers besides."""
MANY = 2**16
"""The number of chains from which on their memory is looked at before they have starts."""
BESIDE = 8
"""The numbers that are kept of a draw beside its position."""


def require_memory(plan: Plan, dim: int, itemsize: int, devices: Devices, on_disk: bool, kept: int | None) -> None:
    """Raise ``ValueError`` if the chains do not fit into the memory of their devices, or all draws into the host's.

    A number takes ``itemsize`` bytes. With draws ``on_disk`` only the devices count. ``kept`` is how many numbers are
    kept of a draw in place of its ``dim``.
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
    """Return how many numbers ``keep`` makes of a position."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(jax.eval_shape(keep, position)))


def device_memory(device: Any) -> int | None:
    """Return the bytes that JAX may take of an accelerator, or what is free on the host of a CPU; None if not known."""
    if device.platform == "cpu":
        return host_memory()
    stats = device.memory_stats() or {}
    return stats.get("bytes_limit")


def host_memory() -> int | None:
    """Return the bytes of memory that are free on this host; None if it does not tell."""
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
    """Return a number of bytes as a person would say it."""
    amount = float(num or 0)
    for unit in ("bytes", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:,.1f} GiB"
