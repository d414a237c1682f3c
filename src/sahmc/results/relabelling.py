"""Relabelled draws: if modes have copies, all draws are mapped to the same copy."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from sahmc._support.frozen import thawed
from sahmc._support.types import Position
from sahmc._support.words import listed
from sahmc.results.records import RunRecord
from sahmc.symmetry.known import from_data
from sahmc.symmetry.maps import Flip, Involution, Permute, Symmetry
from sahmc.symmetry.relabel import relabel


def known_symmetries(record: RunRecord) -> list[Symmetry]:
    """Return the symmetries of the variables of a run."""
    return from_data(thawed(record.settings).get("symmetries", []))


def relabelled(record: RunRecord, symmetries: Sequence[Symmetry] | None = None) -> Position:
    """Return the draws with ``symmetries`` undone, in their own structure; None means the symmetries of the run."""
    symmetries = known_symmetries(record) if symmetries is None else symmetries
    values = record.draws.values
    if isinstance(symmetries, (list, tuple)) and not symmetries:
        return values
    return relabel(values, record.draws.log_density, record.weight, symmetries)


def relabelled_beside(record: RunRecord, points: tuple[np.ndarray, ...]) -> tuple[Position, list[np.ndarray]]:
    """Return the draws with known symmetries undone, and ``points`` mapped to the same copy as the draws.

    ``points`` holds arrays (point, ...) for each leaf of a draw. They have no influence on the choice of copy.
    """
    known = known_symmetries(record)
    if not known:
        return record.draws.values, list(points)
    weight, num = record.weight, len(points[0])
    leaves = [
        np.concatenate([leaf.reshape(1, weight.size, *leaf.shape[2:]), point[None]], axis=1)
        for leaf, point in zip(record.draws.leaves, points, strict=True)
    ]
    log_density = np.append(record.draws.log_density.ravel(), np.full(num, -np.inf))
    share = np.append(weight.ravel(), np.zeros(num))
    values = jax.tree.unflatten(record.draws.structure, leaves)
    moved = jax.tree.leaves(relabel(values, log_density[None], share[None], known))
    draws = [leaf[0, :-num].reshape(*weight.shape, *leaf.shape[2:]) for leaf in moved]
    return jax.tree.unflatten(record.draws.structure, draws), [leaf[0, -num:] for leaf in moved]


def symmetries_in_words(record: RunRecord) -> str:
    """Return a sentence on the known symmetries of a run; empty if there are none."""
    known = known_symmetries(record)
    if not known:
        return ""
    told = [f"parts of {listed(list(one.names))} may change places" for one in known if isinstance(one, Permute)]
    told += [f"{listed(list(one.names))} may change sign" for one in known if isinstance(one, Flip)]
    told += [f"{one.name} leaves the posterior as it is" for one in known if isinstance(one, Involution)]
    return f"symmetries: {'; '.join(told)}. The table is of relabelled draws, in which each part is the same throughout"
