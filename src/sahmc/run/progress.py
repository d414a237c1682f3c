"""The progress of a run, as a person sees it: bars on a terminal, and a callback."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

Report = Callable[["Progress"], None]
"""A function that is told how far a run is."""


class Progress(NamedTuple):
    """The progress of a run, as told to ``callback`` a few times a second.

    ``stage``
        The stage that the run is in: "pilot", "climb", "adapt" or "draw".
    ``done``, ``total``, ``advance``
        The moves of this stage that are made, those that are planned, and those made since the last call.
    ``acceptance_rate``
        The mean acceptance probability of the trajectories since the last call, on which the step size is tuned.
    ``num_diverging``
        The number of trajectories of this stage that diverged.
    ``regions``, ``regions_seen``
        The number of regions of the tilt, and of those visited in this stage.
    ``round_trips``
        The round trips of all chains since theta began to learn or, once it is frozen, since then.
    """

    stage: str
    advance: float
    acceptance_rate: float
    num_diverging: int
    regions: int
    regions_seen: int
    round_trips: int
    done: float = 0.0
    total: float = 0.0

    def __str__(self) -> str:
        parts = [f"accept {self.acceptance_rate:.2f}"]
        if self.regions > 1:
            parts += [f"levels {self.regions_seen}/{self.regions}", f"round trips {self.round_trips}"]
        if self.num_diverging:
            parts.append(f"[red]divergences {self.num_diverging}[/]")
        return "  ".join(parts)


COMPILING, PREPARING = "compiling", "looking at what was found, compiling"
"""What is said of a stage that has not made a move yet: the first one, and the others."""


@contextmanager
def progress(stages: dict[str, int], enabled: bool, callback: Report | None = None) -> Iterator[Report]:
    """Show a bar for each stage, and yield the function to be called with a ``Progress`` between chunks.

    ``stages`` holds the moves that are planned for each stage. Bars are shown if ``enabled``, on standard error, and
    only where that is a terminal or a notebook. The function also tells ``callback``.
    """
    done = dict.fromkeys(stages, 0.0)
    with _bars(stages) if enabled and _watched() else _nothing() as show:

        def report(now: Progress) -> None:
            done[now.stage] = min(done[now.stage] + now.advance, stages[now.stage])
            now = now._replace(done=done[now.stage], total=stages[now.stage])
            show(now)
            if callback is not None:
                callback(now)

        yield report


def _watched() -> bool:
    """Tell whether somebody may be watching: standard error is a terminal, or this is a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


@contextmanager
def _nothing() -> Iterator[Report]:
    """Yield a function that shows nothing."""
    yield lambda now: None


@contextmanager
def _bars(stages: dict[str, int]) -> Iterator[Report]:
    """Show bars, and yield the function that moves them."""
    from rich.console import Console

    display, show = make_bars(stages, console=Console(stderr="ipykernel" not in sys.modules))
    with display:
        yield show


def make_bars(stages: dict[str, int], **options: Any) -> tuple[Any, Report]:
    """Return a Rich display with a bar for each stage, and the function that moves them.

    ``stages`` holds the moves that are planned for each stage, and ``options`` are those of ``rich.progress.Progress``.
    """
    from rich import progress as rich
    from rich.text import Text

    class Rate(rich.ProgressColumn):
        """A column that shows the moves a second, where a move is one of all chains together."""

        def render(self, task: rich.Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.2g}/s", "dim")

    columns = (
        rich.TextColumn("{task.description:<6}"),
        rich.BarColumn(24),
        rich.TaskProgressColumn(),
        rich.TimeElapsedColumn(),
        rich.TimeRemainingColumn(compact=True),
        Rate(),
        rich.TextColumn("[dim]{task.fields[note]}"),
    )
    display = rich.Progress(*columns, **options)
    tasks = {name: display.add_task(name, total=total, start=False, note="") for name, total in stages.items() if total}

    order = list(tasks)
    display.start_task(tasks[order[0]])  # what comes before the first report, compilation, counts
    display.update(tasks[order[0]], note=COMPILING)

    def show(now: Progress) -> None:
        place = order.index(now.stage)
        for earlier in order[:place]:  # it may have ended before its time
            display.update(tasks[earlier], completed=stages[earlier])
        display.start_task(tasks[now.stage])
        display.update(tasks[now.stage], completed=now.done, note=str(now))
        if now.done >= now.total and place + 1 < len(order):
            display.start_task(tasks[order[place + 1]])
            display.update(tasks[order[place + 1]], note=PREPARING)

    return display, show
