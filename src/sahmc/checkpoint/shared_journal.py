"""The journal of a run of several processes: the first process keeps it, and shares it with the others."""

from __future__ import annotations

import jax
import numpy as np
from jax.tree_util import PyTreeDef
from jaxtyping import PyTree

from sahmc._support.hosts import agreed
from sahmc.checkpoint.journal import Goal, Journal, StageProgress


class SharedJournal(Journal):
    """A journal kept on disk by the first process and in memory by the others, all at the same point of the run."""

    def __init__(self, kept: Journal):
        self._kept = kept
        self.seconds = agreed(kept.seconds)
        self.asked = agreed(kept.asked)

    def ask(self, number: int, goal: Goal) -> None:
        """Note the goal of a pass."""
        super().ask(number, goal)
        self._kept.ask(number, goal)

    def begin(self, name: str, so_far: StageProgress, structure: PyTreeDef, rows: int) -> StageProgress:
        """Begin a stage at the progress, and with the draws, that the first process has."""
        known = self._kept.begin(name, so_far, structure, rows)
        moves = agreed(known.moves)
        if moves:
            state = jax.tree.map(np.asarray, known.state)  # the other parts are not on a device
            known, draws = agreed((known._replace(state=state), self._kept.draws()))
            if jax.process_index():
                self._kept.add(known, draws)
        return known

    def reopen(self, so_far: StageProgress, draws: PyTree, rows: int) -> StageProgress:
        """Go on with the last stage, which all processes have reached."""
        return self._kept.reopen(so_far, draws, rows)

    @property
    def so_far(self) -> StageProgress:  # type: ignore[override]
        """The progress of the stage."""
        return self._kept.so_far

    def add(self, so_far: StageProgress, draws: PyTree) -> None:
        """Record the stage's new progress."""
        self._kept.add(so_far, draws)

    def end(self) -> None:
        """End the stage."""
        self._kept.end()

    def draws(self) -> PyTree:
        """Return the draws of the stage."""
        return self._kept.draws()

    def close(self) -> None:
        """Close the journal."""
        self._kept.close()
