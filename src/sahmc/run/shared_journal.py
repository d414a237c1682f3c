"""The journal of a run of several processes: the first one keeps it, and tells the others."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from sahmc.run.hosts import agreed
from sahmc.run.journal import Goal, Journal, StageProgress


class SharedJournal(Journal):
    """A journal that the first process keeps on disk, and the others in memory, all at the same point of the run."""

    def __init__(self, kept: Journal):
        self._kept = kept
        self.seconds = agreed(kept.seconds)
        self.asked = agreed(kept.asked)

    def ask(self, number: int, goal: Goal) -> None:
        """Note what a pass is to do."""
        super().ask(number, goal)
        self._kept.ask(number, goal)

    def begin(self, name: str, so_far: StageProgress, structure: PyTreeDef, rows: int) -> StageProgress:
        """Begin a stage where the first process knows it to be, with the draws that it has."""
        known = self._kept.begin(name, so_far, structure, rows)
        moves = agreed(known.moves)
        if moves:
            state = jax.tree.map(np.asarray, known.state)  # the rest is not on a device
            known, draws = agreed((known._replace(state=state), self._kept.draws()))
            if jax.process_index():
                self._kept.add(known, draws)
        return known

    def reopen(self, so_far: StageProgress, draws: Any, rows: int) -> StageProgress:
        """Go on with the last stage, at which all processes are."""
        return self._kept.reopen(so_far, draws, rows)

    @property
    def so_far(self) -> StageProgress:  # type: ignore[override]
        """What the stage has done."""
        return self._kept.so_far

    def add(self, so_far: StageProgress, draws: Any) -> None:
        """Record that the stage has gone on."""
        self._kept.add(so_far, draws)

    def end(self) -> None:
        """End the stage."""
        self._kept.end()

    def draws(self) -> Any:
        """Return the draws of the stage."""
        return self._kept.draws()

    def close(self) -> None:
        """Close the journal."""
        self._kept.close()
