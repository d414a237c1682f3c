"""The modes of a posterior as a table: mass, position, energy, and the number of chains that saw each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from sahmc._support.tables import Table, number, shortened, to_places_of
from sahmc._support.types import Position
from sahmc._support.words import WIDTH, counted
from sahmc.models.positions import labels, named
from sahmc.results.records import ModeAssignment, RunRecord
from sahmc.results.relabelling import relabelled, relabelled_beside
from sahmc.results.variables import VarNames, choose_variables
from sahmc.results.within_modes import mode_moments, with_mass
from sahmc.tilt.importance import weighted_mean

if TYPE_CHECKING:
    import pandas as pd

SHOWN_ROWS, SHOWN_QUANTITIES, HEADING = 40, 8, 24
"""The maximum numbers of printed modes, of printed quantities, and of characters in the name of a quantity."""
SHOWN_REST = 1e-3
"""The minimum mass of the rest (all draws in no mode) for which it has a row."""


class Mode(NamedTuple):
    """A mode of the posterior: one basin of its energy."""

    mass: float
    """Its posterior probability."""
    mcse: float
    """The Monte Carlo standard error of the mass."""
    mean: Position
    """The posterior mean within it, in the structure of a position."""
    sd: Position
    """The posterior standard deviation within it, in the same structure."""
    energy: float
    """The lowest U = -log density found in it."""
    chains: int
    """The number of chains with draws in it at beta = 1."""
    label: int
    """Its label: the index of its row, and the value of ``Result.mode_assignment.label`` for its draws.

    It is -1 in the last row, the rest: draws that belong to no mode. That row is left out if its mass is negligible.
    """
    copies: int = 1
    """The number of its symmetric copies, itself included. All other fields refer to all copies together."""
    minimum: Position | None = None
    """The point at which ``energy`` was found, in the structure of a position; None for the rest."""

    @property
    def name(self) -> str:
        """The label as text, or "rest"."""
        return "rest" if self.label < 0 else str(self.label)


class ModeTable(tuple[Mode, ...]):
    """The modes, heaviest first: a tuple that prints as a table.

    The last row may be the rest, draws that belong to no mode: its ``label`` is -1. Masses, including the rest, sum to
    1, apart from modes of negligible mass that are left out.
    """

    names: list[str]
    """The names of the quantities in a mean, with coords if the model has any."""
    shown: list[int]
    """The indices of the printed quantities; those in which modes differ most come first."""
    left_out: int
    """The number of modes without a row."""

    def __new__(
        cls, modes: Iterable[Mode] = (), names: Sequence[str] = (), shown: Sequence[int] = (), left_out: int = 0
    ) -> ModeTable:
        """Return the table of ``modes``; the other arguments are the attributes of the same name."""
        table = super().__new__(cls, modes)
        table.names, table.shown, table.left_out = list(names), list(shown), left_out
        return table

    def _masses(self) -> Table:
        """Return the table of mass, energy and chains of each mode."""
        copied = any(mode.copies > 1 for mode in self)
        rows = [
            [f"{mode.mass:.4f}", f"{mode.mcse:.4f}", f"{mode.energy:z.2f}", str(mode.chains)]
            + ([f"{mode.copies:,}"] if copied else [])
            for mode in self[:SHOWN_ROWS]
        ]
        columns = ["mass", "±", "energy", "chains", *(["copies"] if copied else [])]
        return Table("mode", columns, [mode.name for mode in self[:SHOWN_ROWS]], rows)

    def _places(self, width: int | None) -> Table:
        """Return the table of mode positions, with at least one quantity and no more than fit a line of ``width``.

        None means no limit, and names in full.
        """
        modes = self[:SHOWN_ROWS]
        parts = [(_flat(m.mean), _flat(m.sd), None if m.minimum is None else _flat(m.minimum)) for m in modes]
        table = Table("mode", [], [mode.name for mode in modes], [[] for _ in modes])
        headings = shortened([self.names[i] for i in self.shown], HEADING) if width else None
        for k, i in enumerate(islice(self.shown, SHOWN_QUANTITIES)):
            cells = [_place(mean[i], sd[i], None if low is None else low[i]) for mean, sd, low in parts]
            heading = self.names[i] if headings is None else headings[k]
            rows = [[*row, cell] for row, cell in zip(table.rows, cells, strict=True)]
            wider = Table("mode", [*table.columns, heading], table.names, rows)
            if width and table.columns and wider.width > width:
                break
            table = wider
        return table

    def _notes(self, places: Table) -> tuple[str, str, str]:
        """Return the notes on missing rows, on the table of positions, and on missing columns."""
        more = [f"... and {len(self) - SHOWN_ROWS} more, in to_dataframe()"] if len(self) > SHOWN_ROWS else []
        if self.left_out:
            verb = "is" if self.left_out == 1 else "are"
            more.append(f"{counted(self.left_out, 'mode')} of hardly any mass {verb} left out")
        many, rest = len(self) > 1, len(self.names) - len(places.columns)
        what = "mean ± sd" + (" (lowest point)" if self[0].minimum is not None else "")
        what += ", first where modes differ most" if many and len(self.shown) > 1 else ""
        return "\n".join(more), what, f"... and {rest} more, in to_dataframe()" if rest else ""

    def __str__(self) -> str:
        if not self:
            return "no modes"
        places = self._places(WIDTH)
        above, what, below = self._notes(places)
        parts = [str(self._masses()), above, f"\n{what}", str(places), below]
        return "\n".join(part for part in parts if part)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        places = self._places(None)
        above, what, below = (f"<p>{text}</p>" if text else "" for text in self._notes(places))
        return self._masses().to_html() + above + what + places.to_html() + below

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a row for each mode.

        Each quantity has three columns: its mean, under its own name, its standard deviation (``_sd``) and its value at
        the lowest point (``_minimum``). They follow mass, energy and so on. The ``label`` of the rest, if present, is
        -1.
        """
        import pandas as pd

        rows = []
        for mode in self:
            row: dict[str, float] = {
                k: getattr(mode, k) for k in ("label", "mass", "mcse", "energy", "chains", "copies")
            }
            for ending, part in (("", mode.mean), ("_sd", mode.sd), ("_minimum", mode.minimum)):
                values = [np.nan] * len(self.names) if part is None else _flat(part)
                row.update({name + ending: x for name, x in zip(self.names, values, strict=True)})
            rows.append(row)
        return pd.DataFrame(rows)


def _flat(tree: Position) -> list[float]:
    """Return all numbers of a mean as a flat list."""
    return [float(x) for leaf in jax.tree.leaves(tree) for x in np.ravel(leaf)]


def _place(mean: float, sd: float, minimum: float | None) -> str:
    """Return a cell such as "0.315 ± 0.021 (0.312)"."""
    if minimum is None:
        return f"{to_places_of(sd, mean)[0]} ± {number(sd, 2)}"
    middle, lowest = to_places_of(sd, mean, minimum)
    return f"{middle} ± {number(sd, 2)} ({lowest})"


def mode_table(record: RunRecord, assigned: ModeAssignment, var_names: VarNames = None) -> ModeTable:
    """Return the modes to which draws were ``assigned``, heaviest first.

    Modes of negligible mass, at the end, are left out. Draws in no mode form the last row, if they have mass.
    ``var_names`` selects the variables to print.
    """
    weight, num = record.weight, len(assigned.energy)
    label = np.where(assigned.label < 0, num, assigned.label)
    if assigned.lowest is None:
        values, lowest = relabelled(record), None
    else:
        values, lowest = relabelled_beside(record, assigned.lowest)
    moments = mode_moments(values, assigned.label, weight, num)
    cold = record.cold
    chains = np.append(assigned.chains(cold), int((cold & (label == num)).any(axis=1).sum()))
    energy = np.append(assigned.energy, np.min(-record.draws.log_density, where=label == num, initial=np.inf))
    doubt = np.append(np.zeros(num) if assigned.doubt is None else assigned.doubt, 0.0)

    def one(k: int) -> Mode:
        mean, sd = (_structured(record, part[k]) for part in (moments.mean, moments.sd))
        error = float(np.hypot(weighted_mean((label == k).astype(float), weight).mcse, doubt[k]))
        copies = 1 if assigned.copies is None or k == num else int(assigned.copies[k])
        minimum = None
        if lowest is not None and k < num:
            minimum = jax.tree.unflatten(record.draws.structure, [leaf[k] for leaf in lowest])
        mass, number_of = float(moments.mass[k]), k if k < num else -1
        return Mode(mass, error, mean, sd, float(energy[k]), int(chains[k]), number_of, copies, minimum)

    shown = int(np.flatnonzero(with_mass(moments.mass[:num])).max(initial=-1)) + 1
    rows = [*range(shown), *([num] if moments.mass[num] > SHOWN_REST else [])]
    chosen = choose_variables(named(record.draws.values), var_names)
    owner = [name for name, leaf in named(record.draws.values).items() for _ in range(leaf[0, 0].size)]
    order = [int(i) for i in moments.most_different() if owner[i] in chosen]
    if shown < 2:
        order.sort(key=lambda i: list(chosen).index(owner[i]))
    return ModeTable(map(one, rows), labels(record.draws.values, 2, record.labels), order, num - shown)


def _structured(record: RunRecord, flat: np.ndarray) -> Position:
    """Return flat numbers in the structure of a draw."""
    shapes = [leaf.shape[2:] for leaf in record.draws.leaves]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    parts = [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)]
    return jax.tree.unflatten(record.draws.structure, parts)
