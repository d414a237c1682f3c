"""Several processes that run together, on one host or many, joined by ``jax.distributed``."""

from __future__ import annotations

import ipaddress
import pickle
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from sahmc._support.validate import MOST, is_number, require, require_count

T = TypeVar("T")

HEARTBEAT_SECONDS = 60
"""The default number of seconds after which an unresponsive process counts as lost."""
START_SECONDS = 300
"""The default number of seconds to wait for all processes to start."""
BLOCK_BYTES = 2**24
"""The maximum number of bytes exchanged at once: each device holds those of all processes."""
LOST = ("gloo", "connection", "heartbeat", "coordination", "unavailable", "nccl", "socket", "peer", "deadline")
"""The words by which an error of a collective, or of the coordination service, is recognised as a lost process."""


def join_hosts(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    timeout: float | None = None,
) -> None:
    """Join this process with the others of a run; call it before anything else uses JAX.

    Under Slurm, Open MPI or on cloud TPUs you need no arguments. ``sample`` then splits the chains over all devices of
    all processes. Every process must call it with the same arguments, and each gets the whole result.

    Parameters
    ----------
    coordinator_address
        The host and port of the first process, such as "node1:1234"; detected if None.
    num_processes
        The number of processes; detected if None.
    process_id
        The index of this process, from 0; detected if None.
    timeout
        The number of seconds after which an unresponsive process counts as lost, and JAX ends this one. Also how long
        to wait for all processes to start. If None, 60 and 300 respectively.
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
    bind = _listening(coordinator_address) if process_id == 0 else None
    try:
        if process_id == 0 and coordinator_address is not None:
            _claim(bind or coordinator_address, everywhere=bind is None)
        with _told_of_the_end(wait, where):
            jax.distributed.initialize(
                coordinator_address,
                num_processes,
                process_id,
                initialization_timeout=wait,
                heartbeat_timeout_seconds=beat,
                coordinator_bind_address=bind,
            )
    except (RuntimeError, ValueError, OSError) as error:
        said = str(error).partition("\n")[0]
        raise RuntimeError(
            f"the processes could not be joined at {where}: {said}. To fix it, call join_hosts before anything else "
            "that uses JAX, check that the port is free, that all processes are started, and that they can reach that "
            "address; then raise timeout."
        ) from error


def _claim(address: str, everywhere: bool) -> None:
    """Raise ``OSError`` if a port is in use: JAX may then end the process before it raises anything.

    The port is that of ``address``, or that of all interfaces if it is to be listened to ``everywhere``.
    """
    host, _, port = address.rpartition(":")
    known = socket.getaddrinfo(None if everywhere else host.strip("[]"), int(port), flags=socket.AI_PASSIVE)
    family, _, _, _, place = known[0]
    with socket.socket(family) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(place)


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


def agreed(value: T) -> T:
    """Return, in every process, the first process's value, any object that can be pickled."""
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
    """Return the first process's number, and whether any process asks to stop, in one exchange."""
    if jax.process_count() == 1:
        return number, stop
    asked = gathered(np.array([number, stop], np.int32))
    return int(asked[0, 0]), bool(asked[:, 1].any())


def gathered(array: np.ndarray) -> np.ndarray:
    """Return the arrays of all processes (process, ...) in every process; their shapes must be equal."""
    first = {device.process_index: device for device in reversed(jax.devices())}
    mesh = Mesh(np.array([first[i] for i in range(jax.process_count())]), ("processes",))
    with told_of_losses():
        rows = jax.make_array_from_process_local_data(NamedSharding(mesh, P("processes")), array[None])
        return np.asarray(replicated(rows, mesh).addressable_data(0))


def replicated(array: jax.Array, mesh: Mesh) -> jax.Array:
    """Return an array that is split over a mesh, with a full copy on each device."""
    return jax.jit(_same, out_shardings=NamedSharding(mesh, P()))(array)


def _same(array: jax.Array) -> jax.Array:
    """Return the array; a named function, so that it is compiled once per shape."""
    return array


@contextmanager
def told_of_losses() -> Iterator[None]:
    """Replace JAX's error about a lost process by one that says what to do."""
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
