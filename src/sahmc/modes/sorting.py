"""Sorting: assigning each draw of a run to a mode, by Gaussians or, where these are in doubt, by descent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri

from sahmc._support.thinning import some_of
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
"""The largest number of bytes of draws that one thread sorts at once. With far fewer, threads wait for each other."""
MOST_SORTED = 2**17
"""The largest number of draws that are sorted again and again while some descend. If a run has more, some of them
show how to sort all the others."""
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
    size = max(1, SORTED_BYTES // (8 * (dim + len(found.count))))
    wide, long = min(size, chains), max(1, size // chains)

    def sort(chain: int, first: int) -> list[np.ndarray]:
        block = np.asarray(draws[chain : chain + wide, first : first + long], float)
        return [part.reshape(block.shape[:2]) for part in likeliest(found, block.reshape(-1, dim))]

    corners = [(chain, first) for chain in range(0, chains, wide) for first in range(0, num, long)]
    parts = zip(*in_threads(sort, corners), strict=True)
    return Likeliest(*(_joined(part, corners, (chains, num)) for part in parts))


def _joined(blocks: Sequence[np.ndarray], corners: list[tuple[int, int]], shape: tuple[int, int]) -> np.ndarray:
    """Return blocks (chain, draw), each put at its corner of an array of this shape, chain after chain."""
    whole = np.empty(shape, blocks[0].dtype)
    for block, (chain, first) in zip(blocks, corners, strict=True):
        whole[chain : chain + block.shape[0], first : first + block.shape[1]] = block
    return whole.ravel()


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
    index, mine, some = _some_of(draws, weight, sample)
    sample, rolled = np.searchsorted(index, sample), np.searchsorted(index, rolled)
    rng, known, anchor = np.random.default_rng(0), np.zeros(len(index), bool), np.full(len(index), -1)
    known[rolled], anchor[rolled] = True, ends
    rate, strays, by_neighbours, sure = 0.5, list[np.ndarray](), False, DOUBT_NATS
    matters = TOLERANCE * np.sqrt((weight**2).sum())
    most = basins.spent + MOST_SPENT * weight.size if basins.has_gradient else 0
    for left in reversed(range(ROUNDS + 1)):
        now = _judge(basins, found, some, known, anchor, sure, by_neighbours)
        sure, anchor, unsure = now.sure, now.anchor, np.flatnonzero(now.doubtful)
        if not left or basins.spent > most or rate * mine[unsure].sum() < matters:
            break
        picked = unsure[np.unique(systematic_resample(mine[unsure], min(ROUND_DESCENTS, len(unsure)), rng))]
        guesses = basins.lowest()[now.label[picked]], _neighbours(basins, some, known, anchor, picked)
        end = basins.add(_at(some, picked), GENTLE * found.sd[now.label[picked]])
        off = [_numbers(basins, guess) != _numbers(basins, end) for guess in guesses]
        by_neighbours = bool(off[1].sum() < off[0].sum())
        rate = (min(part.sum() for part in off) + 1) / (len(picked) + 2)
        strays.append(off[0][now.far[picked]])
        known[picked], anchor[picked] = True, end
        label = _numbers(basins, anchor[sample])
        found = fit_gaussians(values[label >= 0], label[label >= 0], basins.minima()[0], basins.scale)
    if len(index) < weight.size:
        told, ends = index[known], anchor[known]
        known, anchor = np.zeros(weight.size, bool), np.full(weight.size, -1)
        known[told], anchor[told] = True, ends
        now = _judge(basins, found, draws, known, anchor, sure, by_neighbours)
    if basins.has_gradient and not by_neighbours and not np.mean(np.concatenate([*strays, [True]])) < STRAY_SHARE:
        now.anchor[now.far & ~known] = -1
    mass = rate * np.where(now.doubtful, weight, 0.0)
    doubt = sum(np.bincount(side, mass, len(found.count)) for side in (now.label, now.second))
    return Assigned(_numbers(basins, now.anchor), found, np.asarray(doubt))


class _Judged(NamedTuple):
    """The judgement of Gaussians on draws; each array has one entry for each draw."""

    label: np.ndarray
    """The likeliest mode."""
    second: np.ndarray
    """The second likeliest mode."""
    far: np.ndarray
    """Whether the draw is far from all modes."""
    doubtful: np.ndarray
    """Whether the draw could belong to either, or is far, and has not descended."""
    anchor: np.ndarray
    """The anchor at which it ended, or that it is believed to lead to."""
    sure: float
    """The nats by which the likeliest mode must beat the second for a draw not to be in doubt."""


def _judge(
    basins: BasinMap,
    found: Gaussians,
    draws: np.ndarray,
    known: np.ndarray,
    anchor: np.ndarray,
    sure: float,
    by_neighbours: bool,
) -> _Judged:
    """Sort ``draws`` (chain, draw, dim) by Gaussians, and say which of them are in doubt.

    ``known`` draws have descended, to the anchors ``anchor``. They raise ``sure`` if the Gaussians were wrong about
    them. Draws in doubt are judged ``by_neighbours`` or by the Gaussians.
    """
    now = sort_draws(found, draws)
    wrong = known & (_numbers(basins, anchor) != now.label)
    sure = max(sure, 2 * now.gap[wrong].max(initial=0.0))
    anchor = np.where(known, anchor, basins.lowest()[now.label])
    far = far_away(found, now.square)
    doubtful = (far | (now.gap < sure) | (sure == np.inf)) & ~known
    if by_neighbours:
        unsure = np.flatnonzero(doubtful)
        anchor[unsure] = _neighbours(basins, draws, known, anchor, unsure)
    return _Judged(now.label, now.second, far, doubtful, anchor, sure)


def _some_of(draws: np.ndarray, weight: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the draws from which to learn how to sort: their indices in order, weights and values (chain, draw, dim).

    They are all draws or, if there are more than MOST_SORTED, randomly chosen ones, which stand for all, and those
    ``wanted``, which have no weight unless they are among these.
    """
    if weight.size <= MOST_SORTED:
        return np.arange(weight.size), weight, draws
    chosen = some_of(weight.size, MOST_SORTED)
    index = np.union1d(chosen, wanted)
    mine = np.where(np.isin(index, chosen, assume_unique=True), weight[index], 0.0)
    return index, mine / max(mine.sum(), 1e-300), _at(draws, index)[None]


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
    near = told[tree.query(_at(draws, index) / basins.scale, k=3, workers=-1)[1]]
    number = _numbers(basins, anchor[near])
    return anchor[np.where(number[:, 1] == number[:, 2], near[:, 1], near[:, 0])]


def _numbers(basins: BasinMap, anchors: np.ndarray) -> np.ndarray:
    """Return the basin number of each of ``anchors``; -1 where there is no anchor."""
    return np.where(anchors >= 0, basins.number()[anchors], -1)
