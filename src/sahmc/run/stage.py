"""A stage of a run: a loop of moves that is shown, written down and interrupted between chunks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from sahmc.run.journal import Journal, Past
from sahmc.run.loop import MARKS, NEVER, Chunk, RunState, Schedule, Setup, Tally, chunks, draw_structure
from sahmc.run.progress import Progress


class Path(NamedTuple):
    """theta, the desired frequencies, and the round trips of each chain after ``moves`` of the run, at some moments;
    and whether draws were made then.
    """

    moves: np.ndarray
    theta: np.ndarray
    desired: np.ndarray
    trips: np.ndarray
    drawing: np.ndarray

    @classmethod
    def at(cls, state: RunState, desired: Any, drawing: bool) -> Path:
        parts = (state.t_key, state.sahmc.theta.theta, desired, state.trips.trips, drawing)
        return cls(*(np.asarray(part)[None] for part in parts))

    @classmethod
    def join(cls, *paths: Path | None) -> Path:
        return cls(*map(np.concatenate, zip(*(path for path in paths if path is not None), strict=True)))

    def extended(self, before: int, chunk: Chunk, every: int) -> Path:
        """By what was noted in a chunk; the stage had made ``before`` moves."""
        num = len(chunk.noted.trips)
        first = int(self.moves[0]) + every * (before // every + 1)
        moves = first + every * np.arange(num, dtype=self.moves.dtype)
        desired, drawing = (np.repeat(part[:1], num, axis=0) for part in (self.desired, self.drawing))
        return Path.join(self, Path(moves, chunk.noted.theta, desired, chunk.noted.trips, drawing))


class Outcome(NamedTuple):
    """A whole stage."""

    state: RunState
    draws: Any
    visits: np.ndarray
    tally: Tally
    path: Path | None
    interrupted: bool


@dataclass(frozen=True)
class Runner:
    """Runs stages: what they have in common, where they are written down, and whom to tell how far they are."""

    rng_key: Key[Array, ""]
    capacity: int
    report: Callable[[Progress], None]
    journal: Journal
    worth: float = 1.0
    """Of a move on the progress bar, which counts the moves that were planned: longer ones are fewer."""

    def stage(
        self,
        name: str,
        state: RunState,
        setup: Setup,
        schedule: Schedule,
        draws: int,
        *,
        keep: bool,
        trace: bool = False,
    ) -> Outcome:
        """Make ``draws``, and ``keep`` them or not, and ``trace`` theta or not.

        Ctrl-C while they are kept ends the stage with those there are.
        """
        visits = np.zeros(state.sahmc.theta.visits.shape, np.int64)
        fresh = Past(
            0,
            state,
            visits,
            Tally(*(0 for _ in Tally._fields)),
            0,
            Path.at(state, setup.desired, name == "draw") if trace else None,
        )
        past = self.journal.begin(name, fresh, draw_structure(setup, state))
        self._tell(name, past, past.moves, past.tally)
        every = max(1, -(-draws * schedule.thin // MARKS)) if trace else NEVER
        interrupted = False
        try:
            for chunk in chunks(self.rng_key, past.state, setup, schedule, draws, self.capacity, past.moves, every):
                past = _after(past, chunk, keep, every)
                self.journal.add(past, chunk.draws if keep else None)
                self._tell(name, past, chunk.moves, chunk.tally)
        except KeyboardInterrupt:
            if not self.journal.past.rows:
                raise
            interrupted = True
        finally:
            self.journal.end()
        past = self.journal.past
        return Outcome(past.state, self.journal.draws(), past.visits, past.tally, past.path, interrupted)

    def _tell(self, name: str, past: Past, moves: int, recent: Tally) -> None:
        if moves:
            seen = past.visits.reshape(-1, past.visits.shape[-1]).sum(0) > 0
            self.report(
                Progress(
                    stage=name,
                    advance=moves * self.worth,
                    acceptance_rate=recent.mechanical_acceptance / max(1, recent.trajectories),
                    num_diverging=past.tally.diverging,
                    regions=len(seen),
                    regions_seen=int(seen.sum()),
                    round_trips=int(jnp.sum(past.state.trips.trips)),
                )
            )


def _after(past: Past, chunk: Chunk, keep: bool, every: int) -> Past:
    return Past(
        moves=past.moves + chunk.moves,
        state=chunk.state,
        visits=past.visits + chunk.visits,
        tally=Tally(*(a + b for a, b in zip(past.tally, chunk.tally, strict=True))),
        rows=past.rows + (len(chunk.draws.energy) if keep else 0),
        path=None if past.path is None else past.path.extended(past.moves, chunk, every),
    )
