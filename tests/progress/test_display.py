"""Where the progress of a run is shown: on a terminal, in a notebook, in a log, or nowhere."""

import io
import logging
import subprocess
import sys
import types

import pytest

from sahmc.progress import display
from sahmc.progress.bars import make_bars
from sahmc.progress.display import in_notebook, progress
from sahmc.progress.progress import Progress

STAGES = {"pilot": 10, "adapt": 30, "draw": 20}
NOTE = "accept 0.80  levels 3/4  round trips 12345  divergences 7"


def move(stage, advance):
    return Progress(stage, advance, 0.8, 7, 4, 3, 12345)


def test_to_show_progress_does_not_start_jax():
    """Processes may yet be forked, which a JAX that has started does not survive."""
    script = """
from sahmc._support.jax_internals import has_started
from sahmc.progress.display import progress
with progress({"data sets": 3}, True):
    raise SystemExit(7 + has_started())
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 7


def short_run(report):
    """Tell of a run whose second stage ends before its time."""
    for now in (move("pilot", 10), move("adapt", 20), move("draw", 8), move("draw", 12)):
        report(now)


class Handle:
    """A place in a notebook, which remembers what was shown there."""

    def __init__(self):
        self.pages = []

    def update(self, page):
        self.pages.append(page)


@pytest.fixture
def notebook(monkeypatch):
    """The kernel of a notebook, as far as this library sees of it, without widgets."""
    handle = Handle()

    def display(page, display_id):
        assert display_id
        handle.update(page)
        return handle

    shell = types.SimpleNamespace(kernel=object())
    ipython = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    return handle


@pytest.mark.filterwarnings("error")
def test_a_notebook_without_widgets_ends_with_full_bars_and_whole_notes(notebook, capsys):
    with progress(STAGES, True) as report:
        short_run(report)
    first, last = notebook.pages[0], notebook.pages[-1]
    assert "compiling" in repr(first) and '<progress max="10" style' in first._repr_html_()
    for total in STAGES.values():
        assert f'<progress max="{total}" value="{total}"' in last._repr_html_()
    assert last._repr_html_().count(NOTE) == 3 and repr(last).count("100 %") == 3
    assert capsys.readouterr() == ("", "")


def test_a_notebook_keeps_the_bars_of_a_run_that_failed(notebook):
    with pytest.raises(ZeroDivisionError), progress(STAGES, True) as report:
        report(move("pilot", 5))
        raise ZeroDivisionError
    assert "pilot 50 %" in repr(notebook.pages[-1])


def test_ipython_on_a_terminal_is_no_notebook(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=object))
    assert not in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: None))
    assert not in_notebook()


def test_elsewhere_a_log_has_a_line_for_each_stage(caplog, monkeypatch):
    monkeypatch.setattr(display, "EVERY_SECONDS", -1.0)
    with caplog.at_level(logging.INFO, logger="sahmc"), progress(STAGES, True) as report:
        short_run(report)
    said = [record.getMessage().split(" after")[0] for record in caplog.records]
    assert said[0] == "compiling; then pilot, adapt, draw"
    assert said[1:] == ["pilot 100%", "pilot done", "adapt done", "draw 100%", "draw done"]
    assert caplog.records[-1].getMessage().endswith(NOTE)


def test_lines_of_one_stage_are_seconds_apart_and_an_early_end_is_told(caplog):
    with caplog.at_level(logging.INFO, logger="sahmc"), progress(STAGES, True) as report:
        for _ in range(5):
            report(move("pilot", 1))
    assert [record.getMessage().split(" after")[0] for record in caplog.records][1:] == ["pilot ended at 50%"]


def test_nothing_is_printed_where_nobody_asked_for_a_log(capsys, caplog):
    with progress(STAGES, True) as report:
        short_run(report)
    assert capsys.readouterr() == ("", "") and not caplog.records
    with caplog.at_level(logging.INFO, logger="sahmc"), progress(STAGES, False) as report:
        short_run(report)
    assert not caplog.records


def test_a_terminal_has_bars(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("TERM", "xterm")
    with progress(STAGES, True) as report:
        short_run(report)
    assert screen.getvalue().count("100%") >= 3 and "divergences 7" in screen.getvalue()


def test_bars_say_that_programs_are_compiled_before_the_first_move():
    display, show = make_bars({"pilot": 10, "draw": 20})
    notes = [task.fields["note"] for task in display.tasks]
    assert notes == ["compiling", ""]
    show(Progress("pilot", 10, 0.8, 0, 1, 1, 0, done=10, total=10))
    notes = [task.fields["note"] for task in display.tasks]
    assert notes[0] == "accept 0.80" and "compiling" in notes[1]
