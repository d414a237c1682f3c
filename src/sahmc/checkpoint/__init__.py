"""Runs on disk: journal, files and locks, so that a run killed at any moment goes on to the same bits."""
