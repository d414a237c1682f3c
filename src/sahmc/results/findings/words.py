"""The words that findings share."""

from __future__ import annotations

ERROR, WARNING = "error", "warning"
"""The severities of a finding."""
