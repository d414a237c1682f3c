"""Chains over several devices and several processes: the same bits, a clear error when one is lost, and no loss."""

import inspect
import json
import os
import shutil
import socket
import subprocess
import sys
from typing import NamedTuple

import jax
import numpy as np
import pytest

import sahmc
from sahmc.engine import loop
from sahmc.engine.devices import Devices, parse_devices

RUN = """
import hashlib, json, os, signal, sys, warnings
import jax
asked = json.loads(sys.argv[1])
warnings.simplefilter("ignore")
import sahmc
if asked.get("processes", 1) > 1:
    sahmc.join_hosts(f"localhost:{asked['port']}", asked["processes"], asked["process"], timeout=20)
import jax.numpy as jnp
import numpy as np

def log_density(x):  # two modes, and a matrix product
    far = jnp.stack([x - 3.0, x + 3.0])
    far = far - asked.get("shift", 0.0)
    return jax.nn.logsumexp(-0.5 * jnp.sum(far @ jnp.asarray(asked["metric"]) * far, axis=1))

def die(progress):
    if asked.get("die") == asked.get("process") and progress.stage == "draw":
        os._exit(9)

def press(progress):
    if asked["process"] == 1 and progress.stage == asked["press"]:
        signal.raise_signal(signal.SIGINT)

if "press" in asked:
    from sahmc.engine import loop
    loop.CHUNK_SECONDS = 0.0  # 16 moves each, however fast the machine
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a job run in the background

options = {k: v for k, v in asked.items() if k in ("devices", "check", "checkpoint")}
if asked["given"]:  # nothing is left for the warm-up to find, which takes long to compile
    ladder = sahmc.TemperatureLadder.geometric(20, 4)
    options.update(partition=ladder, kernel=sahmc.HMC(step_size=0.5, metric="unit"), symmetries=None)
try:
    result = sahmc.sample(
        log_density, jnp.full(3, 3.0), draws=60, tune=60, chains=16, random_seed=3, progressbar=False,
        callback=die if "die" in asked else press if "press" in asked else None, **options,
    )
except (RuntimeError, ValueError) as error:
    print(json.dumps({"error": str(error)}), flush=True)
    os._exit(3)
except KeyboardInterrupt:
    print(json.dumps({"error": "interrupted"}), flush=True)
    sys.exit(130)
digest = hashlib.sha256()
for part in (*jax.tree.leaves(result.draws), result.log_weight, result.theta):
    digest.update(np.ascontiguousarray(part).tobytes())
told = {"sha": digest.hexdigest(), "chains": result.log_weight.shape[0], "draws": result.log_weight.shape[1]}
print(json.dumps({**told, "codes": [finding.code for finding in result.findings]}), flush=True)
"""
METRIC = (np.eye(3) + 0.3).tolist()


def start(seen, given=False, **asked):
    """Begin a run in a process of its own that sees so many virtual devices.

    ``given`` tells whether kernel and ladder are given.
    """
    env = {**os.environ, "XLA_FLAGS": f"--xla_force_host_platform_device_count={seen}", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", RUN, json.dumps({"metric": METRIC, "given": given, **asked})]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def outcome(process):
    told, error = process.communicate(timeout=240)
    assert told, error
    return json.loads(told.splitlines()[-1])


def together(**asked):
    """Begin a run of two processes."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    return [start(1, True, processes=2, process=i, port=port, **asked) for i in range(2)]


@pytest.mark.newest
def test_four_devices_have_the_bits_of_one():
    one, four = start(1, devices=1), start(4, devices=4, check="serial")
    assert outcome(one)["sha"] == outcome(four)["sha"]


def test_two_processes_have_the_bits_of_one_and_a_lost_one_loses_nothing(tmp_path):
    """Both have the whole result; after one was killed, the other says so, and one or two go on to the same bits."""
    alone = outcome(start(1, True, devices=1))["sha"]
    both = [outcome(process) for process in together()]
    assert [one["sha"] for one in both] == [alone, alone] and both[1]["chains"] == 16
    folder = str(tmp_path / "run")
    left, lost = together(checkpoint=folder, die=1)
    error = outcome(left)["error"]
    assert "one of the 2 processes of this run was lost" in error and "resume" in error
    assert lost.wait(timeout=60) == 9
    shutil.copytree(folder, tmp_path / "copy")
    assert outcome(start(1, True, devices=1, checkpoint=folder))["sha"] == alone
    again = [outcome(process) for process in together(checkpoint=str(tmp_path / "copy"))]
    assert [one["sha"] for one in again] == [alone, alone]


def test_ctrl_c_in_one_process_ends_both_with_the_same_draws():
    both = together(press="draw")
    first, second = map(outcome, both)
    assert first == second and 0 < first["draws"] < 60 and "interrupted" in first["codes"]
    assert [process.wait(timeout=60) for process in both] == [0, 0]


def test_ctrl_c_in_one_process_ends_both_before_there_are_draws():
    both = together(press="adapt")
    assert [outcome(process) for process in both] == 2 * [{"error": "interrupted"}]
    assert [process.wait(timeout=60) for process in both] == [130, 130]


def test_processes_with_other_data_are_refused_in_all_of_them():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    both = [start(1, True, processes=2, process=i, port=port, shift=0.5 * i) for i in range(2)]
    errors = [outcome(process)["error"] for process in both]
    assert all("must be given the same model, data and arguments" in error for error in errors)
    assert "process 1" in errors[0] and "the steps of the log density changed" in errors[1]


class State(NamedTuple):
    position: np.ndarray
    t_key: np.ndarray


@pytest.mark.parametrize("off", [False, True], ids=["same", "twin"])
def test_bits_that_differ_are_told_of(monkeypatch, off):
    """The twin moves a number on several devices by its last place."""

    def made(words, state, *others):
        nudged = others[-1].check and off
        return state._replace(position=np.nextafter(state.position, np.inf) if nudged else state.position), None

    monkeypatch.setattr(loop, "run_chunk", made)
    state = State(np.ones(3, np.float32), np.zeros((), np.int32))
    call = (np.zeros(2), state, None, None, (4, 0, 8), 1, Devices(check=True))
    if off:
        with pytest.raises(RuntimeError, match=r"same bits, but \['\.position'\] differ"):
            inspect.unwrap(loop.compare_with_one)(*call)
    else:
        inspect.unwrap(loop.compare_with_one)(*call)


@pytest.mark.parametrize(
    ("devices", "told"),
    [
        (0, "at most the"),
        (True, "a number, a list of devices"),
        ([], "a number, a list of devices"),
        ("gpu", "a number, a list of devices"),
        ([1, 2], "a number, a list of devices"),
        (10**6, "lower it"),
    ],
)
def test_devices_that_are_none_are_refused(devices, told):
    with pytest.raises(ValueError, match=told):
        sahmc.sample(lambda x: -(x @ x), np.zeros(2), devices=devices)


def test_a_check_of_another_name_is_refused():
    with pytest.raises(ValueError, match='check must be "serial" or None'):
        parse_devices(1, "parallel", 8)


def test_one_device_named_is_that_device():
    found = parse_devices(jax.devices()[:1], None, 32)
    assert found.mesh is None and found.first == jax.devices()[0] and found.groups == 8
