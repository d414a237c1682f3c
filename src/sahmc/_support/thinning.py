"""Samples of bounded size: what the host looks at where there are many chains or draws."""

from __future__ import annotations

import numpy as np

MOST_CHAINS = 1024
"""The largest number of chains whose draws are examined during the warm-up."""


def some_of(num: int, most: int) -> np.ndarray:
    """Return the indices, in order, of about ``most`` of ``num`` things; of all, if there are no more.

    One is drawn at random from each of many equal stretches. Even spacing could miss modes, since chains are dealt over
    these in turn. The same numbers always give the same indices.
    """
    if num <= most:
        return np.arange(num)
    places = (np.arange(most) + np.random.default_rng(num).random(most)) * (num / most)
    return np.unique(np.minimum(places.astype(int), num - 1))


def some_chains(values: np.ndarray) -> np.ndarray:
    """Return values (draw, chain, ...) of about MOST_CHAINS of the chains; of all, if there are no more."""
    return values if values.shape[1] <= MOST_CHAINS else values[:, some_of(values.shape[1], MOST_CHAINS)]
