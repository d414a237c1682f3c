"""The quotient: how a run tells the copies of a mode that symmetries make, so that they are one to it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sahmc.landscape.alike import held_at
from sahmc.landscape.basins import BasinMap
from sahmc.landscape.descent import DESCENTS_AT_ONCE
from sahmc.landscape.discovery import QUENCH_STEPS, masses
from sahmc.landscape.fold import Fold, choose_fold
from sahmc.landscape.mode_finder import Found, ModeFinder
from sahmc.landscape.parts import Parts
from sahmc.models.symmetries import Symmetries
from sahmc.warmup.tempered import WarmupContext

BATCHES = 2
"""The batches of points that go downhill to find a mode by which copies are told."""
CHECKED, MOST_MINIMA = 32, 64
"""The number of these points at which symmetries are tried, and that of the minima that all of them come to."""
PICTURED = 1024
"""The number of draws of a Gaussian at that mode by which parts are told apart."""


class Quotient(NamedTuple):
    """The mode by which copies are told, and how."""

    fold: Fold
    """The fold."""
    symmetries: Symmetries
    """The symmetries by which the mode has copies."""
    minimum: np.ndarray
    """The lowest point of the mode, in the domain of the fold."""
    width: np.ndarray
    """The width of the mode in each coordinate there."""


class Told(NamedTuple):
    """The outcome of a look for a mode by which copies are told."""

    symmetries: Symmetries | None
    """Those symmetries that hold wherever points came to; None if none does."""
    quotient: Quotient | None
    """The quotient; None if no symmetry makes copies of the mode."""
    spent: int
    """The gradients spent."""


def find_quotient(context: WarmupContext, symmetries: Symmetries, scale: np.ndarray, points: np.ndarray) -> Told:
    """Find the heaviest mode that points (point, dim) come to downhill, as far as it has copies.

    ``scale`` is the spread of each coordinate. Symmetries were looked for near the starts, where a density whose modes
    are far apart may look as if it had some: what does not hold at the points, or where they come to, is dropped.
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
    """Return the energies that a look at points by ``held_at`` costs."""
    return 2 * len(points) * sum(1 + len(one.generators(symmetries.ids)) for one in symmetries.each)


def look_again(
    symmetries: Symmetries, before: Quotient, finder: ModeFinder, found: Found
) -> tuple[Quotient, ModeFinder, Found]:
    """Return the quotient, the finder and what it ``found`` anew if a heavier mode tells copies better than the first.

    That is, if the heaviest mode is another than that of ``before``, and has copies itself.
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
    """Return the quotient by a Gaussian at a minimum (dim,), with covariance F F', F being ``factor``."""
    noise = np.random.default_rng(0).normal(size=(PICTURED, len(minimum)))
    fold = choose_fold(symmetries.group, (minimum + noise @ factor.T).astype(minimum.dtype))
    if fold is None:
        return None
    width = np.sqrt((factor**2).sum(axis=1)).astype(minimum.dtype)
    used = symmetries.only(fold.group)
    return Quotient(fold, used, fold(minimum), np.abs(fold.move(minimum)(width)).astype(float))
