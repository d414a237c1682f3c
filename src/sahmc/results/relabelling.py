"""The draws of a run whose modes have copies, in one copy throughout."""

from __future__ import annotations

from typing import Any

from sahmc._support.frozen import thawed
from sahmc.models.relabel import relabel
from sahmc.models.symmetries import from_data
from sahmc.models.symmetry import Flip, Involution, Parted, Permute, Symmetry
from sahmc.results.records import RunRecord


def known_symmetries(record: RunRecord) -> list[Symmetry]:
    """Return the symmetries of the variables of a run."""
    return from_data(thawed(record.settings).get("symmetries", []))


def relabelled(record: RunRecord, symmetries: Any = None) -> Any:
    """Return the draws with ``symmetries``, or those that the run knows if None, undone, in the structure of draws."""
    symmetries = known_symmetries(record) if symmetries is None else symmetries
    values = record.draws.values
    if isinstance(symmetries, (list, tuple)) and not symmetries:
        return values
    return relabel(values, record.draws.log_density, record.weight, symmetries)


def symmetries_in_words(record: RunRecord) -> str:
    """Return a sentence on the symmetries that a run knows; nothing if it knows none."""
    known = known_symmetries(record)
    if not known:
        return ""
    told = [f"parts of {_listed(one)} may change places" for one in known if isinstance(one, Permute)]
    told += [f"{_listed(one)} may change sign" for one in known if isinstance(one, Flip)]
    told += [f"{one.name} leaves the posterior as it is" for one in known if isinstance(one, Involution)]
    return f"symmetries: {'; '.join(told)}. The table is of relabelled draws, in which each part is the same throughout"


def _listed(symmetry: Parted) -> str:
    names = list(symmetry.names)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
