"""The pictures of docs/results.md and docs/long_runs.md: python benchmarks/figures.py docs/figures

The picture of the report needs Chromium; without it that one is left as it is.
"""

from __future__ import annotations

import argparse
import io
import platform
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib

import sahmc
from sahmc.progress.bars import make_bars
from sahmc.testing import mixture

matplotlib.use("Agg")


def caption(seed: int) -> str:
    return (
        f"mixture (-8, 6), 32 chains from (0, 0), default settings, seed {seed}; sahmc {sahmc.__version__}, jax "
        f"{jax.__version__}, {platform.machine()} CPU; {time.strftime('%Y-%m-%d')}; benchmarks/figures.py"
    )


def draw_progress(told: list[tuple[float, sahmc.Progress]], out: Path) -> None:
    """The display as it was when seven tenths of the draws were made."""
    from rich.console import Console

    console = Console(record=True, force_terminal=True, width=118, file=io.StringIO())
    clock = [told[0][0]]
    display, show = make_bars({p.stage: int(p.total) for _, p in told}, console=console, get_time=lambda: clock[0])
    for clock[0], progress in told:
        if progress.stage == "draw" and progress.done > 0.7 * progress.total:
            break
        show(progress)
    console.print(display.get_renderable())
    out.write_text(console.export_svg(title="sahmc sample"), encoding="utf-8")


def draw_report(result: sahmc.Result, out: Path) -> None:
    if shutil.which("chromium") is None:
        print(f"no Chromium: {out} is left as it is")
        return
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "run.html"
        sahmc.write_report(result, page)
        size = "--window-size=1150,1500"
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", size]
        subprocess.run([*command, f"--screenshot={out}", page.as_uri()], check=True, capture_output=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    target = mixture(-8.0, 6.0)
    told: list[tuple[float, sahmc.Progress]] = []
    result = sahmc.sample(
        target.log_density,
        jnp.asarray(target.start),
        random_seed=args.seed,
        progressbar=False,
        callback=lambda progress: told.append((time.monotonic(), progress)),
    )
    figure = sahmc.plot_overview(result)
    figure.supxlabel(caption(args.seed), fontsize=7, color="0.5")
    figure.savefig(args.folder / "overview.png", dpi=100)
    draw_progress(told, args.folder / "progress.svg")
    draw_report(result, args.folder / "report.png")


if __name__ == "__main__":
    main()
