"""Progress bars in a notebook: a small page, shown once and then replaced. No widgets are needed."""

from __future__ import annotations

import html
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sahmc.progress.bars import make_bars, moves_a_second
from sahmc.progress.progress import Progress, Report

if TYPE_CHECKING:
    import rich.progress

LEAST_SECONDS = 0.1
"""The minimum time in seconds between two pages, so that a notebook is not flooded."""


class Page:
    """The current bars, for a notebook to render."""

    def __init__(self, tasks: Sequence[rich.progress.Task]):
        self._text = "\n".join(" ".join(filter(None, _cells(task))) for task in tasks)
        rows = "".join(f"<tr>{_name_and_bar(task)}{''.join(map(_cell, _cells(task)[1:]))}</tr>" for task in tasks)
        self._html = f'<table style="font-variant-numeric: tabular-nums; white-space: nowrap">{rows}</table>'

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return self._html


@contextmanager
def notebook_bars(stages: dict[str, int]) -> Iterator[Report]:
    """Show bars below the running cell, and yield the function that moves them."""
    from IPython.display import display

    bars, move = make_bars(stages, disable=True)  # Rich only counts here, and shows nothing
    handle = display(Page(bars.tasks), display_id=True)
    shown = time.monotonic()

    def show(now: Progress) -> None:
        nonlocal shown
        move(now)
        if time.monotonic() - shown > LEAST_SECONDS:
            handle.update(Page(bars.tasks))
            shown = time.monotonic()

    try:
        yield show
    finally:
        handle.update(Page(bars.tasks))


def _cells(task: rich.progress.Task) -> list[str]:
    """Return the text of a stage: its name, percentage, time taken, time left, speed, and note."""
    left = "" if task.finished or not task.time_remaining else f"{_clock(task.time_remaining)} left"
    time_taken = task.finished_time if task.finished else task.elapsed
    taken = "" if time_taken is None else _clock(time_taken)
    return [task.description, f"{task.percentage:.0f} %", taken, left, moves_a_second(task), task.fields["note"]]


def _name_and_bar(task: rich.progress.Task) -> str:
    """Return the first two cells of a row; the bar of a stage that is being compiled is animated."""
    waiting = task.started and not task.completed
    value = "" if waiting else f' value="{task.completed:.0f}"'
    bar = f'<progress max="{task.total:.0f}"{value} style="width: 16em"></progress>'
    return f"{_cell(task.description)}<td>{bar}</td>"


def _cell(text: str) -> str:
    return f'<td style="text-align: left">{html.escape(text)}</td>'


def _clock(seconds: float) -> str:
    """Return seconds formatted as minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
