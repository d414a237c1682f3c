"""Several processes that run together, on one host or many, joined by ``jax.distributed``."""

from __future__ import annotations

import ipaddress
import pickle
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from sahmc._support.validate import MOST, is_number, require, require_count

HEARTBEAT_SECONDS = 60
"""The seconds after which a process that does not answer counts as lost, if nothing else is asked for."""
START_SECONDS = 300
"""The seconds to wait for all processes to start, if nothing else is asked for."""
BLOCK_BYTES = 2**24
"""The most bytes that processes exchange at once: each device holds those of all processes."""
LOST = ("gloo", "connection", "heartbeat", "coordination", "unavailable", "nccl", "socket", "peer", "deadline")
"""What the errors of collectives and of the coordination service speak of, when another process is gone."""


def join_hosts(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    timeout: float | None = None,
) -> None:
    """Join this process with the others of a run, before anything else is done with JAX.

    Under Slurm, Open MPI or on a cloud's TPUs the arguments are found by themselves. ``sample`` then splits chains over
    all devices of all processes, and every process, which must call it with the same arguments, has the whole result.

    Parameters
    ----------
    coordinator_address
        The host and the port of the first process, such as "node1:1234"; found by itself where None.
    num_processes
        The number of processes; found by itself where None.
    process_id
        The number of this process, from 0; found by itself where None.
    timeout
        The seconds after which a process that does not answer counts as lost, and JAX ends this one. It is also how
        long to wait for all processes to start. If None, 60 for the one and 300 for the other.
    """
    ok = timeout is None or (is_number(timeout) and 10 <= timeout < MOST)
    require(ok, "timeout must be at least 10 seconds", timeout, "pass 60, say")
    ok = coordinator_address is None or (isinstance(coordinator_address, str) and ":" in coordinator_address)
    todo = 'pass "node1:1234", say, or leave it out'
    require(ok, "coordinator_address must be the host and port of the first process", coordinator_address, todo)
    for value, name, least in ((num_processes, "num_processes", 1), (process_id, "process_id", 0)):
        if value is not None:
            require_count(value, name, least)
    beat, wait = (HEARTBEAT_SECONDS, START_SECONDS) if timeout is None else 2 * (int(np.ceil(timeout)),)
    where = coordinator_address or "the address that was found"
    try:
        with _told_of_the_end(wait, where):
            jax.distributed.initialize(
                coordinator_address,
                num_processes,
                process_id,
                initialization_timeout=wait,
                heartbeat_timeout_seconds=beat,
                coordinator_bind_address=_listening(coordinator_address) if process_id == 0 else None,
            )
    except (RuntimeError, ValueError) as error:
        said = str(error).partition("\n")[0]
        raise RuntimeError(
            f"the processes could not be joined at {where}: {said}. To fix it, call join_hosts before anything else "
            "that uses JAX, check that the port is free, that all processes are started, and that they can reach that "
            "address; then raise timeout."
        ) from error


@contextmanager
def _told_of_the_end(wait: float, where: str) -> Iterator[None]:
    """Say what is wrong just before ``wait`` seconds are over: JAX then ends the process, with nothing but a trace."""
    words = (
        f"sahmc: all processes must come to {where} in {wait} seconds; got not all of them, and JAX is about to end "
        "this one. To fix it, start all processes, check that they can reach that address, or raise timeout of "
        "join_hosts."
    )
    timer = threading.Timer(wait - 1, lambda: print(words, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _listening(address: str | None) -> str | None:
    """Return the address at which the first process is to listen; None for all interfaces.

    That is ``address`` if it is one of this host in numbers, or localhost. A name may stand for another address here
    than elsewhere, and behind a router the address is that of the router.
    """
    host = "" if address is None else address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return address
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
        with socket.create_server((host, 0), family=family):
            return address
    except (OSError, ValueError):
        return None


def agreed(value: Any) -> Any:
    """Return the value that the first process has, in all of them; any object that can be pickled."""
    if jax.process_count() == 1:
        return value
    with told_of_losses():
        is_first = jax.process_index() == 0
        content = pickle.dumps(value) if is_first else b""
        blocks, rest = gathered(np.array(divmod(len(content), BLOCK_BYTES), np.int32))[0]
        size, parts = int(blocks) * BLOCK_BYTES + int(rest), []
        for begin in range(0, size, BLOCK_BYTES):
            mine = np.zeros(min(BLOCK_BYTES, size - begin), np.uint8)
            if is_first:
                mine[:] = np.frombuffer(content, np.uint8, len(mine), begin)
            parts.append(gathered(mine)[0].tobytes())
        return pickle.loads(b"".join(parts))


def agreed_or_stopped(number: int, stop: bool) -> tuple[int, bool]:
    """Return the number that the first process has, and whether any of them asks to stop, in one exchange."""
    if jax.process_count() == 1:
        return number, stop
    asked = gathered(np.array([number, stop], np.int32))
    return int(asked[0, 0]), bool(asked[:, 1].any())


def gathered(array: np.ndarray) -> np.ndarray:
    """Return the arrays of all processes (process, ...), which are of the same shape, in all of them."""
    first = {device.process_index: device for device in reversed(jax.devices())}
    mesh = Mesh(np.array([first[i] for i in range(jax.process_count())]), ("processes",))
    with told_of_losses():
        rows = jax.make_array_from_process_local_data(NamedSharding(mesh, P("processes")), array[None])
        return np.asarray(replicated(rows, mesh).addressable_data(0))


def replicated(array: jax.Array, mesh: Mesh) -> jax.Array:
    """Return an array that is split over the devices of a mesh, with a copy of all of it on each device."""
    return jax.jit(_same, out_shardings=NamedSharding(mesh, P()))(array)


def _same(array: jax.Array) -> jax.Array:
    """Return the array; a function of its own, so that it is compiled once for each shape."""
    return array


@contextmanager
def told_of_losses() -> Iterator[None]:
    """Turn the error by which JAX tells of a lost process into one that says what to do."""
    try:
        yield
    except Exception as error:
        text = str(error).lower()
        if jax.process_count() == 1 or not any(word in text for word in LOST):
            raise
        raise RuntimeError(
            f"one of the {jax.process_count()} processes of this run was lost, or cannot be reached; this is process "
            f"{jax.process_index()}. With a checkpoint the run goes on from its last record: start sample or "
            "sahmc.resume again, on as many processes as are left."
        ) from error
