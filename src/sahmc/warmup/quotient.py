"""The quotient: how a run identifies the copies of a mode that symmetries make, and counts them as one."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sahmc.modes.basins import BasinMap
from sahmc.modes.descent import DESCENTS_AT_ONCE
from sahmc.modes.discovery import QUENCH_STEPS, masses
from sahmc.modes.finder import Found, ModeFinder
from sahmc.modes.parts import Parts
from sahmc.symmetry.alike import held_at
from sahmc.symmetry.fold import Fold, choose_fold
from sahmc.symmetry.known import Symmetries
from sahmc.warmup.tempered import WarmupContext

BATCHES = 2
"""The number of batches of points that descend to find a mode with copies."""
CHECKED, MOST_MINIMA = 32, 64
"""The number of these points at which symmetries are tested, and the largest number of minima found at which they
are."""
PICTURED = 1024
"""The number of draws of a Gaussian at that mode from which the fold is chosen."""


class Quotient(NamedTuple):
    """The mode that defines how copies are distinguished, and the fold that does so."""

    fold: Fold
    """The fold."""
    symmetries: Symmetries
    """The symmetries that make copies of the mode."""
    minimum: np.ndarray
    """The lowest point of the mode, in the domain of the fold."""
    width: np.ndarray
    """The width of the mode in each coordinate there."""


class Told(NamedTuple):
    """The outcome of the search for a mode with copies."""

    symmetries: Symmetries | None
    """The symmetries that hold wherever points arrived; None if none does."""
    quotient: Quotient | None
    """The quotient; None if no symmetry makes copies of the mode."""
    spent: int
    """The gradients spent."""


def find_quotient(context: WarmupContext, symmetries: Symmetries, scale: np.ndarray, points: np.ndarray) -> Told:
    """Find the heaviest mode that points (point, dim) reach downhill, and choose the fold if it has copies.

    ``scale`` is the spread of each coordinate. Symmetries were first tested near the starts. If the modes are far
    apart, a density may look symmetric there when it is not. A symmetry that fails at the points, or at the minima they
    reach, is dropped.
    """
    rng = np.random.default_rng(len(points))
    basins = BasinMap(context.energy_fn, scale, points.dtype)
    points = rng.permutation(points)[: BATCHES * DESCENTS_AT_ONCE]
    basins.settle(points, QUENCH_STEPS)
    minima = basins.anchor[basins.lowest()][:MOST_MINIMA] if len(basins.anchor) else basins.anchor
    places = np.concatenate([points[:CHECKED], minima.astype(points.dtype)])
    held = held_at(context.energy_fn, symmetries, places)
    spent = basins.spent + _looks(symmetries, places)
    if held is None or not len(basins.anchor):
        return Told(held, None, spent)
    lowest, log_mass = masses(basins)
    mode = int(lowest[np.argmax(log_mass)])
    shape = basins.laplace(mode)
    factor = np.diag(scale) if shape is None else scale[:, None] * np.linalg.cholesky(shape)
    return Told(held, _told_by(held, basins.anchor[mode].astype(points.dtype), factor), spent)


def _looks(symmetries: Symmetries, points: np.ndarray) -> int:
    """Return the number of energies that ``held_at`` computes for these points."""
    return 2 * len(points) * sum(1 + len(one.generators(symmetries.ids)) for one in symmetries.each)


def look_again(
    symmetries: Symmetries, before: Quotient, finder: ModeFinder, found: Found
) -> tuple[Quotient, ModeFinder, Found]:
    """Return the quotient, the finder and the modes again if the heaviest mode distinguishes copies better.

    That is the case if it is not the mode of ``before``, and has copies itself. Otherwise all three are unchanged.
    """
    nothing = before, finder, found
    heaviest = found.minima[0] if len(found.minima) else before.minimum
    if (np.abs(heaviest - before.minimum) < before.width).all():
        return nothing
    shape = Parts.of(found.by_curvature)
    near = int(np.argmin((((shape.mean - heaviest) / before.width) ** 2).sum(axis=1)))
    factor = shape.factor[near]
    better = _told_by(symmetries, heaviest, np.diag(factor) if factor.ndim == 1 else factor)
    if better is None:
        return nothing
    finder = replace(finder.folded(better.fold), scale=better.width)
    again = finder.find(better.fold(found.minima), found.modes)
    kept = {name: getattr(found, name) for name in ("covered", "still_new", "power")}
    return better, finder, again._replace(**kept, spent=found.spent + again.spent)


def _told_by(symmetries: Symmetries, minimum: np.ndarray, factor: np.ndarray) -> Quotient | None:
    """Return the quotient from a Gaussian at a minimum (dim,), with covariance F F', where F is ``factor``."""
    noise = np.random.default_rng(0).normal(size=(PICTURED, len(minimum)))
    fold = choose_fold(symmetries.group, (minimum + noise @ factor.T).astype(minimum.dtype))
    if fold is None:
        return None
    width = np.sqrt((factor**2).sum(axis=1)).astype(minimum.dtype)
    used = symmetries.only(fold.group)
    return Quotient(fold, used, fold(minimum), np.abs(fold.move(minimum)(width)).astype(float))
