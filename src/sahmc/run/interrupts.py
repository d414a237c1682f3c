"""Interrupts: once there are draws, Ctrl-C ends a run early, and loses nothing.

Where several processes run together, Ctrl-C in one of them ends all at the same chunk: it is only noted, from the first
move on, until they next meet. One that left at once would let the others wait for it.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import jax

from sahmc.run.hosts import agreed_or_stopped


class Interrupts:
    """The presses of Ctrl-C, which are heeded between steps once ``held``, and raise ``KeyboardInterrupt`` before."""

    def __init__(self) -> None:
        self.pressed = False
        self.ended = False
        """Whether a stage was asked to end, even if it was at its end just then: there is to be no further one."""
        self.free()

    def free(self) -> None:
        """Let Ctrl-C raise ``KeyboardInterrupt`` from now on, unless other processes must be told of it first."""
        self.held = jax.process_count() > 1

    def hold(self) -> None:
        """Let Ctrl-C only be noted from now on: whoever makes draws asks by ``heed``."""
        self.held = True

    def heed(self, number: int = 0) -> tuple[int, bool]:
        """Return a number as the first process has it, and whether Ctrl-C was pressed in any process.

        All processes must ask at the same point, and then know of it.
        """
        number, stop = agreed_or_stopped(number, self.pressed)
        self.pressed = self.pressed or stop  # it may have been pressed meanwhile
        return number, stop

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note a ``KeyboardInterrupt`` that is raised here, where other processes must be told of it first."""
        try:
            yield
        except KeyboardInterrupt:
            if jax.process_count() == 1:
                raise
            self.pressed = True

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Take a signal."""
        if not self.held:
            raise KeyboardInterrupt
        if not self.pressed:
            where = " in all processes" if jax.process_count() > 1 else ""
            print(f"\nsahmc: interrupted; the run ends in a moment{where}, with what was drawn", file=sys.stderr)
        self.pressed = True


@contextmanager
def interrupts(found: Interrupts) -> Iterator[None]:
    """Note the presses of Ctrl-C from here on; other threads than the main one get none, and leave signals alone."""
    usual = signal.getsignal(signal.SIGINT)
    mine = threading.current_thread() is threading.main_thread() and usual is signal.default_int_handler
    if mine:
        signal.signal(signal.SIGINT, found)
    try:
        yield
    finally:
        if mine:
            signal.signal(signal.SIGINT, usual)
