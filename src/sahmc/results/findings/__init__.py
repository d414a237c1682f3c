"""Findings: what is wrong with a run, in words. A run without any has passed."""
