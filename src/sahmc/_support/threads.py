"""Work of NumPy in several threads, which it allows where arrays are large."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

MOST_THREADS = 16
"""The most threads."""


def in_threads(fn: Callable[..., Any], items: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Return what a function returns for each tuple of arguments, in their order; the calls may run side by side."""
    calls = list(items)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if min(cores, len(calls)) < 2:
        return [fn(*call) for call in calls]
    with ThreadPoolExecutor(min(cores, len(calls), MOST_THREADS)) as pool:
        return list(pool.map(lambda call: fn(*call), calls))
