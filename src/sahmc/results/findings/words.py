"""Text shared by findings."""

from __future__ import annotations

ERROR, WARNING = "error", "warning"
"""The severities of a finding."""
GO_ON = "Go on with Result.extend or, from a checkpoint, with sahmc.resume."
"""The advice for a run that was interrupted."""
