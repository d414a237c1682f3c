"""Interrupts: once there are draws, Ctrl-C ends a run early and loses nothing.

If several processes run together, Ctrl-C in one of them ends all of them at the same chunk. From the first move on it
is only noted, until the processes next meet: one that left at once would keep the others waiting.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import jax

from sahmc._support.hosts import agreed_or_stopped


class Interrupts:
    """The presses of Ctrl-C, noted for the next pause while ``held``, otherwise raised as ``KeyboardInterrupt``."""

    def __init__(self) -> None:
        self.pressed = False
        self.ended = False
        """Whether a stage was asked to end, even if it had just finished: no further stage is to begin."""
        self.free()

    def free(self) -> None:
        """Let Ctrl-C raise ``KeyboardInterrupt`` from now on, unless other processes must learn of it first."""
        self.held = jax.process_count() > 1

    def hold(self) -> None:
        """Let Ctrl-C only be noted from now on; the sampling loop checks for it with ``heed``."""
        self.held = True

    def heed(self, number: int = 0) -> tuple[int, bool]:
        """Return the first process's number, and whether Ctrl-C was pressed in any process.

        All processes must call this at the same point; afterwards all know of the press.
        """
        number, stop = agreed_or_stopped(number, self.pressed)
        self.pressed = self.pressed or stop  # it may have been pressed since
        return number, stop

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note a ``KeyboardInterrupt`` raised inside this context, if other processes must learn of it first."""
        try:
            yield
        except KeyboardInterrupt:
            if jax.process_count() == 1:
                raise
            self.pressed = True

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Note a press of Ctrl-C, or raise ``KeyboardInterrupt`` unless ``held``."""
        if not self.held:
            raise KeyboardInterrupt
        if not self.pressed:
            where = " in all processes" if jax.process_count() > 1 else ""
            print(f"\nsahmc: interrupted; the run ends in a moment{where}, with what was drawn", file=sys.stderr)
        self.pressed = True


@contextmanager
def interrupts(found: Interrupts) -> Iterator[None]:
    """Note presses of Ctrl-C inside this context; other threads than the main one receive none and change nothing."""
    usual = signal.getsignal(signal.SIGINT)
    mine = threading.current_thread() is threading.main_thread() and usual is signal.default_int_handler
    if mine:
        signal.signal(signal.SIGINT, found)
    try:
        yield
    finally:
        if mine:
            signal.signal(signal.SIGINT, usual)
