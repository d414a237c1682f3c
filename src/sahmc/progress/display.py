"""The display of a run's progress: bars in a notebook or a terminal, lines of a log elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import jax

from sahmc._support.jax_internals import has_started
from sahmc.progress.bars import COMPILING, terminal_bars
from sahmc.progress.notebook_bars import notebook_bars
from sahmc.progress.progress import Progress, Report

LOG = logging.getLogger("sahmc")
"""The logger, which uses level INFO; by default Python hides that level."""
EVERY_SECONDS = 10.0
"""The number of seconds between two lines of one stage."""


@contextmanager
def progress(stages: dict[str, int], enabled: bool, callback: Report | None = None) -> Iterator[Report]:
    """Show the progress of a run, and yield the function to call with a ``Progress`` between chunks.

    ``stages`` holds the planned moves of each stage. If ``enabled``, a notebook or a terminal (on standard error) shows
    a bar for each stage; elsewhere lines go to ``logging``. Of several processes only the first one shows anything. The
    function also calls ``callback``.
    """
    done = dict.fromkeys(stages, 0.0)
    with _display(stages) if enabled and _is_first() else _nothing() as show:

        def report(now: Progress) -> None:
            done[now.stage] = min(done[now.stage] + now.advance, stages[now.stage])
            now = now._replace(done=done[now.stage], total=stages[now.stage])
            show(now)
            if callback is not None:
                callback(now)

        yield report


def _is_first() -> bool:
    """Tell whether this is the first process of a run, without starting JAX: the process may still be forked."""
    return not has_started() or jax.process_index() == 0


def _display(stages: dict[str, int]) -> AbstractContextManager[Report]:
    """Return the display that suits this environment."""
    if in_notebook():
        return notebook_bars(stages)
    return terminal_bars(stages) if sys.stderr.isatty() else _lines(stages)


def in_notebook() -> bool:
    """Tell whether this code runs in a notebook kernel."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return hasattr(shell, "kernel")


@contextmanager
def _lines(stages: dict[str, int]) -> Iterator[Report]:
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


@contextmanager
def _nothing() -> Iterator[Report]:
    """Yield a function that shows nothing."""
    yield lambda now: None
