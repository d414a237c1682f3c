"""The posterior within one mode: all draws, with zero weight for those outside it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from sahmc._support.validate import require
from sahmc.results.records import RunRecord
from sahmc.tilt.importance import log_normalise


def within_mode(record: RunRecord, mode: Any) -> RunRecord:
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
