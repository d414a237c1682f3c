"""A stage of a run: a loop of moves that is shown, written down and interrupted between chunks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from sahmc.results.records import Counts, ThetaTrace
from sahmc.run.journal import Journal, StageProgress
from sahmc.run.loop import NEVER, SNAPSHOTS, Chunk, Draw, RunState, Schedule, Setup, chunks, draw_structure
from sahmc.run.progress import Progress


class StageResult(NamedTuple):
    """What a whole stage has led to."""

    state: RunState
    draws: Draw | None
    """The draws that were stored, arrays (draw, chain, ...)."""
    visits: np.ndarray
    counts: Counts
    trace: ThetaTrace | None
    interrupted: bool
    """Whether Ctrl-C ended it early."""


@dataclass(frozen=True)
class StageRunner:
    """Runs stages: what they have in common, where they are written down, and whom to tell how far they are."""

    rng_key: Key[Array, ""]
    capacity: int
    """Draws for which a chunk has room."""
    report: Callable[[Progress], None]
    journal: Journal
    progress_per_move: float = 1.0
    """What a move counts on the progress bar, which is of the moves that were planned: longer ones are fewer."""

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
    ) -> StageResult:
        """Make ``draws``, ``store`` them or not, and ``trace`` theta or not.

        Ctrl-C while draws are stored ends the stage with those there are.
        """
        begun = StageProgress(
            moves=0,
            state=state,
            visits=np.zeros(state.sahmc.theta.visits.shape, np.int64),
            counts=Counts(*(0 for _ in Counts._fields)),
            rows=0,
            trace=_trace_at(state, setup.desired, name == "draw") if trace else None,
        )
        so_far = self.journal.begin(name, begun, draw_structure(setup, state))
        self._tell(name, so_far, so_far.moves, so_far.counts)
        every = max(1, -(-draws * schedule.thin // SNAPSHOTS)) if trace else NEVER
        interrupted = False
        try:
            for chunk in chunks(self.rng_key, so_far.state, setup, schedule, draws, self.capacity, so_far.moves, every):
                so_far = _after(so_far, chunk, store, every)
                self.journal.add(so_far, chunk.draws if store else None)
                self._tell(name, so_far, chunk.moves, chunk.counts)
        except KeyboardInterrupt:
            if not self.journal.so_far.rows:
                raise
            interrupted = True
        finally:
            self.journal.end()
        done = self.journal.so_far
        return StageResult(done.state, self.journal.draws(), done.visits, done.counts, done.trace, interrupted)

    def _tell(self, name: str, so_far: StageProgress, moves: int, recent: Counts) -> None:
        if moves:
            seen = so_far.visits.reshape(-1, so_far.visits.shape[-1]).sum(0) > 0
            self.report(
                Progress(
                    stage=name,
                    advance=moves * self.progress_per_move,
                    acceptance_rate=recent.mechanical_acceptance / max(1, recent.trajectories),
                    num_diverging=so_far.counts.diverging,
                    regions=len(seen),
                    regions_seen=int(seen.sum()),
                    round_trips=int(jnp.sum(so_far.state.trips.trips)),
                )
            )


def _after(so_far: StageProgress, chunk: Chunk, store: bool, every: int) -> StageProgress:
    """Return what a stage has done once a chunk is added."""
    trace = so_far.trace
    return StageProgress(
        moves=so_far.moves + chunk.moves,
        state=chunk.state,
        visits=so_far.visits + chunk.visits,
        counts=Counts(*(a + b for a, b in zip(so_far.counts, chunk.counts, strict=True))),
        rows=so_far.rows + (len(chunk.draws.energy) if store else 0),
        trace=None if trace is None else _extended(trace, so_far.moves, chunk, every),
    )


def _trace_at(state: RunState, desired: Any, drawing: bool) -> ThetaTrace:
    """Return a trace of one moment, now."""
    parts = (state.t_key, state.sahmc.theta.theta, desired, state.trips.trips, drawing)
    return ThetaTrace(*(np.asarray(part)[None] for part in parts))


def _extended(trace: ThetaTrace, before: int, chunk: Chunk, every: int) -> ThetaTrace:
    """Return the trace with the snapshots of a chunk; the stage had made ``before`` moves."""
    num = len(chunk.snapshots.trips)
    first = int(trace.moves[0]) + every * (before // every + 1)
    moves = first + every * np.arange(num, dtype=trace.moves.dtype)
    desired, drawing = (np.repeat(part[:1], num, axis=0) for part in (trace.desired, trace.drawing))
    theta, trips = (np.asarray(part) for part in chunk.snapshots)
    return ThetaTrace.join(trace, ThetaTrace(moves, theta, desired, trips, drawing))
