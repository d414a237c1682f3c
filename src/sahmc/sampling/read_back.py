"""A complete run in a folder, read back without repeating its stages."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from sahmc.checkpoint.journal import DiskJournal, Journal
from sahmc.checkpoint.packing import pack, unpack
from sahmc.engine.live import Live
from sahmc.engine.move import draw_structure
from sahmc.models.model import Labels
from sahmc.models.positions import Unpacker
from sahmc.results.records import DrawRecord, ModeAssignment, Rejuvenated, RunRecord
from sahmc.results.result import Result
from sahmc.sampling.outcome import Outcome, Run, draw_record

APART = ("draws", "warmup_draws", "labels")
"""The parts of a record that are stored differently: draws have their own file, and labels come from the model."""


class Resting:
    """The run behind a result that was read back; it is repeated only when the result needs it."""

    def __init__(self, run: Run, wake: Callable[[], Live], further: Callable[..., Result]):
        self.has_positions, self.predictor = run.kept is None, run.ready.predictor
        self._wake, self._further = wake, further

    def extend(self, draws: int, progressbar: bool) -> Result:
        """Return the result of the same run with ``draws`` more draws of each chain."""
        return self._further(draws, progressbar)

    @cached_property
    def _live(self) -> Live:
        """Return the run itself."""
        return self._wake()

    def assign_modes(self, draws: DrawRecord) -> ModeAssignment:
        """Return the modes in the draws, for a run that did not search for any."""
        return self._live.assign_modes(draws)

    def rejuvenate(self, index: tuple[np.ndarray, ...], moves: int, seed: int) -> Rejuvenated:
        """Return some draws after ``moves`` plain kernel moves each; see ``Live.rejuvenate``."""
        return self._live.rejuvenate(index, moves, seed)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._live, name)


def keep_result(outcome: Outcome, journal: Journal, asked: Mapping[str, object], record: RunRecord) -> None:
    """Store the record of a complete run in its folder, if it has one, for ``read_back``.

    ``asked`` holds the requests to the run that its journal does not know, in a form that JSON can hold.
    """
    waiting = len(outcome.missed) and not record.warmup.late  # for another pass, which was cut short
    cut = record.settings["interrupted"] or outcome.presses.pressed or outcome.presses.ended
    bare = outcome.warm.setup.keep is None and not outcome.live.has_positions  # positions, not variables
    if waiting or cut or bare or not isinstance(journal, DiskJournal):
        return
    before = record.warmup_draws
    about = {
        "asked": asked,
        "stage": journal.stage,
        "prior": journal.so_far.state.sahmc.chains.base is not None,
        "depth": record.draws.tree_depth is not None,
        "record": {name: value for name, value in vars(record).items() if name not in APART},
        "warmup_draws": None if before is None else {**vars(before), "structure": None},
    }
    try:
        journal.write_result(pack(about))
    except TypeError:  # such as a user's own tilt: the run is then repeated
        return
    except Exception as error:
        again = "the draws are in its folder, and it is gone through again if it is asked for"
        warnings.warn(f"the result of the run could not be stored ({error}); {again}", stacklevel=6)


def read_back(
    run: Run, asked: Mapping[str, object], wake: Callable[[], Live], further: Callable[..., Result]
) -> Result | None:
    """Return the result of a complete run; None if it is incomplete, damaged, or more is requested now.

    ``asked`` is the current request. ``wake`` repeats the run, which is done only if something needs the run itself.
    ``further`` extends it, given its number of draws.
    """
    content = run.journal.read_result()
    try:
        record = None if content is None else _record(run, asked, unpack(content))
    except Exception:  # such as a changed file layout: the run is then repeated
        record = None
    if record is None:
        return None
    return Result(record, Resting(run, wake, partial(further, record.draws.energy.shape[1])))


def _record(run: Run, asked: Mapping[str, object], about: Mapping[str, Any]) -> RunRecord | None:
    """Return the record of a run from its draws and the stored ``about``; None if the draws are missing."""
    if about["asked"] != asked:
        return None
    draws = run.journal.drawn(about["stage"], draw_structure(run.kept, about["prior"], about["depth"]))
    if draws is None:
        return None
    whole, before = run.kept is None, about["warmup_draws"]
    if before is not None:
        before = DrawRecord(**{**before, "structure": _variables(run.unpack, run.ready.positions[0])})
    return RunRecord(
        **about["record"],
        draws=draw_record(draws, run.unpack if whole else None, normalise=True),
        warmup_draws=before,
        labels=run.labels if whole else Labels(),
    )


def _variables(unpacker: Unpacker, example: jax.Array) -> PyTreeDef:
    """Return the pytree structure of the variables that a vector stands for."""
    return jax.tree.structure(jax.eval_shape(unpacker, example))
