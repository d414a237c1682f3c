"""Sorting: assigning each draw of a run to a mode, by Gaussians or, where these are in doubt, by descent."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import chdtri

from sahmc._support.threads import in_threads
from sahmc.modes.basins import BasinMap
from sahmc.modes.descent import DESCENTS_AT_ONCE
from sahmc.modes.gaussians import Gaussians, Likeliest, fit_gaussians, likeliest, sort_and_fit
from sahmc.tilt.importance import systematic_resample

DOUBT_NATS = 8.0
"""The minimum nats by which the likeliest mode must beat the next, or the draw is in doubt. It is raised if Gaussians
were wrong about a draw of which they were at least half as sure."""
FAR_CHANCE, FAR_FACTOR = 1e-6, 1.5
"""The tail probability of a Gaussian that defines a squared distance, and the multiple of it beyond which a draw is
far."""
SORT_BYTES = 2**25
"""The largest number of bytes of draws that are kept or examined at once."""
SORTED_BYTES = 2**22
"""The number of bytes of draws that one thread sorts at once."""
ROUNDS, ROUND_DESCENTS = 12, 2 * DESCENTS_AT_ONCE
"""The largest number of rounds in which draws in doubt descend, and the number of draws in each."""
MOST_SPENT = 2.5
"""The largest number of gradients, for each draw of the run, that these descents may spend; the last round may exceed
it."""
GENTLE = 0.3
"""The unit of length, in standard deviations, for descents of draws in doubt; it is small so that none crosses a
barrier."""
TOLERANCE = 0.3
"""The mass in doubt that is negligible, in units of the smallest possible standard error of a mass."""
STRAY_SHARE = 0.1
"""The share of far draws that may end outside the basin given by the Gaussians, for these to be trusted with the
others."""


class Assigned(NamedTuple):
    """The outcome of sorting: the mode of each draw, and the remaining doubt."""

    label: np.ndarray
    """The basin of each draw (draw,); -1 for draws that belong to none."""
    found: Gaussians
    """The Gaussian of each basin."""
    doubt: np.ndarray
    """The mass that may have been wrongly counted for each basin, or wrongly left out."""


def sort_draws(found: Gaussians, draws: np.ndarray) -> Likeliest:
    """Return the likeliest modes of ``draws`` (chain, draw, dim), chain after chain."""
    chains, num, dim = draws.shape
    step = max(1, SORTED_BYTES // (8 * chains * (dim + len(found.count))))

    def sort(first: int) -> list[np.ndarray]:
        block = np.asarray(draws[:, first : first + step], float)
        return [part.reshape(block.shape[:2]) for part in likeliest(found, block.reshape(-1, dim))]

    parts = in_threads(sort, ((first,) for first in range(0, num, step)))
    return Likeliest(*(np.concatenate(part, axis=1).ravel() for part in zip(*parts, strict=True)))


def far_away(found: Gaussians, square: np.ndarray) -> np.ndarray:
    """Return whether draws at the squared distance ``square`` from the nearest mode are far from all modes."""
    return square > FAR_FACTOR * float(chdtri(found.mean.shape[1], FAR_CHANCE))


def assign_draws(
    basins: BasinMap, draws: np.ndarray, weight: np.ndarray, sample: np.ndarray, rolled: np.ndarray, ends: np.ndarray
) -> Assigned:
    """Return the basin of each of ``draws`` (chain, draw, dim), chain after chain.

    ``weight`` (draw,) are their weights, which sum to 1. ``sample`` are the indices of draws that represent the
    posterior with equal weights; Gaussians are fitted to these. ``rolled`` are the indices of draws that have
    descended, to the anchors ``ends``.

    Some of the draws that could belong to two basins descend as well, and so do some that are far from all basins. They
    show how often the Gaussians err, and whether the nearest descended draws would be a better guide. This continues
    until the remaining doubt is negligible.
    """
    values = _at(draws, sample)
    _, found = sort_and_fit(values, basins.minima()[0], basins.scale)
    rng, known = np.random.default_rng(0), np.zeros(weight.size, bool)
    anchor = np.full(weight.size, -1)
    known[rolled], anchor[rolled] = True, ends
    rate, strays, by_neighbours, sure = 0.5, list[np.ndarray](), False, DOUBT_NATS
    matters = TOLERANCE * np.sqrt((weight**2).sum())
    most = basins.spent + MOST_SPENT * weight.size if basins.has_gradient else 0
    for left in reversed(range(ROUNDS + 1)):
        now = sort_draws(found, draws)
        wrong = known & (_numbers(basins, anchor) != now.label)
        sure = max(sure, 2 * now.gap[wrong].max(initial=0.0))
        anchor = np.where(known, anchor, basins.lowest()[now.label])
        far = far_away(found, now.square)
        doubtful = (far | (now.gap < sure) | (sure == np.inf)) & ~known
        unsure = np.flatnonzero(doubtful)
        if by_neighbours:
            anchor[unsure] = _neighbours(basins, draws, known, anchor, unsure)
        if not left or basins.spent > most or rate * weight[unsure].sum() < matters:
            break
        picked = unsure[np.unique(systematic_resample(weight[unsure], min(ROUND_DESCENTS, len(unsure)), rng))]
        guesses = basins.lowest()[now.label[picked]], _neighbours(basins, draws, known, anchor, picked)
        end = basins.add(_at(draws, picked), GENTLE * found.sd[now.label[picked]])
        off = [_numbers(basins, guess) != _numbers(basins, end) for guess in guesses]
        by_neighbours = off[1].sum() < off[0].sum()
        rate = (min(part.sum() for part in off) + 1) / (len(picked) + 2)
        strays.append(off[0][far[picked]])
        known[picked], anchor[picked] = True, end
        label = _numbers(basins, anchor[sample])
        found = fit_gaussians(values[label >= 0], label[label >= 0], basins.minima()[0], basins.scale)
    if basins.has_gradient and not by_neighbours and not np.mean(np.concatenate([*strays, [True]])) < STRAY_SHARE:
        anchor[far & ~known] = -1
    mass = rate * np.where(doubtful, weight, 0.0)
    doubt = sum(np.bincount(side, mass, len(found.count)) for side in (now.label, now.second))
    return Assigned(_numbers(basins, anchor), found, np.asarray(doubt))


def _at(draws: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return some of ``draws`` (chain, draw, dim) by index, counted chain after chain, as (draw, dim)."""
    return np.asarray(draws[np.unravel_index(index, draws.shape[:2])])


def _neighbours(
    basins: BasinMap, draws: np.ndarray, known: np.ndarray, anchor: np.ndarray, index: np.ndarray
) -> np.ndarray:
    """Return the anchors of the draws ``index``, as predicted by the nearest draws that are ``known``.

    ``anchor`` is that of each draw so far. A majority of the three nearest decides, or the nearest if all differ.
    """
    from scipy.spatial import cKDTree

    told = np.flatnonzero(known)
    if len(told) < 3 or not len(index):
        return anchor[index]
    tree = cKDTree(_at(draws, told) / basins.scale)
    near = told[tree.query(_at(draws, index) / basins.scale, k=3)[1]]
    number = _numbers(basins, anchor[near])
    return anchor[np.where(number[:, 1] == number[:, 2], near[:, 1], near[:, 0])]


def _numbers(basins: BasinMap, anchors: np.ndarray) -> np.ndarray:
    """Return the basin number of each of ``anchors``; -1 where there is no anchor."""
    return np.where(anchors >= 0, basins.number()[anchors], -1)
