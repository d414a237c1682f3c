"""Processes are joined at the address that was given, in the time that was given, or it is said what is wrong."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sahmc._support.hosts import _listening

JOIN = """
import json, sys
import sahmc
address, num, process, timeout = json.loads(sys.argv[1])
try:
    sahmc.join_hosts(address, num, process, timeout=timeout)
    print("joined", flush=True)
    sys.stdin.read()
except RuntimeError as error:
    print(error, flush=True)
"""


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


def join(*arguments):
    """Begin to join processes, in one of its own."""
    env = {**os.environ, "JAX_PLATFORMS": "cpu"}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([sys.executable, "-c", JOIN, json.dumps(arguments)], env=env, text=True, **pipes)


@pytest.mark.newest
@pytest.mark.parametrize("process", [0, 1])
def test_a_process_that_never_comes_is_waited_for_as_long_as_was_asked(port, process):
    _, error = join(f"localhost:{port}", 2, process, 10).communicate(timeout=60)
    assert f"all processes must come to localhost:{port} in 10 seconds; got not all" in error, error
    assert "To fix it, start all processes" in error


@pytest.mark.newest
def test_a_port_in_use_is_told_of():
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        taken.listen()
        told, error = join(f"localhost:{taken.getsockname()[1]}", 1, 0, 10).communicate(timeout=60)
    assert "could not be joined at localhost" in told and "check that the port is free" in told, error


@pytest.mark.newest
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="who listens is read from /proc")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_first_process_listens_at_its_own_address_alone(port, host):
    process = join(f"{host}:{port}", 1, 0, 60)
    assert process.stdout.readline() == "joined\n", process.communicate()[1]
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    listening = {row[1].partition(":")[0] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A"}
    process.communicate("")
    assert listening and not any(set(place) == {"0"} for place in listening)


@pytest.mark.parametrize("address", ["a-name:1", "203.0.113.7:1", None, "[2001:db8::7]:1"])
def test_where_it_cannot_or_might_mislead_all_interfaces_are_listened_at(address):
    assert _listening(address) is None
