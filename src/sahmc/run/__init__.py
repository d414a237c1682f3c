"""The compiled loop and what surrounds it: plan, stages, records on disk, progress."""
