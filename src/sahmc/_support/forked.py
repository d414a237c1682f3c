"""Processes that were forked after JAX had started: they hang at their first computation, without a message."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from sahmc._support.jax_internals import has_started
from sahmc._support.validate import require

TASKS = Path("/proc/self/task")
"""The folder in which Linux lists the threads of a process."""


def require_not_forked() -> None:
    """Raise ``ValueError`` in a process that was forked from one in which JAX had started.

    JAX then relies on threads that the fork did not copy. Only Linux lists threads; elsewhere processes are rarely
    forked.
    """
    must = "JAX cannot run in a process that was forked after it had started"
    todo = 'start processes by multiprocessing.get_context("spawn"), or fork before JAX is used'
    lost = has_started() and TASKS.is_dir() and len(list(TASKS.iterdir())) <= threading.active_count()
    require(not lost, must, f"process {os.getpid()}, which was", todo)
