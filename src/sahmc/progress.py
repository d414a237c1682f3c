"""What a person sees while a run goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[..., None]


@contextmanager
def progress(stages: dict[str, int], enabled: bool) -> Iterator[Report]:
    """A Rich bar for each stage on standard error; silent where that is no terminal and no notebook.

    Yields ``report(stage, advance, **fields)``, to be called between chunks.
    """
    if not enabled or not (sys.stderr.isatty() or "ipykernel" in sys.modules):
        yield lambda *args, **fields: None
        return

    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("[dim]{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks = {name: bars.add_task(name, total=total, note="") for name, total in stages.items() if total}

        def report(stage: str, advance: float, **fields: object) -> None:
            note = "  ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in fields.items())
            bars.update(tasks[stage], advance=advance, note=note)

        yield report
