"""Symmetries of posteriors: maps and groups, their discovery, the fold that makes copies of a mode one, relabelling."""
