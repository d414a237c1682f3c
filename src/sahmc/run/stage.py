"""A stage of a run: a loop of moves that can be shown, recorded and interrupted between chunks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float, Key

from sahmc.results.records import Counts, ThetaTrace
from sahmc.run.devices import ONE, Devices
from sahmc.run.hosts import agreed
from sahmc.run.interrupts import Interrupts
from sahmc.run.journal import Journal, StageProgress
from sahmc.run.loop import FIRST_CHUNK, LONG_FIRST_CHUNK, SNAPSHOTS, Chunk, chunks
from sahmc.run.move import NEVER, Draw, MoveSums, RunState, Schedule, Setup, draw_structure
from sahmc.run.progress import Progress


class StageResult(NamedTuple):
    """The outcome of a whole stage."""

    state: RunState
    """The state of the run at its end."""
    draws: Draw | None
    """The draws that were stored, arrays (draw, chain, ...)."""
    visits: np.ndarray
    """The visits to each region."""
    counts: Counts
    """Sums over its moves."""
    trace: ThetaTrace | None
    """theta and round trips at some moments, if they were recorded."""
    interrupted: bool
    """Whether Ctrl-C ended it early."""
    so_far: StageProgress
    """What it has done, from which it may go on."""


@dataclass
class StageRunner:
    """The runner of stages: what they have in common, where they are recorded, and who is told how far they are."""

    rng_key: Key[Array, ""]
    """The key of the run, from which that of each move is made."""
    capacity: int
    """The number of draws for which a chunk has room."""
    report: Callable[[Progress], None]
    """The function that is told how far a stage is."""
    journal: Journal
    """The journal in which the run is recorded."""
    progress_per_move: float = 1.0
    """The planned moves for which a move counts on the progress bar: longer moves are fewer than planned."""
    pace: int = FIRST_CHUNK
    """The number of moves with which the next stage begins."""
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
        """Run the stage ``name`` until each chain has made ``draws`` draws, and return what it led to.

        ``store`` tells whether draws are kept, and ``trace`` whether theta is recorded at some moments. Ctrl-C, or
        ``KeyboardInterrupt`` raised by who is told of the progress, ends a stage that has stored draws with those, and
        so does the ``deadline``, a time by ``time.monotonic``. ``before`` is the same stage, to which draws are added.
        """
        if before is None:
            begun = _at_the_start(state, setup, name == "draw", trace)
            so_far = self.journal.begin(name, begun, draw_structure(setup, state), draws if store else 0)
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
        """Report how far the stage is, after ``moves`` more moves over which ``recent`` are the sums."""
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
    """Return the progress of a stage that has not made a move."""
    return StageProgress(
        moves=0,
        state=state,
        visits=np.zeros(state.sahmc.theta.visits.shape, np.int64),
        counts=Counts(*(0 for _ in Counts._fields)),
        mechanical_acceptance=0.0,
        rows=0,
        trace=_trace_at(state, setup.desired, drawing) if trace else None,
    )


def _after(so_far: StageProgress, chunk: Chunk, every: int) -> StageProgress:
    """Return what a stage has done once a chunk is added; ``every`` is the number of moves between snapshots."""
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


def _trace_at(state: RunState, desired: Float[Array, " regions"], drawing: bool) -> ThetaTrace:
    """Return a trace of one moment, now; ``drawing`` tells whether draws are being made."""
    parts = (state.t_key, state.sahmc.theta.theta, desired, state.trips.trips, drawing)
    return ThetaTrace(*(np.asarray(part)[None] for part in parts))


def _extended(trace: ThetaTrace, before: int, chunk: Chunk, every: int) -> ThetaTrace:
    """Return the trace with the snapshots of a chunk, one after each ``every`` moves.

    The stage had made ``before`` moves when the chunk began.
    """
    num = len(chunk.snapshots.trips)
    first = int(trace.moves[0]) + every * (before // every + 1)
    moves = first + every * np.arange(num, dtype=trace.moves.dtype)
    desired, drawing = (np.repeat(part[:1], num, axis=0) for part in (trace.desired, trace.drawing))
    theta, trips = (np.asarray(part) for part in chunk.snapshots)
    return ThetaTrace.join(trace, ThetaTrace(moves, theta, desired, trips, drawing))
