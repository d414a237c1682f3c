"""A stage of a run: a loop of moves that can be shown, recorded and interrupted between chunks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Key

from sahmc._support.hosts import agreed
from sahmc.checkpoint.journal import Journal, StageProgress
from sahmc.engine.devices import ONE, Devices
from sahmc.engine.interrupts import Interrupts
from sahmc.engine.loop import FIRST_CHUNK, LONG_FIRST_CHUNK, SNAPSHOTS, Chunk, chunks
from sahmc.engine.move import NEVER, Draw, MoveSums, RunState, Schedule, Setup, draw_structure
from sahmc.progress.progress import Progress
from sahmc.results.records import Counts, ThetaTrace


class StageResult(NamedTuple):
    """The outcome of a whole stage."""

    state: RunState
    """The state of the run at the end of the stage."""
    draws: Draw | None
    """The stored draws, arrays (draw, chain, ...)."""
    visits: np.ndarray
    """The visits to each region."""
    counts: Counts
    """Sums over the moves of the stage."""
    trace: ThetaTrace | None
    """theta and round trips at some moments, if recorded."""
    interrupted: bool
    """Whether Ctrl-C ended the stage early."""
    so_far: StageProgress
    """The stage's progress, from which it may go on."""


@dataclass
class StageRunner:
    """The runner of stages: what stages share, where they are recorded, and where progress is reported."""

    rng_key: Key[Array, ""]
    """The key of the run, from which each move's key is derived."""
    capacity: int
    """The number of draws that a chunk has room for."""
    report: Callable[[Progress], None]
    """The function that receives the progress of a stage."""
    journal: Journal
    """The journal in which the run is recorded."""
    progress_per_move: float = 1.0
    """The planned moves that one move counts for on the progress bar: if moves are longer, fewer are made."""
    pace: int = FIRST_CHUNK
    """The number of moves in the first chunk of the next stage."""
    devices: Devices = ONE
    """The devices over which chains are split."""
    presses: Interrupts = field(default_factory=Interrupts)
    """The presses of Ctrl-C."""

    def run(
        self,
        name: str,
        state: RunState,
        setup: Setup,
        schedule: Schedule,
        draws: int,
        *,
        store: bool,
        trace: bool = False,
        before: StageResult | None = None,
        deadline: float = math.inf,
    ) -> StageResult:
        """Run the stage ``name`` until each chain has made ``draws`` draws, and return its outcome.

        ``store`` says whether draws are kept, and ``trace`` whether theta is recorded at some moments. Ctrl-C ends a
        stage that has stored draws, and those are returned; so does a ``KeyboardInterrupt`` raised by ``report``, and
        the ``deadline``, a time of ``time.monotonic``. ``before`` is the outcome of the same stage if draws are to be
        added to it.
        """
        if before is None:
            begun = _at_the_start(state, setup, name == "draw", trace)
            prior, depth = state.sahmc.chains.base is not None, setup.kernel.max_tree_depth > 0
            structure = draw_structure(setup.keep, prior, depth)
            so_far = self.journal.begin(name, begun, structure, draws if store else 0)
            self._tell(name, so_far, so_far.moves, MoveSums(so_far.counts, so_far.mechanical_acceptance))
        else:
            so_far = self.journal.reopen(before.so_far, before.draws, draws)
        every = max(1, -(-draws * schedule.thin // SNAPSHOTS)) if trace else NEVER
        interrupted = False
        try:
            for chunk in chunks(
                self.rng_key,
                so_far.state,
                setup,
                schedule,
                draws,
                self.capacity,
                done=so_far.moves,
                every=every,
                pace=self.pace,
                store=store,
                devices=self.devices,
                presses=self.presses,
            ):
                self.pace = min(chunk.pace, LONG_FIRST_CHUNK)
                so_far = _after(so_far, chunk, every)
                self.journal.add(so_far, chunk.draws)
                self._tell(name, so_far, chunk.moves, chunk.sums)
                if so_far.rows and deadline < math.inf and agreed(time.monotonic() > deadline):
                    break
            self.presses.ended |= self.presses.heed()[1]
        except KeyboardInterrupt:
            self.presses.ended = True
            if not self.journal.so_far.rows:
                raise
            interrupted = self.journal.so_far.rows < draws
        finally:
            self.journal.end()
        done = self.journal.so_far
        return StageResult(done.state, self.journal.draws(), done.visits, done.counts, done.trace, interrupted, done)

    def _tell(self, name: str, so_far: StageProgress, moves: int, recent: MoveSums) -> None:
        """Report the stage's progress after ``moves`` more moves; ``recent`` holds the sums over these."""
        if moves:
            seen = so_far.visits.reshape(-1, so_far.visits.shape[-1]).sum(0) > 0
            with self.presses.noted():
                self.report(
                    Progress(
                        stage=name,
                        advance=moves * self.progress_per_move,
                        acceptance_rate=float(recent.mechanical_acceptance) / max(1, recent.counts.trajectories),
                        num_diverging=so_far.counts.diverging,
                        regions=len(seen),
                        regions_seen=int(seen.sum()),
                        round_trips=int(np.asarray(so_far.state.trips.trips).sum()),
                    )
                )


def _at_the_start(state: RunState, setup: Setup, drawing: bool, trace: bool) -> StageProgress:
    """Return the progress of a stage before its first move; ``drawing`` says whether draws are to be made."""
    now = state.t_key, state.sahmc.theta.theta, setup.desired, state.trips.trips, drawing
    return StageProgress(
        moves=0,
        state=state,
        visits=np.zeros(state.sahmc.theta.visits.shape, np.int64),
        counts=Counts(*(0 for _ in Counts._fields)),
        mechanical_acceptance=0.0,
        rows=0,
        trace=ThetaTrace(*(np.asarray(part)[None] for part in now)) if trace else None,
    )


def _after(so_far: StageProgress, chunk: Chunk, every: int) -> StageProgress:
    """Return the progress of a stage after a chunk is added; ``every`` is the number of moves between snapshots."""
    trace = so_far.trace
    return StageProgress(
        moves=so_far.moves + chunk.moves,
        state=chunk.state,
        visits=so_far.visits + chunk.visits,
        counts=Counts(*(a + b for a, b in zip(so_far.counts, chunk.sums.counts, strict=True))),
        mechanical_acceptance=so_far.mechanical_acceptance + float(chunk.sums.mechanical_acceptance),
        rows=so_far.rows + (0 if chunk.draws is None else len(chunk.draws.energy)),
        trace=None if trace is None else _extended(trace, so_far.moves, chunk, every),
    )


def _extended(trace: ThetaTrace, before: int, chunk: Chunk, every: int) -> ThetaTrace:
    """Return the trace extended by the snapshots of a chunk, one after every ``every`` moves.

    The stage had made ``before`` moves when the chunk began.
    """
    num = len(chunk.snapshots.trips)
    first = int(trace.moves[0]) + every * (before // every + 1)
    moves = first + every * np.arange(num, dtype=trace.moves.dtype)
    desired, drawing = (np.repeat(part[:1], num, axis=0) for part in (trace.desired, trace.drawing))
    theta, trips = (np.asarray(part) for part in chunk.snapshots)
    return ThetaTrace.join(trace, ThetaTrace(moves, theta, desired, trips, drawing))
