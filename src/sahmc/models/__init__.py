"""Posteriors: what a ``Model`` is, and how a model written with another library becomes one."""
