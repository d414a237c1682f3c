"""The words that findings share."""

from __future__ import annotations

import numpy as np

ERROR, WARNING = "error", "warning"
"""The severities of a finding."""


def short_place(position: np.ndarray) -> str:
    """Return the first coordinates of a position as text."""
    head = ", ".join(f"{x:.3g}" for x in position[:3])
    return f"({head}, ...)" if len(position) > 3 else f"({head})"


def count_chains(number: int) -> str:
    """Return "1 chain", "2 chains" and so on."""
    return f"{number} chain" + "s" * (number != 1)
