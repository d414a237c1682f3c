"""The distance between the levels of a ladder, estimated from their draws."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from sahmc._support.validate import require
from sahmc.results.records import RunRecord
from sahmc.tilt.partition import TemperatureLadder

PAIRS = 4000
"""The number of pairs of draws from which the rejection between two levels is estimated."""


def rejections(record: RunRecord) -> np.ndarray:
    """Return the rejection probability of a swap between chains on neighbouring levels, for each pair of levels.

    It is 1 - E[min(1, exp((beta_i - beta_j) (E_i - E_j)))]. If levels are close, the sum over the ladder is the barrier
    Lambda of Syed et al. (2022). A level without draws gives nan.
    """
    partition = record.partition
    require(
        isinstance(partition, TemperatureLadder),
        "rejections between levels need a ladder of temperatures",
        type(record.tilt).__name__,
        'sample with tilt="tempered", the default',
    )
    assert isinstance(partition, TemperatureLadder)
    betas, energy = np.asarray(partition.betas, float), np.asarray(record.draws.energy, float)
    at = [energy[record.draws.region == level] for level in range(len(betas))]
    rng = np.random.default_rng(0)
    found = np.full(len(betas) - 1, np.nan)
    for i, (lower, upper) in enumerate(pairwise(at)):
        if lower.size and upper.size:
            gain = (betas[i] - betas[i + 1]) * (rng.choice(lower, PAIRS) - rng.choice(upper, PAIRS))
            found[i] = 1 - np.exp(np.minimum(gain, 0.0)).mean()
    return found
