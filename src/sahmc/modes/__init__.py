"""Modes: descents to them, the search for them, what it could have missed, and Gaussians that describe them."""
