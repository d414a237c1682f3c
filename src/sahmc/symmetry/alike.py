"""The test whether presumed symmetries leave the energy unchanged, at given points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sahmc._support.traced import TracedFunction
from sahmc.models.evaluation import energies_and_gradients, exact_energies
from sahmc.symmetry.fold import Fold
from sahmc.symmetry.known import Symmetries

UNLIKE_NATS, UNLIKE_SHARE = 0.5, 1e-5
"""The tolerance for rounding when testing a symmetry: nats, plus a share of the energy."""


def changed(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Tell which energies changed by more than rounding explains."""
    with np.errstate(invalid="ignore"):  # both may be infinite
        same = np.abs(after - before) <= UNLIKE_NATS + UNLIKE_SHARE * np.abs(before)
    return np.asarray(~(same | (before == after)))


def unlike(energy_fn: TracedFunction, points: np.ndarray, move: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Tell at which points (point, dim) a map changes the energy.

    Apparent changes are verified in 64 bits, if the model can be computed so.
    """
    images = move(points).astype(points.dtype)

    def differs(energies: Callable[[np.ndarray], np.ndarray], some: np.ndarray) -> np.ndarray:
        before, after = (np.nan_to_num(energies(part[some]), nan=np.inf, posinf=np.inf) for part in (points, images))
        return changed(before, after)

    found = differs(lambda part: energies_and_gradients(energy_fn, part)[0], np.full(len(points), True))
    if found.any() and points.dtype == np.float32 and not energy_fn.calls_out:
        try:
            found[found] = differs(lambda part: exact_energies(energy_fn, part).sum(axis=1), found)
        except Exception:  # a model that runs in 32 bits may fail in 64
            return found
    return found


def held_at(
    energy_fn: TracedFunction, symmetries: Symmetries, points: np.ndarray, fold: Fold | None = None
) -> Symmetries | None:
    """Return the symmetries that leave the energies of points (point, dim) unchanged; None if none does.

    They are also tested at random copies of the points. ``fold`` is built from all of them and seems to change the
    energies. If each symmetry holds by itself but the fold does not, none is kept.
    """
    copies = symmetries.group.random_copies(points, np.random.default_rng(len(points)))(points).astype(points.dtype)
    every = np.concatenate([points, copies])
    kept = [
        one
        for one in symmetries.each
        if not any(unlike(energy_fn, every, each).any() for each in one.generators(symmetries.ids))
    ]
    all_held = len(kept) == len(symmetries.each)
    if not kept or (all_held and fold is not None and unlike(energy_fn, points, fold).any()):
        return None
    return symmetries if all_held else replace(symmetries, each=tuple(kept))
