"""Whether maps that are taken for symmetries leave the energy as it is, at places that were found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sahmc._support.traced import TracedFunction
from sahmc.landscape.curvature import energies_and_gradients
from sahmc.landscape.fold import Fold
from sahmc.models.exact_energy import exact_energies
from sahmc.models.symmetries import Symmetries

UNLIKE_NATS, UNLIKE_SHARE = 0.5, 1e-5
"""The nats, and the share of the energy, by which it may change, for rounding, under a map that is a symmetry."""


def changed(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Tell which energies changed by more than rounding explains."""
    with np.errstate(invalid="ignore"):  # both may be infinite
        same = np.abs(after - before) <= UNLIKE_NATS + UNLIKE_SHARE * np.abs(before)
    return np.asarray(~(same | (before == after)))


def unlike(energy_fn: TracedFunction, points: np.ndarray, move: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Tell at which points (point, dim) a map changes the energy.

    What seems to change is computed again in 64 bits, if the model can be.
    """
    images = move(points).astype(points.dtype)

    def differs(energies: Callable[[np.ndarray], np.ndarray], some: np.ndarray) -> np.ndarray:
        before, after = (np.nan_to_num(energies(part[some]), nan=np.inf, posinf=np.inf) for part in (points, images))
        return changed(before, after)

    found = differs(lambda part: energies_and_gradients(energy_fn, part)[0], np.full(len(points), True))
    if found.any() and points.dtype == np.float32 and not energy_fn.calls_out:
        try:
            found[found] = differs(lambda part: exact_energies(energy_fn, part).sum(axis=1), found)
        except Exception:  # a model that runs in 32 bits need not in 64
            return found
    return found


def held_at(
    energy_fn: TracedFunction, symmetries: Symmetries, points: np.ndarray, fold: Fold | None = None
) -> Symmetries | None:
    """Return those symmetries that leave the energies of points (point, dim) as they are; None if none does.

    They are tried at random copies of the points too. ``fold`` is one by all of them that seems to change the energies:
    if each symmetry holds by itself but the fold does not, none is kept.
    """
    copies = symmetries.random_copies(points, np.random.default_rng(len(points)))(points).astype(points.dtype)
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
