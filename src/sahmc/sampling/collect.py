"""Many calls, made here or through an executor; a call that fails does not affect the others."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import cloudpickle

from sahmc._support.processes import Processes, portable

T = TypeVar("T")


@runtime_checkable
class Pool(Protocol):
    """An executor: what it returns for a call has a method ``result``."""

    def submit(self, fn: Callable[..., object], /, *args: object) -> Any:
        """Begin a call."""


class DataSetError(RuntimeError):
    """The error that ``sample_many`` raises for failed data sets, after all others have finished."""

    def __init__(self, message: str, results: Sequence[object] = ()):
        super().__init__(message)
        self.results = list(results)
        """The results in the order of the data sets, with an exception in place of each failure."""


class Raised(NamedTuple):
    """An exception that a call raised in another process."""

    packed: bytes
    """The exception, pickled by ``cloudpickle`` because its class may come from the user's script."""
    said: str
    """Its name and message, for when it cannot be unpickled."""


def make_calls(calls: Sequence[Callable[[], T]], pool: Pool | None, done: Callable[[], None]) -> list[T | Exception]:
    """Make calls, and return, in order, the value or the exception of each.

    If ``pool`` is None, the calls are made here, one after the other; otherwise through that executor. ``done`` is
    called after each. If a process dies and the executor loses a call, it is repeated after all others.
    """
    if pool is None:
        return [_made(call, done) for call in calls]
    outcomes: dict[int, T | Exception] = {}
    packed: dict[int, bytes] = {}
    for i, call in enumerate(calls):
        try:
            packed[i] = cloudpickle.dumps(call)
        except Exception as error:
            outcomes[i] = error
            done()
    found, lost = _through(pool, packed, 1, done)
    outcomes |= found
    if lost:
        found, lost = _once_more(pool, {i: packed[i] for i in lost}, list(lost.values()), done)
        outcomes |= found
    for i, loss in lost.items():
        twice = RuntimeError(f"it was lost in two attempts, by {type(loss).__name__}: {loss}")
        twice.__cause__ = loss
        outcomes[i] = twice
        done()
    return [outcomes[i] for i in range(len(calls))]


def _made(call: Callable[[], T], done: Callable[[], None]) -> T | Exception:
    """Make a call, and return its outcome, possibly an exception."""
    try:
        return call()
    except Exception as error:
        return error
    finally:
        done()


def _through(
    pool: Pool, calls: Mapping[int, bytes], attempt: int, done: Callable[[], None]
) -> tuple[dict[int, Any], dict[int, Exception]]:
    """Make calls through an executor, and return the outcomes, and the errors by which it lost the others."""
    outcomes: dict[int, Any] = {}
    lost: dict[int, Exception] = {}
    futures = {}
    for i, call in calls.items():
        try:
            futures[i] = pool.submit(_unpacked, call, attempt)
        except Exception as error:  # it may break at any moment
            lost[i] = error
    for i, future in futures.items():
        try:
            found = future.result()
        except Exception as error:
            lost[i] = error
            continue
        outcomes[i] = _error(found) if isinstance(found, Raised) else found
        done()
    return outcomes, lost


def _error(raised: Raised) -> Exception:
    """Return the exception of another process, or its message if the class is unknown here."""
    try:
        return cloudpickle.loads(raised.packed)
    except Exception:
        return RuntimeError(raised.said)


def _once_more(
    pool: Pool, calls: Mapping[int, bytes], errors: Sequence[Exception], done: Callable[[], None]
) -> tuple[dict[int, Any], dict[int, Exception]]:
    """Make the calls that an executor lost again, in processes of our own if it is broken for good.

    Otherwise each is made alone, since whatever ends a process ends all calls in it.
    """
    broken = next((error for error in errors if isinstance(error, BrokenExecutor)), None)
    if broken is None:
        outcomes: dict[int, Any] = {}
        lost: dict[int, Exception] = {}
        for i, call in calls.items():
            found, failed = _through(pool, {i: call}, 2, done)
            outcomes, lost = outcomes | found, lost | failed
        return outcomes, lost
    num = min(len(calls), getattr(pool, "_max_workers", 1))
    why = f"the executor broke ({type(broken).__name__}: {broken})"
    warnings.warn(f"{why}; sahmc runs {len(calls)} data sets in {num} processes of its own, on CPUs", stacklevel=4)
    with Processes(num) as own:
        return _through(own, calls, 2, done)


def _unpacked(call: bytes, attempt: int) -> object:
    """Make a pickled call from another process, and return its outcome; an exception is pickled again.

    The attempt number makes a second attempt a new call for Dask, which would otherwise return its cached outcome.
    """
    try:
        return cloudpickle.loads(call)()
    except Exception as error:
        there, said = "".join(traceback.format_exception(error)), f"{type(error).__name__}: {error}"
        error = portable(error)
        error.add_note(f"raised in another process:\n{there}")
        return Raised(cloudpickle.dumps(error), said)
