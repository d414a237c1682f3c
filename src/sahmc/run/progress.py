"""What a person sees while a run goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

Report = Callable[["Progress"], None]


class Progress(NamedTuple):
    """How far a run is, as told to ``callback`` a few times a second.

    ``done`` of ``total`` moves of this ``stage`` ("pilot", "search", "adapt", "draw") are made, ``advance`` of them
    since it was told last. Divergences are those of the stage, round trips those since theta began to learn or was
    frozen;
    ``regions_seen`` of the tilt's ``regions`` have been visited in this stage.
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


@contextmanager
def progress(stages: dict[str, int], enabled: bool, callback: Report | None = None) -> Iterator[Report]:
    """A Rich bar for each stage on standard error; silent where that is no terminal and no notebook.

    Yields ``report(Progress)``, to be called between chunks, which also tells ``callback``.
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
    return sys.stderr.isatty() or "ipykernel" in sys.modules


@contextmanager
def _nothing() -> Iterator[Report]:
    yield lambda now: None


@contextmanager
def _bars(stages: dict[str, int]) -> Iterator[Report]:
    from rich.console import Console

    display, show = make_bars(stages, console=Console(stderr="ipykernel" not in sys.modules))
    with display:
        yield show


def make_bars(stages: dict[str, int], **options: Any) -> tuple[Any, Report]:
    """A Rich display with a bar for each stage, and the function that moves them; ``options`` are Rich's."""
    from rich import progress as rich
    from rich.text import Text

    class Rate(rich.ProgressColumn):
        """Moves a second, each of all chains together."""

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

    def show(now: Progress) -> None:
        place = order.index(now.stage)
        for earlier in order[:place]:  # it may have ended before its time
            display.update(tasks[earlier], completed=stages[earlier])
        display.start_task(tasks[now.stage])
        display.update(tasks[now.stage], completed=now.done, note=str(now))
        if now.done >= now.total and place + 1 < len(order):
            display.start_task(tasks[order[place + 1]])

    return display, show
