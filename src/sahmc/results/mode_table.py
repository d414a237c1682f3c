"""The modes of a posterior as a table: mass, place, energy, and the chains that saw each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from sahmc._support.tables import Table, number
from sahmc.models.positions import labels
from sahmc.results.records import ModeAssignment, RunRecord
from sahmc.tilt.importance import BLOCK_BYTES, weighted_mean

SHOWN_COORDINATES = 6
"""The number of coordinates of a mean that are printed."""


class Mode(NamedTuple):
    """A mode of the posterior: one basin of its energy."""

    mass: float
    """Its posterior probability."""
    mcse: float
    """The Monte Carlo standard error of the mass."""
    mean: Any
    """The mean of the posterior within it, in the structure of a position."""
    sd: Any
    """The standard deviation of the posterior within it, in the same structure."""
    energy: float
    """The lowest U = -log density found in it."""
    chains: int
    """The number of chains that were there, by draws made at beta = 1."""
    label: int
    """The number that ``Result.mode_assignment.label`` has where a draw belongs to it."""


class ModeTable(tuple[Mode, ...]):
    """The modes, heaviest first: a tuple that prints as a table."""

    __slots__ = ()

    def _table(self) -> Table:
        names, rows = ["mass", "±", "energy", "chains", "mean"], []
        for mode in self:
            place = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(mode.mean)])
            more = ", …" if len(place) > SHOWN_COORDINATES else ""
            where = "(" + ", ".join(number(x) for x in place[:SHOWN_COORDINATES]) + more + ")"
            rows.append([f"{mode.mass:.4f}", f"{mode.mcse:.4f}", f"{mode.energy:.2f}", str(mode.chains), where])
        return Table("", names, [str(k) for k in range(len(rows))], rows)

    def __str__(self) -> str:
        return str(self._table())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self._table().to_html()

    def to_dataframe(self) -> Any:
        """Return a pandas DataFrame with a row for each mode, the mean of each coordinate in a column."""
        import pandas as pd

        rows = []
        for mode in self:
            row: dict[str, Any] = {k: getattr(mode, k) for k in ("mass", "mcse", "energy", "chains")}
            values = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(mode.mean)])
            row.update(zip(labels(mode.mean), map(float, values), strict=True))
            rows.append(row)
        return pd.DataFrame(rows)


def mode_table(record: RunRecord, assigned: ModeAssignment) -> ModeTable:
    """Return the modes to which draws were ``assigned``, heaviest first; those without any mass are left out."""
    weight, label = record.weight, assigned.label
    chains, mass = assigned.chains(record.draws.region == 0), assigned.mass(weight)
    kept = [int(k) for k in np.argsort(-mass, kind="stable") if mass[k] > 0]
    moments = [_moments(leaf, label, weight, len(mass)) for leaf in record.draws.leaves]

    def one(k: int) -> Mode:
        parts = ([moment[i][k] for moment in moments] for i in range(2))
        mean, sd = (jax.tree.unflatten(record.draws.structure, part) for part in parts)
        error = float(weighted_mean((label == k).astype(float), weight).mcse)
        return Mode(float(mass[k]), error, mean, sd, float(assigned.energy[k]), int(chains[k]), k)

    return ModeTable(one(k) for k in kept)


def _moments(leaf: np.ndarray, label: np.ndarray, weight: np.ndarray, num: int) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of values (chain, draw, ...) within each of ``num`` modes.

    ``label`` is the mode of each draw. Values are read in blocks, to spare memory.
    """
    shape = leaf.shape[2:]
    values = leaf.reshape(*leaf.shape[:2], -1)
    step = max(1, BLOCK_BYTES // (8 * values[:, 0].size))

    def average(of: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        total, mass = np.zeros((num, values.shape[2])), np.zeros((num, 1))
        for first in range(0, values.shape[1], step):
            part = slice(first, first + step)
            at = label[:, part].ravel()
            share = np.where(at == np.arange(num)[:, None], weight[:, part].ravel(), 0.0)
            known = np.where(weight[:, part, None] > 0, values[:, part].astype(float), 0.0)  # no weight, no say
            total += share @ of(known.reshape(-1, values.shape[2]), at)
            mass += share.sum(axis=1, keepdims=True)
        return total / np.where(mass > 0, mass, 1.0)

    mean = average(lambda x, at: x)
    sd = np.sqrt(average(lambda x, at: (x - mean[at]) ** 2))
    return mean.reshape(num, *shape), sd.reshape(num, *shape)
