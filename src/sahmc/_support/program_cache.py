"""A folder of compiled programs, so that the next process need not compile them again."""

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
"""The JAX setting for the folder."""
MOST_BYTES = 2**30
"""The maximum size in bytes; the least recently used programs are deleted first."""
OWN_FOLDER = re.compile(r"^jax-.*-[0-9a-f]{12}$")
"""The pattern of the names of our folders; nothing else is ever deleted."""
FEATURES = ("flags", "Features", "model name", "CPU part")
"""The lines of /proc/cpuinfo that describe the capabilities of a processor."""


def keep_programs() -> Path | None:
    """Let JAX keep compiled programs in a folder from now on, and return it; None if they are not kept, or elsewhere.

    A folder that the user has set in JAX stays in use. Ours has a subfolder for each kind of processor and version of
    JAX, because a program compiled for another processor may not run. If our folder is not writable, none is used.
    """
    asked, enabled = os.environ.get(SWITCH, ""), getattr(jax.config, "jax_enable_compilation_cache", True)
    if asked.lower() == "off" or getattr(jax.config, FOLDER) is not None or not enabled:
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
    look_for_cache_again()  # JAX checks only once, at the first program, whether there is a folder
    return folder


def _user_cache() -> Path:
    """Return the user's cache folder, whose contents may be deleted at any time."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _processor() -> str:
    """Return a checksum of the processor type."""
    told = [platform.machine(), platform.processor(), platform.system()]
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        told += sorted({line for line in lines if line.startswith(FEATURES)})
    return hashlib.blake2b("\n".join(told).encode(), digest_size=6).hexdigest()


def _make_room(root: Path) -> None:
    """Remove the least recently used programs until the rest fits."""
    with suppress(OSError):
        ours = [path for path in root.glob("jax-*/*") if OWN_FOLDER.search(path.parent.name) and path.is_file()]
        files = [(path.stat(), path) for path in ours if path.name.endswith(("-cache", "-atime"))]
        total = sum(about.st_size for about, _ in files)
        for about, path in sorted(files, key=lambda pair: max(pair[0].st_mtime, pair[0].st_atime)):
            if total <= MOST_BYTES:
                break
            path.unlink(missing_ok=True)
            total -= about.st_size
