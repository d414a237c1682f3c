"""The progress of a run, on a terminal, in a notebook, and as log lines."""
