"""A folder in which compiled programs are kept, so that the next process need not compile them again."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from contextlib import suppress
from pathlib import Path

import jax

from sahmc._support.jax_internals import look_for_cache_again

SWITCH = "SAHMC_PROGRAM_CACHE"
"""The environment variable that names another folder, or is "off"."""
FOLDER = "jax_compilation_cache_dir"
"""The setting of JAX that holds the folder."""
MOST_BYTES = 2**30
"""The most bytes that are kept; programs used longest ago go first."""
OWN_FOLDER = re.compile(r"^jax-.*-[0-9a-f]{12}$")
"""What the folders are called in which programs are kept; nothing else is ever taken away."""
FEATURES = ("flags", "Features", "model name", "CPU part")
"""The lines of /proc/cpuinfo that tell what a processor can do."""


def keep_programs() -> Path | None:
    """Let JAX keep compiled programs in a folder from now on, and return it; None if they are not kept, or by others.

    A folder that the user has told JAX of stays in use. Ours has a part for each kind of processor and version of JAX:
    a program that was compiled for another processor may not run. Where no folder can be written to, none is used.
    """
    asked = os.environ.get(SWITCH, "")
    if asked.lower() == "off" or getattr(jax.config, FOLDER) is not None or not _enabled():
        return None
    root = Path(asked) if asked else _user_cache() / "sahmc"
    folder = root / f"jax-{jax.__version__}-{_processor()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        usable = os.access(folder, os.W_OK)
    except (OSError, RuntimeError):
        usable = False
    if not usable:
        return None
    _make_room(root)
    jax.config.update(FOLDER, str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # small ones too: there are many
    look_for_cache_again()  # JAX asks once, at the first program, whether there is a folder
    return folder


def _enabled() -> bool:
    """Tell whether the user has not switched JAX's cache off."""
    return bool(getattr(jax.config, "jax_enable_compilation_cache", True))


def _user_cache() -> Path:
    """Return the folder for what programs of this user may lose."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _processor() -> str:
    """Return a checksum of what kind of processor this is."""
    told = [platform.machine(), platform.processor(), platform.system()]
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        told += sorted({line for line in lines if line.startswith(FEATURES)})
    return hashlib.blake2b("\n".join(told).encode(), digest_size=6).hexdigest()


def _make_room(root: Path) -> None:
    """Take away the programs used longest ago, until the rest is not too large."""
    with suppress(OSError):
        ours = [path for path in root.glob("jax-*/*") if OWN_FOLDER.search(path.parent.name) and path.is_file()]
        files = [(path.stat(), path) for path in ours if path.name.endswith(("-cache", "-atime"))]
        total = sum(about.st_size for about, _ in files)
        for about, path in sorted(files, key=lambda pair: max(pair[0].st_mtime, pair[0].st_atime)):
            if total <= MOST_BYTES:
                break
            path.unlink(missing_ok=True)
            total -= about.st_size
