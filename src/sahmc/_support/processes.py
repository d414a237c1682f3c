"""Processes of our own, each on a CPU core, which make calls that were packed by ``cloudpickle``.

Those of ``multiprocessing`` run the user's script a second time, which needs a guard in it; these do not.
"""

from __future__ import annotations

import os
import queue
import struct
import subprocess
import sys
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, BinaryIO

import cloudpickle

SIZE = struct.Struct("<Q")
"""The way in which the number of bytes of a message is written before it."""
ALONE = {"JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""The settings with which a process stays on its core."""


class Processes(Executor):
    """An executor with so many processes, which see the modules of this one."""

    def __init__(self, num: int):
        command = [sys.executable, "-c", f"from {__name__} import serve; serve()"]
        there = {**os.environ, **ALONE, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
        self._workers = [
            subprocess.Popen(command, env=there, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(num)
        ]
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(num)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Let the next process that is idle make a call, and return its future outcome."""
        return self._threads.submit(self._ask, cloudpickle.dumps((fn, args, kwargs)))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes: after what was submitted, or, without ``wait``, at once."""
        if not wait:
            for worker in self._workers:
                worker.kill()
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        for worker in self._workers:
            assert worker.stdin is not None and worker.stdout is not None
            worker.stdin.close()
            worker.wait()
            worker.stdout.close()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        failed = kind is not None
        self.shutdown(wait=not failed, cancel_futures=failed)

    def _ask(self, message: bytes) -> Any:
        """Return what an idle process returns when it makes a call, or raise what it raises."""
        worker = self._idle.get()
        try:
            assert worker.stdin is not None and worker.stdout is not None
            _send(worker.stdin, message)
            answer = _receive(worker.stdout)
        except (BrokenPipeError, ValueError):
            answer = None
        finally:
            self._idle.put(worker)
        if answer is None:
            raise RuntimeError(f"the process {worker.pid} ended before its answer, with the status {worker.wait()}")
        error, value = cloudpickle.loads(answer)
        if error is not None:
            raise error
        return value


def serve() -> None:
    """Make the calls that come by the standard input until it is closed; what they print goes to the standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while (message := _receive(sys.stdin.buffer)) is not None:
        try:
            fn, args, kwargs = cloudpickle.loads(message)
            answer = cloudpickle.dumps((None, fn(*args, **kwargs)))
        except Exception as error:
            answer = cloudpickle.dumps((error, None))
        _send(answers, answer)


def _send(stream: BinaryIO | Any, message: bytes) -> None:
    """Write a message with its size before it."""
    stream.write(SIZE.pack(len(message)) + message)
    stream.flush()


def _receive(stream: BinaryIO | Any) -> bytes | None:
    """Return the next message; None if the other side has closed."""
    head = stream.read(SIZE.size)
    if len(head) < SIZE.size:
        return None
    size = SIZE.unpack(head)[0]
    message = stream.read(size)
    return message if len(message) == size else None
