"""The posterior within single modes: moments of the draws of each, and a record restricted to one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from sahmc._support.types import Position
from sahmc._support.validate import require
from sahmc.results.records import RunRecord
from sahmc.tilt.importance import BLOCK_BYTES, log_normalise

LEAST_SHARE = 1e-3
"""The minimum mass of a reported mode, relative to the heaviest mode."""


def with_mass(mass: np.ndarray) -> np.ndarray:
    """Return which of the modes with these masses are heavy enough to report."""
    return mass > LEAST_SHARE * mass.max(initial=0.0)


class ModeMoments(NamedTuple):
    """The mass of each mode, and the mean and standard deviation of every quantity within it."""

    mass: np.ndarray
    """The posterior probability of each group of draws: the modes, and as the last group the draws in no mode."""
    mean: np.ndarray
    """The means, (group, quantity); the quantities are the flattened and concatenated leaves of a draw."""
    sd: np.ndarray
    """The standard deviations, of the same shape."""

    def most_different(self) -> np.ndarray:
        """Return the indices of all quantities, sorted by how much the modes differ in them, largest first.

        The measure is the variance between modes divided by that within them. Modes of negligible mass do not count.
        If only one mode counts, the order is unchanged.
        """
        mass, mean, sd = (part[:-1] for part in self)
        share = np.where(with_mass(mass), mass, 0.0)
        if (share > 0).sum() < 2:
            return np.arange(mean.shape[1])
        share /= share.sum()
        centre = share @ mean
        between, within = share @ (mean - centre) ** 2, share @ sd**2
        between = np.where(between > 1e-12 * centre**2, between, 0.0)
        apart = np.divide(between, within, out=np.where(between > 0, np.inf, 0.0), where=within > 0)
        return np.argsort(-apart, kind="stable")


def mode_moments(values: Position, label: np.ndarray, weight: np.ndarray, num: int) -> ModeMoments:
    """Return the moments of draws within each of ``num`` modes, and of draws in no mode, with ``label`` -1.

    ``values`` is a pytree of arrays (chain, draw, ...); ``label`` and ``weight`` are (chain, draw).
    """
    group = np.where(label < 0, num, label).astype(int)
    mass = np.bincount(group.ravel(), weight.ravel(), num + 1)
    parts = [_moments(leaf, group, weight, num + 1) for leaf in jax.tree.leaves(values)]
    mean, sd = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    return ModeMoments(mass, mean, sd)


def _moments(leaf: np.ndarray, group: np.ndarray, weight: np.ndarray, num: int) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of values (chain, draw, ...) within each of ``num`` groups, (group, number).

    ``group`` is the group of each draw. Values are read in blocks, to save memory.
    """
    from scipy.sparse import csr_array

    values = leaf.reshape(*leaf.shape[:2], -1)
    step = max(1, BLOCK_BYTES // (8 * max(1, values[:, 0].size)))

    def average(of: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        total, mass = np.zeros((num, values.shape[2])), np.zeros((num, 1))
        for first in range(0, values.shape[1], step):
            part = slice(first, first + step)
            at, share = group[:, part].ravel(), weight[:, part].ravel()
            shares = csr_array((share, (at, np.arange(len(at)))), shape=(num, len(at)))
            known = np.where(weight[:, part, None] > 0, values[:, part].astype(float), 0.0)  # 0 * inf is nan
            total += shares @ of(known.reshape(-1, values.shape[2]), at)
            mass += np.bincount(at, share, num)[:, None]
        return total / np.where(mass > 0, mass, 1.0)

    mean = average(lambda x, at: x)
    return mean, np.sqrt(average(lambda x, at: (x - mean[at]) ** 2))


def within_mode(record: RunRecord, mode: object) -> RunRecord:
    """Return the record of a run with the weights of the posterior within ``mode``, the label of a mode.

    Weights sum to 1 over its draws and are 0 elsewhere, so that standard errors account for moves in and out of the
    mode. Raise ``ValueError`` for a record without modes, or without any weight in this one.
    """
    must = "mode must be the label of a mode with draws"
    require(record.modes is not None, must, mode, "leave it out: this run did not look for modes")
    assert record.modes is not None
    label = record.modes.label
    known = np.unique(label[record.weight > 0]).tolist()
    listed = ", ".join(map(str, known[:20])) + (", ..." if len(known) > 20 else "")
    ok = isinstance(mode, (int, np.integer)) and not isinstance(mode, bool) and mode in known
    require(ok, f"{must}, which are {listed}", mode, "pass one of these, the label that modes() prints")
    log_weight = np.where(label == mode, record.draws.log_weight, -np.inf)
    return dataclasses.replace(record, draws=dataclasses.replace(record.draws, log_weight=log_normalise(log_weight)))
