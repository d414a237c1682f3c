"""Worker processes, one on each CPU core, which run calls pickled by ``cloudpickle``.

``multiprocessing`` would run the user's script a second time, which needs a guard in it; these processes do not.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import IO, Any

import cloudpickle

ALONE = {"JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""The settings that keep a process on its core."""
KILLED = -9
"""The exit status of a killed process, for example when memory is short."""


class Processes(Executor):
    """An executor with ``num`` processes, which see the same modules as this one; a process that dies is replaced."""

    def __init__(self, num: int):
        self._workers = [_started() for _ in range(num)]
        self._idle: queue.SimpleQueue[int] = queue.SimpleQueue()
        for slot in range(num):
            self._idle.put(slot)
        self._threads = ThreadPoolExecutor(num)
        self._lock, self._closed = threading.Lock(), False

    def submit(self, fn: Callable[..., Any], /, *args: object, **kwargs: object) -> Future[Any]:
        """Let the next idle process make a call, and return its future outcome."""
        return self._threads.submit(self._ask, cloudpickle.dumps((fn, args, kwargs)))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes: once all submitted calls are done or, without ``wait``, at once."""
        if not wait:
            with self._lock:
                self._closed = True
                for worker in self._workers:
                    worker.kill()
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        for worker in self._workers:
            _end(worker)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failed = kind is not None
        self.shutdown(wait=not failed, cancel_futures=failed)

    def _ask(self, message: bytes) -> Any:
        """Return the result of a call in an idle process, or raise its error."""
        slot = self._idle.get()
        try:
            worker = self._living(slot)
            answer = _exchange(worker, message)
            if answer is None:
                status = worker.wait()
        finally:
            self._idle.put(slot)
        if answer is None:
            why = ", as when memory is short: fewer cores need less" if status == KILLED else ""
            raise RuntimeError(f"the process {worker.pid} ended before its answer, with the status {status}{why}")
        error, value = cloudpickle.loads(answer)
        if error is not None:
            raise error
        return value

    def _living(self, slot: int) -> subprocess.Popen[bytes]:
        """Return the process of a slot, started again if it has ended."""
        with self._lock:
            if self._workers[slot].poll() is not None and not self._closed:
                _end(self._workers[slot])
                self._workers[slot] = _started()
            return self._workers[slot]


def _started() -> subprocess.Popen[bytes]:
    """Start a process."""
    command = [sys.executable, "-c", f"from {__name__} import serve; serve()"]
    there = {**os.environ, **ALONE, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    return subprocess.Popen(command, env=there, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _end(worker: subprocess.Popen[bytes]) -> None:
    """Close the standard input of a process, which ends it, and wait for it."""
    assert worker.stdin is not None and worker.stdout is not None
    with suppress(OSError):  # a broken pipe, if it was killed before it read everything
        worker.stdin.close()
    worker.wait()
    worker.stdout.close()


def _exchange(worker: subprocess.Popen[bytes], message: bytes) -> bytes | None:
    """Ask a process by a message, and return its answer; None if it ended first."""
    assert worker.stdin is not None and worker.stdout is not None
    try:
        _send(worker.stdin, message)
        return _receive(worker.stdout)
    except (OSError, ValueError):
        return None


def serve() -> None:
    """Make the calls read from standard input until it is closed; their output goes to standard error.

    Ctrl-C reaches all processes of a terminal; these ignore it, and the parent decides what it means.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while (message := _receive(sys.stdin.buffer)) is not None:
        try:
            fn, args, kwargs = cloudpickle.loads(message)
            answer = cloudpickle.dumps((None, fn(*args, **kwargs)))
        except Exception as error:
            answer = cloudpickle.dumps((portable(error), None))
        try:
            _send(answers, answer)
        except OSError:  # a broken pipe: nobody waits for it any more
            os._exit(0)


def portable(error: Exception) -> Exception:
    """Return an error in a form that can be sent to another process."""
    try:
        cloudpickle.loads(cloudpickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _send(stream: IO[bytes], message: bytes) -> None:
    """Write a message, as a pickle: its end can be told."""
    pickle.dump(message, stream)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes | None:
    """Return the next message; None if the other side has closed."""
    try:
        return pickle.load(stream)
    except (EOFError, pickle.UnpicklingError):
        return None
