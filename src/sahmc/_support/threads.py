"""NumPy work in several threads, which run in parallel on large arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

R = TypeVar("R")
MOST_THREADS = 16
"""The maximum number of threads."""


def in_threads(fn: Callable[..., R], items: Iterable[tuple[object, ...]]) -> list[R]:
    """Return the results of a function for each tuple of arguments, in order; calls may run in parallel."""
    calls = list(items)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if min(cores, len(calls)) < 2:
        return [fn(*call) for call in calls]
    with ThreadPoolExecutor(min(cores, len(calls), MOST_THREADS)) as pool:
        return list(pool.map(lambda call: fn(*call), calls))
