"""The import of matplotlib, made only when a figure is drawn."""

from __future__ import annotations

from types import ModuleType


def pyplot() -> ModuleType:
    """Return ``matplotlib.pyplot``; raise ``ValueError`` if it is not installed."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ValueError("pictures need matplotlib; install it with: pip install 'sahmc[plots]'") from error
    return plt
