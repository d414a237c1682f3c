"""The quantities compared between chains: coordinates of positions, or a subset if there are very many."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from sahmc.models.model import Labels
from sahmc.models.positions import named, numbered, untransformed

MOST_CHAINS, MOST_COORDINATES, MOST_BYTES = 512, 1000, 2**27
"""The maximum numbers of chains, of coordinates and of bytes of their draws to examine, to save time."""


class Quantities(NamedTuple):
    """An evenly spaced subset of quantities and draws."""

    values: np.ndarray
    """The values, (chain, draw, quantity)."""
    names: list[str]
    """The names of the quantities."""
    every: tuple[int, int]
    """The pair (i, j): every i-th chain and every j-th draw was used."""


def choose_quantities(positions: Any, about: Labels | None = None) -> Quantities:
    """Return the coordinates of positions; if there are too many, a subset of coordinates and draws.

    ``positions`` is a pytree of arrays (chain, draw, ...). Unconstrained values have the names of the original
    variables, with the dims and coords of ``about``.
    """
    leaves = [leaf.reshape(*leaf.shape[:2], -1) for leaf in jax.tree.leaves(positions)]
    known = [
        text for name, leaf in named(positions).items() for text in numbered(untransformed(name), leaf.shape[2:], about)
    ]
    chains, draws = leaves[0].shape[:2]
    dim = sum(leaf.shape[2] for leaf in leaves)
    stride = -(-dim // MOST_COORDINATES)
    each = 8 * min(chains, MOST_CHAINS) * draws * -(-dim // stride)
    every = -(-chains // MOST_CHAINS), -(-each // MOST_BYTES)
    parts, names, first = [], [], 0
    for leaf in leaves:
        pick = np.arange(-first % stride, leaf.shape[2], stride)
        parts.append(leaf[:: every[0], :: every[1], pick])
        names += [known[first + i] for i in pick]
        first += leaf.shape[2]
    return Quantities(np.concatenate(parts, axis=2), names, every)
