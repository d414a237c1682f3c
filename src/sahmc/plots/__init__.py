"""Plots of a result, and its report page."""
