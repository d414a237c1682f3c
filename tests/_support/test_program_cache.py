"""Where compiled programs are kept, each claim in a process of its own: JAX is told once."""

import json
import os
import subprocess
import sys

import pytest

ASK = """
import json, sys
import jax, jax.numpy as jnp
from sahmc._support import program_cache
jnp.ones(3) + 1  # a program before: JAX has already asked itself whether there is a folder
program_cache.LEAST_SECONDS = 0.0
folder = program_cache.keep_programs()
jax.jit(lambda x: x @ x + jnp.sin(x))(jnp.ones((7, 7))).block_until_ready()
print(json.dumps([None if folder is None else str(folder), jax.config.jax_compilation_cache_dir]))
"""


def asked(**env):
    """What a process says that has these variables in its environment, and no others about folders."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "SAHMC_"))}
    told = subprocess.run([sys.executable, "-c", ASK], env={**clean, **env}, capture_output=True, text=True, check=True)
    return json.loads(told.stdout.splitlines()[-1])


def test_programs_are_kept_in_a_folder_of_this_processor(tmp_path):
    first, known = asked(SAHMC_PROGRAM_CACHE=str(tmp_path))
    assert first == known and first.startswith(str(tmp_path / "jax-"))
    kept = sorted(os.listdir(first))
    assert any(name.endswith("-cache") for name in kept)
    assert asked(SAHMC_PROGRAM_CACHE=str(tmp_path))[0] == first
    assert [n for n in sorted(os.listdir(first)) if n.endswith("-cache")] == [n for n in kept if n.endswith("-cache")]


@pytest.mark.parametrize("env", [{"SAHMC_PROGRAM_CACHE": "off"}, {"SAHMC_PROGRAM_CACHE": "/dev/null/none"}])
def test_none_is_used_where_it_is_off_or_cannot_be_written(env):
    assert asked(**env) == [None, None]


def test_a_folder_of_the_users_stays(tmp_path):
    assert asked(JAX_COMPILATION_CACHE_DIR=str(tmp_path)) == [None, str(tmp_path)]


def test_old_programs_make_room(tmp_path, monkeypatch):
    from sahmc._support import program_cache

    folder, others = tmp_path / "jax-0.10.2-0123456789ab", tmp_path / "jax-notes"
    folder.mkdir()
    others.mkdir()
    mine = [others / "0-cache", folder / "thesis.txt"]
    for path in mine:
        path.write_bytes(bytes(1000))
        os.utime(path, (0, 0))
    for age in range(4):
        path = folder / f"{age}-cache"
        path.write_bytes(bytes(100))
        os.utime(path, (1000 - age, 1000 - age))
    monkeypatch.setattr(program_cache, "MOST_BYTES", 250)
    program_cache._make_room(tmp_path)
    assert sorted(p.name for p in folder.glob("*-cache")) == ["0-cache", "1-cache"]
    assert all(path.exists() for path in mine)
