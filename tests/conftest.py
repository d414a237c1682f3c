import hashlib
import importlib.metadata
import os
import platform
import shutil
import sys
from pathlib import Path

# Compiling is most of the work. What one process has compiled, no other need compile, nor the next run of the tests in
# this environment. A program for another processor may not run, so each kind has a folder.
CACHE, MOST_BYTES = "JAX_COMPILATION_CACHE_DIR", 2**31
if CACHE not in os.environ:
    told = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else platform.processor()
    kind = "".join(sorted({line for line in told.splitlines() if line.lower().startswith(("flags", "features"))}))
    programs = Path(sys.prefix) / "programs" / hashlib.sha256(kind.encode()).hexdigest()[:12]
    if sum(file.stat().st_size for file in programs.glob("*")) > MOST_BYTES:
        shutil.rmtree(programs, ignore_errors=True)
    os.environ[CACHE] = str(programs)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
# Two processes share two cores. (NPROC=1 would make JAX wait for ever for the callbacks of Stan.)
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")
# A third of the time to compile. The claims draw for long, and want faster code than the rest, for which half of that
# third will do. Newer versions do not know the second flag, and would stop at it.
if importlib.metadata.version("jax").startswith("0.10."):
    level = int(any(argument.startswith("tests/claims") or argument == "slow" for argument in sys.argv))
    os.environ.setdefault("XLA_FLAGS", f"--xla_backend_optimization_level={level} --xla_cpu_use_fusion_emitters=false")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import pytest  # noqa: E402

from sahmc.testing import mixture  # noqa: E402

MOST_MAPS = 5000


@pytest.fixture(autouse=True)
def precision():
    """PyTensor switches JAX to 64 bits when it first meets it, for good."""
    before = jax.config.jax_enable_x64
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """Let go of what was compiled when there is much of it: every new program then costs the kernel more."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_text().count("\n") > MOST_MAPS:
        jax.clear_caches()


@pytest.fixture(scope="session")
def set1():
    return mixture(-6.0, 4.0)


@pytest.fixture(scope="session")
def set2():
    return mixture(-8.0, 6.0)


@pytest.fixture
def origin():
    return jnp.zeros(2)
