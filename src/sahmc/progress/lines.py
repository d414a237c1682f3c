"""The progress of a run as log lines, where there is neither a terminal nor a notebook."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sahmc.progress.bars import COMPILING
from sahmc.progress.progress import Progress, Report

LOG = logging.getLogger("sahmc")
"""The logger, which uses level INFO; by default Python hides that level."""
EVERY_SECONDS = 10.0
"""The number of seconds between two lines of one stage."""


@contextmanager
def progress_lines(stages: dict[str, int]) -> Iterator[Report]:
    """Write lines at the start, after each stage and every few seconds; yield the function that receives progress."""
    began = written = time.monotonic()
    last: Progress | None = None
    LOG.info("%s; then %s", COMPILING, ", ".join(name for name, total in stages.items() if total))

    def write(now: Progress, share: str) -> None:
        nonlocal written
        written = time.monotonic()
        LOG.info("%s %s after %.0f s  %s", now.stage, share, written - began, now)

    def show(now: Progress) -> None:
        nonlocal last
        if last is not None and last.stage != now.stage:
            write(last, "done")
        elif time.monotonic() - written > EVERY_SECONDS:
            write(now, f"{now.done / now.total:.0%}")
        last = now

    yield show
    if last is not None:
        write(last, "done" if last.done >= last.total else f"ended at {last.done / last.total:.0%}")
