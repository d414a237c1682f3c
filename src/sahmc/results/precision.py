"""The target precision of a run, and its shortfalls."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from sahmc._support.validate import is_number, require
from sahmc.models.positions import labels, named
from sahmc.results.evidence import ESTIMATORS, estimated
from sahmc.results.records import RunRecord
from sahmc.results.relabelling import relabelled
from sahmc.tilt.importance import by_columns, weighted_ess, weighted_mean

LEAST_MASS = 0.001
"""The minimum mass of a mode, and of all others together, for the precision of its mass to matter."""


class Shortfall(NamedTuple):
    """A quantity that has not yet reached its target precision."""

    what: str
    """The description of the quantity."""
    value: float
    """Its standard error, or its effective sample size."""
    asked: float
    """The target for ``value``."""
    factor: float
    """The estimated factor by which the number of draws must grow; not finite if no number would be enough."""

    def __str__(self) -> str:
        return f"{self.what} is {self.value:.3g}, {self.asked:.3g} was asked for"


@dataclass(frozen=True)
class Precision:
    """The precision at which a run may stop: ``sample(..., until=Precision(ess=400))``.

    ``mass`` is the maximum standard error of the mass of a mode. ``ess`` is the minimum effective sample size of a
    variable. ``log_evidence`` is the maximum standard error of the log evidence. All that you give must hold.
    """

    mass: float | None = None
    ess: float | int | None = None
    log_evidence: float | None = None

    def __post_init__(self) -> None:
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in given.items():
            ok = value is None or (is_number(value) and value > 0)
            require(ok, f"{name} must be a positive number", value, "pass a number, or leave it out")
        some = any(value is not None for value in given.values())
        require(some, "a Precision asks for something", "nothing", "pass mass=0.01, ess=400 or log_evidence=0.1")

    def shortfalls(self, record: RunRecord) -> list[Shortfall]:
        """Return the shortfalls of a run, the worst of each kind."""
        return [
            *(self._of_masses(record) if self.mass is not None else ()),
            *(self._of_variables(record) if self.ess is not None else ()),
            *(self._of_evidence(record) if self.log_evidence is not None else ()),
        ]

    def _of_masses(self, record: RunRecord) -> Iterator[Shortfall]:
        """Yield the mode with the largest standard error of its mass, if that is too large."""
        assert self.mass is not None
        seen, weight = record.modes, record.weight
        if seen is None:
            yield Shortfall("the standard error of the masses of modes, which this run does not look for,", math.nan,
                            self.mass, math.inf)  # fmt: skip
            return
        mass = seen.mass(weight)
        doubt = np.zeros(len(mass)) if seen.doubt is None else seen.doubt
        errors = {
            f"the standard error of the mass of mode {k}": float(
                np.hypot(weighted_mean((seen.label == k).astype(float), weight).mcse, doubt[k])
            )
            for k in np.flatnonzero((mass > LEAST_MASS) & (mass < 1 - LEAST_MASS))
        }
        worst = max(errors, key=errors.__getitem__, default=None)
        if worst is not None and not errors[worst] <= self.mass:
            yield Shortfall(worst, errors[worst], self.mass, (errors[worst] / self.mass) ** 2)

    def _of_variables(self, record: RunRecord) -> Iterator[Shortfall]:
        """Yield the variable with the smallest effective sample size, if that is too small."""
        assert self.ess is not None
        weight = record.weight

        def measure(columns: np.ndarray) -> tuple[np.ndarray]:
            still = (columns == columns[:1, :1]).all(axis=(0, 1))
            return (np.where(still, np.inf, weighted_ess(columns, weight)),)

        names, sizes = [], []
        for name, leaf in named(relabelled(record)).items():
            names += labels({name: leaf}, lead=2)
            sizes.append(np.ravel(by_columns(measure, leaf)[0]))
        ess = np.concatenate(sizes)
        worst = int(np.argmin(np.where(np.isnan(ess), -1.0, ess)))
        if not ess[worst] >= self.ess:
            what = f"the effective sample size of {names[worst]}"
            yield Shortfall(what, float(ess[worst]), float(self.ess), float(self.ess / max(ess[worst], 1e-9)))

    def _of_evidence(self, record: RunRecord) -> Iterator[Shortfall]:
        """Yield the log evidence, if its standard error is too large."""
        assert self.log_evidence is not None
        error = float(estimated(record, next(iter(ESTIMATORS))).mcse)
        if not error <= self.log_evidence:
            fixed = 0.0 if record.prior_mass is None else record.prior_mass[1]  # draws cannot reduce it
            able = fixed < self.log_evidence
            factor = (error**2 - fixed**2) / (self.log_evidence**2 - fixed**2) if able else math.inf
            yield Shortfall("the standard error of the log evidence", error, self.log_evidence, factor)
