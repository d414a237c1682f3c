"""Progress bars, one for each stage of a run, and their look on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sahmc.progress.progress import Progress, Report

if TYPE_CHECKING:
    import rich.progress

COMPILING, PREPARING = "compiling", "looking at what was found, compiling"
"""The note beside a stage that has not made a move yet: the first stage, and any later one."""


@contextmanager
def terminal_bars(stages: dict[str, int]) -> Iterator[Report]:
    """Show bars on standard error, and yield the function that moves them."""
    from rich.console import Console

    display, show = make_bars(stages, console=Console(stderr=True))
    with display:
        yield show


def make_bars(stages: dict[str, int], **options: Any) -> tuple[rich.progress.Progress, Report]:
    """Return a Rich display with a bar for each stage, and the function that moves them.

    ``stages`` holds the moves that are planned for each stage, and ``options`` are those of ``rich.progress.Progress``.
    """
    from rich import progress as parts
    from rich.text import Text

    class Rate(parts.ProgressColumn):
        """A column with the speed in moves per second; one move moves all chains."""

        def render(self, task: parts.Task) -> Text:
            return Text(moves_a_second(task), "dim")

    class Note(parts.ProgressColumn):
        """A column with the note, divergences in red."""

        def render(self, task: parts.Task) -> Text:
            note = Text(task.fields["note"], "dim")
            note.highlight_regex(r"divergences \d+", "not dim red")
            return note

    columns = (
        parts.TextColumn("{task.description:<6}"),
        parts.BarColumn(24),
        parts.TaskProgressColumn(),
        parts.TimeElapsedColumn(),
        parts.TimeRemainingColumn(compact=True),
        Rate(),
        Note(),
    )
    display = parts.Progress(*columns, **options)
    tasks = {name: display.add_task(name, total=total, start=False, note="") for name, total in stages.items() if total}

    order = list(tasks)
    display.start_task(tasks[order[0]])  # compilation, before the first report, counts as well
    display.update(tasks[order[0]], note=COMPILING)

    def show(now: Progress) -> None:
        place = order.index(now.stage)
        for earlier in order[:place]:  # it may have ended early
            display.update(tasks[earlier], completed=stages[earlier])
        display.start_task(tasks[now.stage])
        display.update(tasks[now.stage], completed=now.done, note=str(now))
        if now.done >= now.total and place + 1 < len(order):
            display.start_task(tasks[order[place + 1]])
            display.update(tasks[order[place + 1]], note=PREPARING)

    return display, show


def moves_a_second(task: rich.progress.Task) -> str:
    """Return the speed of a stage as text, empty while unknown; ``task`` is its Rich task."""
    speed = task.finished_speed or task.speed
    return "" if speed is None else f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.2g}/s"
