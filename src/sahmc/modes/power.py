"""The power of the search for modes: the probability that it would have found a mode, had there been one.

A hypothetical mode, a needle, is placed at random. Wherever its density far exceeds that of the posterior, a probe
would have seen the needle's energy and gradient instead. To be found, a needle needs at least one probe in its basin,
and strange enough to descend. The probes of a run show the minimum mass that this takes for each place and width.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sahmc.models.evaluation import energies_and_gradients
from sahmc.modes.basins import BasinMap
from sahmc.modes.probes import Look, Pictures
from sahmc.results.warmup_record import SEARCH_PLACES, SearchPower

NEEDLES = dict(zip(SEARCH_PLACES, (60, 80, 60), strict=True))
"""The number of needles at each kind of place."""
PRODUCTS, FEWEST_AT_ONCE = 2**18, 64
"""The number of products in a matrix of distances between needles and probes: few, so that a core's cache holds them
and no other core has to help. The second is the minimum number of probes in it."""
LOG2_WIDTHS, FULL_DIM = np.arange(-3.0, 0.1, 0.375), 8
"""The base-2 logs of the widths of needles in up to FULL_DIM dimensions; in more, the smallest volume is the same."""
FEWEST_NEEDLES = 8
"""The minimum number of needles that are separate modes where they are placed, for estimating the share found."""
MOST_FLAT = 0.5
"""The maximum share of points inside modes with a slope of zero along a coordinate, for gradients to show anything."""
LOG_ODDS = np.linspace(-7.0, 7.0, 29)
"""The log odds of the mass to try."""
DOMINATED = 0.0
"""The minimum nats by which a needle's density must exceed that of the posterior for a probe to see it."""


def needle_widths(dim: int) -> np.ndarray:
    """Return the widths of needles in ``dim`` dimensions, in units of the nearest mode's."""
    return 2.0 ** (LOG2_WIDTHS * min(1.0, FULL_DIM / dim))


def measure_power(basins: BasinMap, looks: list[Look], seed: int) -> SearchPower:
    """Return the power of the probes of a run, and of points that descended from wherever they were.

    Needles are placed inside the modes, near them and far away.
    """
    rng, pictures = np.random.default_rng(seed), Pictures.of(basins)
    widths = needle_widths(pictures.dim)
    centres = basins.folded(np.concatenate([pictures.draw(num, place, rng) for place, num in NEEDLES.items()]))
    base, gradient = energies_and_gradients(basins.energy_fn, (centres * basins.scale).astype(basins.dtype))
    basins.spent += len(centres)
    inside = np.isfinite(base[: NEEDLES["inside"]])
    still = ((gradient[: len(inside)] == 0) & inside[:, None]).sum(axis=0)
    flat = bool((still > MOST_FLAT * max(1, inside.sum())).any())
    base = np.where(np.isnan(base), np.inf, base)
    owner = pictures.owner(centres)
    needed = np.full((len(centres), len(widths)), np.inf)
    for look in looks:
        for k in np.unique(owner) if len(look.energy) else []:
            mine = np.flatnonzero(owner == k)
            needed[mine] = np.minimum(needed[mine], _needed(pictures, int(k), centres[mine], look))
    seen = needed[..., None] <= LOG_ODDS
    own = _log_peak(pictures, owner[:, None])[..., None] + LOG_ODDS > -base[:, None, None] + DOMINATED
    found, ends = list[Any](), np.cumsum(list(NEEDLES.values()))[:-1]
    for both, each in zip(np.split(seen & own, ends), np.split(own, ends), strict=True):
        count = each.sum(axis=0)
        share = np.where(flat | (count < FEWEST_NEEDLES), np.nan, np.round(both.sum(axis=0) / np.maximum(count, 1), 4))
        found.append(tuple(map(tuple, share.tolist())))
    return SearchPower(
        widths=tuple(widths.tolist()),
        log_odds=tuple(LOG_ODDS.tolist()),
        found=tuple(found),
        probes=sum(len(look.energy) for look in looks),
        dim=pictures.dim,
        narrowest=pictures.narrowest,
        furthest=pictures.furthest,
        flat=flat,
    )


def _log_peak(pictures: Pictures, mode: np.ndarray | int) -> np.ndarray:
    """Return the log density at the centre of needles of all widths with as much mass as all modes together.

    They have the shape of the modes ``mode``.
    """
    return pictures.log_total - pictures.log_width[mode] - pictures.dim * np.log(needle_widths(pictures.dim))


def _needed(pictures: Pictures, mode: int, centres: np.ndarray, look: Look) -> np.ndarray:
    """Return the minimum log odds of the mass for needles to be seen, (centre, width); inf if no mass is enough."""
    widths = needle_widths(pictures.dim)
    found = np.full((len(centres), len(widths)), np.inf)
    whiten = np.linalg.inv(pictures.factor[mode]) if pictures.has_factors else np.eye(pictures.dim)
    bests = _nearest(centres, pictures.minimum[mode], whiten, 0.5 / widths**2, look)
    squares = np.sum(((centres - look.position[bests]) @ whiten.T) ** 2, axis=2)
    peak = _log_peak(pictures, mode)
    for j, (width, best, square) in enumerate(zip(widths, bests, squares[..., None], strict=True)):
        energy = square / (2 * width**2) - peak[j] - LOG_ODDS
        dominates = -energy > -look.energy[best, None] + DOMINATED
        strange = pictures.strange(mode, energy, square / width**4)
        seen = dominates & (strange > look.bar[np.searchsorted(look.edges, energy)])
        found[:, j] = np.where(seen.any(axis=1), LOG_ODDS[seen.argmax(axis=1)], np.inf)
    return found


def _nearest(
    centres: np.ndarray, minimum: np.ndarray, whiten: np.ndarray, narrow: np.ndarray, look: Look
) -> np.ndarray:
    """Return the point of a look where needles at each centre stand out most, for each width (width, centre).

    Distances are in units of the width of a mode, given by its ``minimum`` and the matrix ``whiten``. ``narrow`` is 1 /
    (2 w^2) for each width w.
    """
    energy = np.minimum(look.energy, np.finfo(np.float32).max).astype(np.float32)
    one, two = (((part - minimum) @ whiten.T).astype(np.float32) for part in (centres, look.position))
    found, least = np.zeros((len(narrow), len(one)), int), np.full((len(narrow), len(one)), np.inf, np.float32)
    length, rows = np.sum(one**2, axis=1)[:, None], np.arange(len(one))
    step = max(FEWEST_AT_ONCE, PRODUCTS // max(1, one.size))
    room = np.empty((len(one), step), np.float32)
    for i in range(0, len(two), step):
        some, height = two[i : i + step], energy[i : i + step]
        score = room[:, : len(some)]
        square = np.maximum(length + np.sum(some**2, axis=1) - 2 * one @ some.T, 0.0)
        for j, scale in enumerate(narrow.astype(np.float32)):
            np.subtract(np.multiply(square, scale, out=score), height, out=score)
            best = np.argmin(score, axis=1)
            lowest = score[rows, best]
            lower = lowest < least[j]
            found[j, lower], least[j, lower] = best[lower] + i, lowest[lower]
    return found
