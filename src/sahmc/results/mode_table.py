"""The modes of a posterior as a table: mass, place, energy, and the chains that saw each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from sahmc._support.tables import Table, number
from sahmc.models.positions import labels
from sahmc.results.records import ModeAssignment, RunRecord
from sahmc.results.relabelling import relabelled
from sahmc.tilt.importance import BLOCK_BYTES, weighted_mean

SHOWN_COORDINATES = 6
"""The number of coordinates of a mean that are printed."""
SHOWN_MASS, SHOWN_REST = 1e-5, 1e-3
"""The least mass of a mode that has a row, and that of the rest, all draws of no mode together."""


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
    """Its number: that of its row, and of ``Result.mode_assignment.label`` where a draw belongs to it.

    It is -1 in the last row, the rest, of draws that belong to no mode; there is none if they hold hardly any mass.
    """
    copies: int = 1
    """The number of copies of it, itself among them, that symmetries make. All the other numbers are of all of them."""

    @property
    def name(self) -> str:
        """The number as text, or "rest"."""
        return "rest" if self.label < 0 else str(self.label)


class ModeTable(tuple[Mode, ...]):
    """The modes, heaviest first: a tuple that prints as a table.

    The last row may be the rest, draws that belong to no mode: its ``label`` is -1. Masses then sum to 1 with it.
    """

    __slots__ = ()

    def _table(self) -> Table:
        copied = any(mode.copies > 1 for mode in self)
        names, rows = ["mass", "±", "energy", "chains", *(["copies"] if copied else []), "mean"], []
        for mode in self:
            place = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(mode.mean)])
            more = ", …" if len(place) > SHOWN_COORDINATES else ""
            where = "(" + ", ".join(number(x) for x in place[:SHOWN_COORDINATES]) + more + ")"
            numbers = [f"{mode.mass:.4f}", f"{mode.mcse:.4f}", f"{mode.energy:.2f}", str(mode.chains)]
            rows.append([*numbers, *([f"{mode.copies:,}"] if copied else []), where])
        return Table("", names, [mode.name for mode in self], rows)

    def __str__(self) -> str:
        return str(self._table())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self._table().to_html()

    def to_dataframe(self) -> Any:
        """Return a pandas DataFrame with a row for each mode, the mean of each coordinate in a column.

        The ``label`` of the rest, if there is one, is -1.
        """
        import pandas as pd

        rows = []
        for mode in self:
            row: dict[str, Any] = {k: getattr(mode, k) for k in ("label", "mass", "mcse", "energy", "chains", "copies")}
            values = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(mode.mean)])
            row.update(zip(labels(mode.mean), map(float, values), strict=True))
            rows.append(row)
        return pd.DataFrame(rows)


def mode_table(record: RunRecord, assigned: ModeAssignment) -> ModeTable:
    """Return the modes to which draws were ``assigned``, in their order, heaviest first.

    Those with hardly any mass, at the end, are left out. Draws of no mode are the last row, if they have mass.
    """
    weight, num = record.weight, len(assigned.energy)
    label = np.where(assigned.label < 0, num, assigned.label)
    mass = np.bincount(label.ravel(), weight.ravel(), num + 1)
    moments = [_moments(leaf, label, weight, num + 1) for leaf in jax.tree.leaves(relabelled(record))]
    cold = record.cold
    strayed = int((cold & (label == num)).any(axis=1).sum())
    chains = np.append(assigned.chains(cold), strayed)
    energy = np.append(assigned.energy, np.min(-record.draws.log_density, where=label == num, initial=np.inf))
    doubt = np.append(np.zeros(num) if assigned.doubt is None else assigned.doubt, 0.0)

    def one(k: int) -> Mode:
        parts = ([moment[i][k] for moment in moments] for i in range(2))
        mean, sd = (jax.tree.unflatten(record.draws.structure, part) for part in parts)
        error = float(np.hypot(weighted_mean((label == k).astype(float), weight).mcse, doubt[k]))
        copies = 1 if assigned.copies is None or k == num else int(assigned.copies[k])
        return Mode(float(mass[k]), error, mean, sd, float(energy[k]), int(chains[k]), k if k < num else -1, copies)

    shown = np.flatnonzero(mass[:num] > SHOWN_MASS).max(initial=-1) + 1
    return ModeTable(one(k) for k in [*range(shown), *([num] if mass[num] > SHOWN_REST else [])])


def _moments(leaf: np.ndarray, label: np.ndarray, weight: np.ndarray, num: int) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of values (chain, draw, ...) within each of ``num`` modes.

    ``label`` is the mode of each draw. Values are read in blocks, to spare memory.
    """
    from scipy.sparse import csr_array

    shape = leaf.shape[2:]
    values = leaf.reshape(*leaf.shape[:2], -1)
    step = max(1, BLOCK_BYTES // (8 * values[:, 0].size))

    def average(of: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        total, mass = np.zeros((num, values.shape[2])), np.zeros((num, 1))
        for first in range(0, values.shape[1], step):
            part = slice(first, first + step)
            at, share = label[:, part].ravel(), weight[:, part].ravel()
            shares = csr_array((share, (at, np.arange(len(at)))), shape=(num, len(at)))
            known = np.where(weight[:, part, None] > 0, values[:, part].astype(float), 0.0)  # no weight, no say
            total += shares @ of(known.reshape(-1, values.shape[2]), at)
            mass += np.bincount(at, share, num)[:, None]
        return total / np.where(mass > 0, mass, 1.0)

    mean = average(lambda x, at: x)
    sd = np.sqrt(average(lambda x, at: (x - mean[at]) ** 2))
    return mean.reshape(num, *shape), sd.reshape(num, *shape)
