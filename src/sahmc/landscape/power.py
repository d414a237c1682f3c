"""The power of the search for modes: what it would have found, had it been there.

A hypothetical mode, a needle, is put at a random place. Wherever its density exceeds that of the posterior by far, a
probe would have seen its energy and gradient in place of those that it saw. So from the probes of a run follows for
each place and width how much mass a needle must have for at least one probe to be in its basin, and strange enough to
go downhill.
"""

from __future__ import annotations

import numpy as np

from sahmc.landscape.basins import BasinMap
from sahmc.landscape.probes import Look, Pictures
from sahmc.results.warmup_record import SearchPower

PLACES = 200
"""The number of places at which needles are put."""
WIDTHS = 2.0 ** np.arange(-3.0, 0.1, 0.375)
"""The widths of needles, in units of the nearest mode's."""
LOG_ODDS = np.linspace(-7.0, 7.0, 29)
"""The logs of the odds of the mass that are tried."""
DOMINATED = 0.0
"""The nats by which a needle's density must exceed that of the posterior where a probe sees it."""


def measure_power(basins: BasinMap, looks: list[Look], seed: int) -> SearchPower:
    """Return what the probes of a run, and points that went downhill from wherever they were, would have found.

    The needles are put where most probes are, near the modes.
    """
    rng, pictures = np.random.default_rng(seed), Pictures.of(basins)
    centres = basins.folded(pictures.draw(PLACES, True, rng))
    base = basins.energies((centres * basins.scale).astype(basins.dtype))
    owner = pictures.owner(centres)
    needed = np.full((len(centres), len(WIDTHS)), np.inf)
    for k in np.unique(owner):
        mine = np.flatnonzero(owner == k)
        for look in looks:
            needed[mine] = np.minimum(needed[mine], _needed(pictures, int(k), centres[mine], look))
    seen = needed[..., None] <= LOG_ODDS
    own = _log_peak(pictures, owner[:, None])[..., None] + LOG_ODDS > -base[:, None, None] + DOMINATED
    share = (seen & own).sum(axis=0) / np.maximum(own.sum(axis=0), 1)  # where it would be a mode of its own
    return SearchPower(
        widths=tuple(WIDTHS.tolist()),
        log_odds=tuple(LOG_ODDS.tolist()),
        found=tuple(tuple(round(float(p), 4) for p in row) for row in share),
        probes=sum(len(look.energy) for look in looks),
        dim=pictures.dim,
    )


def _log_peak(pictures: Pictures, mode: np.ndarray | int) -> np.ndarray:
    """Return the log of the density at the centre of needles of all WIDTHS with as much mass as all modes together.

    They are shaped like the modes ``mode``.
    """
    return pictures.log_total - pictures.log_width[mode] - pictures.dim * np.log(WIDTHS)


def _needed(pictures: Pictures, mode: int, centres: np.ndarray, look: Look) -> np.ndarray:
    """Return the log odds of the mass that needles must have to be seen, (centre, width); inf if none will do."""
    found = np.full((len(centres), len(WIDTHS)), np.inf)
    if not len(look.energy):
        return found
    far = pictures.squared_distance(mode, centres, look.position)
    peak, base = _log_peak(pictures, mode), look.energy.astype(np.float32)
    for j, width in enumerate(WIDTHS):
        best = np.argmin(far * np.float32(0.5 / width**2) - base, axis=1)  # where the needle exceeds the rest most
        square = far[np.arange(len(far)), best, None]
        energy = square / (2 * width**2) - peak[j] - LOG_ODDS
        dominates = -energy > -look.energy[best, None] + DOMINATED
        strange = pictures.strange(mode, energy, square / width**4)
        seen = dominates & (strange > look.bar[np.searchsorted(look.edges, energy)])
        found[:, j] = np.where(seen.any(axis=1), LOG_ODDS[seen.argmax(axis=1)], np.inf)
    return found
