"""Findings: the problems of a run, as sentences. A run without findings has passed."""
