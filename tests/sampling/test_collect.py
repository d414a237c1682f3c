"""Many calls, some of which fail, die or are lost."""

import os
import threading
from concurrent.futures import BrokenExecutor, Future
from functools import partial

import pytest

from sahmc._support.processes import Processes
from sahmc.sampling.collect import make_calls


class TwoPartError(Exception):
    """An error that cannot be unpickled: it takes one argument to be made from its message, and there are two."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


class ForeignError(Exception):
    """An error that can be unpickled where it is raised, and nowhere else."""

    def __reduce__(self):
        return unpickled, (os.getpid(),)


def unpickled(process):
    if process != os.getpid():
        raise ImportError("no such module here")
    return ForeignError("far away")


def raises(error):
    raise error


def dies_once(marker):
    if not os.path.exists(marker):
        open(marker, "w").close()
        os._exit(1)
    return "alive"


KILLED = RuntimeError("killed worker")


class Losing:
    """An executor that loses the calls whose numbers, in the order in which they are submitted, are given."""

    def __init__(self, lost, error=KILLED, at_submit=False):
        self.lost, self.error, self.at_submit = lost, error, at_submit
        self.seen = []

    def submit(self, fn, *args):
        number = len(self.seen)
        self.seen.append((fn, *args))
        if number in self.lost and self.at_submit:
            raise self.error
        future = Future()
        future.set_exception(self.error) if number in self.lost else future.set_result(fn(*args))
        return future


NOTHING = lambda: None  # noqa: E731
CALLS = [partial(int, str(i)) for i in range(4)]


@pytest.mark.parametrize("pool", [None, Losing([])], ids=["here", "executor"])
def test_an_error_stands_at_its_place(pool):
    done = []
    one, error, three = make_calls(
        [partial(int, "1"), partial(int, "x"), partial(int, "3")], pool, lambda: done.append(1)
    )
    assert (one, three, len(done)) == (1, 3, 3) and isinstance(error, ValueError)


def test_an_error_in_another_process_tells_where_it_was_raised():
    (error,) = make_calls([partial(raises, ValueError("bad"))], Losing([]), NOTHING)
    assert "in raises" in error.__notes__[0]


def test_processes_that_die_and_calls_that_cannot_be_sent_cost_no_other_call_its_outcome(tmp_path):
    calls = [
        *CALLS,
        partial(os._exit, 3),
        partial(dies_once, str(tmp_path / "marker")),
        partial(id, threading.Lock()),
    ]
    done = []
    with Processes(2) as pool:
        found = make_calls(calls, pool, lambda: done.append(1))
    assert found[:4] == [0, 1, 2, 3] and found[5] == "alive" and len(done) == len(calls)
    assert "lost in two attempts" in str(found[4]) and "with the status 3" in str(found[4])
    assert isinstance(found[6], TypeError)


def raises_two_parts():
    raise TwoPartError("one", "two")


def raises_foreign():
    raise ForeignError("far away")


def test_an_error_that_is_not_known_here_is_told_in_words():
    with Processes(1) as pool:
        found = make_calls([raises_foreign, partial(int, "3")], pool, lambda: None)
    assert type(found[0]) is RuntimeError and str(found[0]) == "ForeignError: far away" and found[1] == 3


def test_an_error_that_cannot_be_sent_is_told_in_words():
    """In a process of its own: Dask, where it is imported, teaches pickle to send any error."""
    with Processes(1) as pool:
        (error,) = make_calls([raises_two_parts], pool, NOTHING)
    assert type(error) is RuntimeError and str(error) == "TwoPartError: one and two"


@pytest.mark.parametrize("at_submit", [False, True])
def test_a_call_that_an_executor_loses_is_made_once_more(at_submit):
    pool = Losing([2], at_submit=at_submit)
    assert make_calls(CALLS, pool, NOTHING) == [0, 1, 2, 3]
    assert len(set(pool.seen)) == 5  # Dask takes two calls that are the same for one
    pool = Losing([2, 4], at_submit=at_submit)
    found = make_calls(CALLS, pool, NOTHING)
    assert found[:2] + found[3:] == [0, 1, 3] and "lost in two attempts, by RuntimeError: killed" in str(found[2])


@pytest.mark.parametrize("at_submit", [False, True])
def test_where_an_executor_breaks_for_good_processes_of_our_own_go_on(at_submit):
    pool = Losing(range(1, 99), BrokenExecutor("a child died"), at_submit)
    calls = [*CALLS, partial(os._exit, 3)]
    with pytest.warns(
        UserWarning, match="the executor broke .BrokenExecutor: a child died.; sahmc runs 4 data sets in 1"
    ):
        found = make_calls(calls, pool, NOTHING)
    assert found[:4] == [0, 1, 2, 3] and "with the status 3" in str(found[4])
