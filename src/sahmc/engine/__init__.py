"""The compiled loop and what surrounds it: plan, starts, stages, limits, devices."""
