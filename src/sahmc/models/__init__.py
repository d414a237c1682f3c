"""Posteriors: what a model is, and how one written elsewhere becomes one."""
