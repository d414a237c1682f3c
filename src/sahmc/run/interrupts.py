"""Interrupts: once there are draws, Ctrl-C ends a run early, and loses nothing."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """The presses of Ctrl-C, which are heeded between steps once ``held``, and raise ``KeyboardInterrupt`` before."""

    def __init__(self) -> None:
        self.held = False
        self.pressed = False

    def hold(self) -> None:
        """Let Ctrl-C only be noted from now on: whoever makes draws looks at ``pressed``."""
        self.held = True

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Take a signal."""
        if not self.held:
            raise KeyboardInterrupt
        if not self.pressed:
            print("\nsahmc: interrupted; the result so far will be here in a moment", file=sys.stderr)
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
