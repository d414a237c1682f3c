"""One pass of a run, from the warm-up to the modes in its draws, and the result made from it."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Key

from sahmc._support.platform import placed
from sahmc._support.traced import TracedFunction
from sahmc._version import __version__
from sahmc.checkpoint.journal import DiskJournal, Goal, Journal
from sahmc.engine.devices import Devices
from sahmc.engine.glimpses import places
from sahmc.engine.interrupts import Interrupts
from sahmc.engine.limits import FEWEST_DRAWS, Limits
from sahmc.engine.live import Live
from sahmc.engine.loop import chunk_capacity
from sahmc.engine.move import Draw, Schedule
from sahmc.engine.plan import Plan
from sahmc.engine.stage import StageResult, StageRunner
from sahmc.engine.start import Prepared, start_chains
from sahmc.models.model import Labels
from sahmc.models.positions import Unpacker
from sahmc.progress.display import progress
from sahmc.progress.progress import Progress
from sahmc.results.findings.density import check_improper, check_rounding, check_symmetry
from sahmc.results.findings.examine import NOT_EXAMINED, errors_first, examine, failure, guarded
from sahmc.results.findings.listing import ERROR
from sahmc.results.findings.modes import missed_modes
from sahmc.results.records import DrawRecord, Finding, RunRecord, ThetaRecord, ThetaTrace
from sahmc.results.result import Result
from sahmc.symmetry.known import as_data
from sahmc.symmetry.maps import Symmetry
from sahmc.tilt.bridge import bridge_to_reference
from sahmc.tilt.importance import log_normalise
from sahmc.tilt.tilts import TemperedTilt, Tilt
from sahmc.warmup.reference import Beside
from sahmc.warmup.tempered import WarmupContext
from sahmc.warmup.warm_start import warm_start
from sahmc.warmup.warmup import WarmedUp, warm_up

CHECKED = 4
"""The number of starts at which the effect of a symmetry on the variables is examined."""
LEAST_SHARE = 1e-3
"""The minimum share of the adaptation moves for a region to count as visited."""


class Outcome(NamedTuple):
    """The outcome of a pass."""

    record: RunRecord
    """The record, not yet examined."""
    live: Live
    """The live parts of the run: draws in memory, and the model and kernel that move them."""
    presses: Interrupts
    """The presses of Ctrl-C: an examination that one cuts short is left out, and becomes a finding."""
    drawn: StageResult
    """The stage that made the draws, which can be extended."""
    warm: WarmedUp
    """The outcome of the preceding warm-up."""
    spent: int
    """The number of gradients spent on the starts and on an earlier pass."""
    looked: int
    """The number of gradients spent on searching for modes in the draws."""
    number: int
    """The number of the pass, 0 or 1."""
    pace: float
    """The seconds per draw in the last round."""
    looking: float
    """The seconds spent on analysing the draws."""
    failed: tuple[Finding, ...] = ()
    """Findings on parts of the analysis that failed."""

    @property
    def missed(self) -> np.ndarray:
        """The lowest points (mode, dim) of modes that only the draws have shown, and whose mass is unknown."""
        try:
            return missed_modes(self.record)
        except Exception:  # reported when the run is examined
            return np.empty((0, self.live.finder.scale.size))

    def may_go_on(self) -> bool:
        """Tell whether the run may continue: nobody asked it to end. All processes must call this at the same point."""
        return not (self.record.settings["interrupted"] or self.presses.ended or self.presses.heed()[1])

    def with_failure(self, what: str, error: Exception) -> Outcome:
        """Return this outcome with a finding that ``what`` failed."""
        return self._replace(failed=(*self.failed, failure(f"{what} ended in an error", error)))

    def result(self, further: Callable[..., Result], *more: Finding) -> Result:
        """Return the result with its findings and ``more``; ``further`` makes more draws."""
        findings: tuple[Finding, ...] = (NOT_EXAMINED,)
        if not self.presses.pressed:
            whole = self.live.has_positions
            findings = (*self.failed, *guarded("The run", lambda: self._examined(whole)))
            if whole and any(finding.severity == ERROR for finding in findings):
                findings = (*guarded("Its rounding", self._rounding), *findings)
            findings = errors_first(*guarded("The symmetry of its draws", self._symmetry), *findings)
            if whole:
                findings = errors_first(*guarded("How its density falls off", self._endless), *findings)
        record = dataclasses.replace(self.record, findings=(*findings, *more))
        return Result(record, dataclasses.replace(self.live, further=further))

    def _examined(self, whole: bool) -> Iterable[Finding]:
        """Return the findings on the run; ``whole`` says that positions were kept as they are."""
        return examine(self.record, self.live.structured_positions() if whole else self.record.draws.values, whole)

    def _rounding(self) -> Iterable[Finding]:
        """Return the findings on rounding errors in the log density."""
        seen, dim = self.record.modes, self.live.finder.scale.size
        minima = np.zeros((0, dim)) if seen is None else seen.minimum
        return check_rounding(*self.live.rounding(minima), self.record.labels)

    def _endless(self) -> Iterable[Finding]:
        """Return the finding on a density whose integral is infinite."""
        return check_improper(self.live.endless(self.record.labels))

    def _symmetry(self) -> Iterable[Finding]:
        """Return the findings on copies of draws, which must have equal energy."""
        return check_symmetry(*self.live.asymmetry(self.record.draws.log_weight), self.warm.refuted)


@dataclass(frozen=True)
class Run:
    """A run that is ready to begin."""

    ready: Prepared
    """The plan, the energy and the starts."""
    unpack: Unpacker
    """The function that turns positions into variables."""
    kept: TracedFunction | None
    """The function whose value is kept instead of a draw."""
    labels: Labels
    """The labels of the variables."""
    save_warmup: bool
    """Whether to keep draws of the adaptation."""
    journal: Journal
    """The journal in which the run is recorded."""
    presses: Interrupts
    """The presses of Ctrl-C."""
    bars: bool
    """Whether to show progress bars."""
    callback: Callable[[Progress], None] | None
    """The function that receives the progress."""
    seed: object
    """The seed, as recorded."""
    where: Devices
    """The devices on which chains move."""
    request: str
    """The requested draws, precision and limits, as text."""

    def once(self, rng_key: Key[Array, ""], limits: Limits, before: Outcome | None = None) -> Outcome:
        """Warm up, draw, and search for modes in the draws.

        ``before`` is an earlier pass whose draws showed modes that its warm-up had missed; this pass knows them.
        """
        ready, began = self.ready, time.perf_counter()
        number = 0 if before is None else 1
        if before is not None:  # what an earlier run knew was not enough
            ready = ready._replace(plan=dataclasses.replace(ready.plan, earlier=None))
        draws = ready.plan.draws if before is None else before.drawn.so_far.rows
        goal = self.journal.asked[number] if len(self.journal.asked) > number else Goal(0)
        settled = goal.draws > 0 and (limits.are_none or goal.request == self.request)  # before it was stopped
        draws = goal.draws if settled else max(goal.draws, draws)
        stages = {**ready.plan.stages, "draw": draws * ready.plan.moves_per_draw}
        with progress(stages, self.bars, self.callback) as report:
            state, minima, spent = start_chains(ready)
            capacity = chunk_capacity(*ready.positions.shape)
            runner = StageRunner(rng_key, capacity, report, self.journal, devices=self.where, presses=self.presses)
            context = WarmupContext(runner, ready.energy_fn, ready.plan)
            if ready.plan.earlier is not None:
                warm = warm_start(context, state, ready.plan.earlier, self.save_warmup)
            else:
                shown = minima if before is None else np.concatenate([before.missed, minima])
                warm = warm_up(context, state, self.save_warmup, shown)
            warm = warm._replace(setup=dataclasses.replace(warm.setup, keep=self.kept))
            spent += 0 if before is None else before.record.num_gradients
            if settled:
                drawn, pace = self._draw(warm, draws, limits)
            else:
                drawn, pace = self._first_round(warm, number, draws, goal, spent, limits)
        seconds = self.journal.seconds + time.perf_counter() - began
        if before is not None:
            seconds += before.record.settings["sampling_time"] - self.journal.seconds
            warm = warm._replace(record=dataclasses.replace(warm.record, late=len(before.missed)))
        return self._outcome(drawn, pace, warm, spent, seconds, goal.looked, number)

    def again(self, rng_key: Key[Array, ""], limits: Limits, before: Outcome) -> Outcome:
        """Make another pass that knows the modes found by ``before``; Ctrl-C during it returns ``before``."""
        self.presses.free()
        try:
            return self.once(rng_key, limits, before)
        except KeyboardInterrupt:
            self.presses.pressed, self.presses.ended = False, True
            return before

    @property
    def is_kept(self) -> bool:
        """Whether errors may be raised: a folder holds the draws, or other processes must learn of the error."""
        return isinstance(self.journal, DiskJournal) or jax.process_count() > 1

    def note_complete(self, outcome: Outcome) -> None:
        """Note that a pass is complete with the draws it has."""
        try:
            self.journal.aim(outcome.number, outcome.drawn.so_far.rows)
        except OSError as error:
            if jax.process_count() > 1:
                raise
            warnings.warn(f"that the run is complete could not be noted ({error}); its draws are here", stacklevel=7)

    def go_on(self, before: Outcome, draws: int, limits: Limits) -> Outcome:
        """Return the outcome of the same pass with more draws, ``draws`` in all."""
        began, rows = time.perf_counter(), before.drawn.so_far.rows
        self.journal.ask(before.number, Goal(draws, self.request, before.looked))
        left = {"draw": (draws - rows) * self.ready.plan.moves_per_draw}
        with progress(left, self.bars, self.callback) as report:
            warm = before.warm._replace(
                runner=dataclasses.replace(
                    before.warm.runner, report=report, journal=self.journal, presses=self.presses
                )
            )
            drawn, pace = self._draw(warm, draws, limits, before.drawn)
        seconds = before.record.settings["sampling_time"] + time.perf_counter() - began
        return self._outcome(drawn, pace, warm, before.spent, seconds, before.looked, before.number)

    def _first_round(
        self, warm: WarmedUp, number: int, draws: int, last: Goal, spent: int, limits: Limits
    ) -> tuple[StageResult, float]:
        """Make the ``draws`` of pass ``number``, or as many as the remaining gradients allow, but at least a few.

        The cost of a draw is known only once some are made, so half are made first if gradients are scarce. ``last`` is
        the goal of the pass before it was stopped. ``spent`` gradients were spent before the warm-up.
        """
        warmup, each = _costs(self.ready.plan, warm)
        goal = limits.affordable(draws, warmup + spent, each)
        scarce = goal < draws
        goal = max(last.draws, min(draws, FEWEST_DRAWS), goal // 2 if scarce else goal)
        self.journal.ask(number, Goal(goal, looked=last.looked))
        drawn, pace = self._draw(warm, goal, limits)
        # A round always goes to its own end, even across processes, so that a resumed run gives the same draws.
        while scarce and drawn.so_far.rows == goal and not self.presses.ended:
            more = limits.affordable(draws, warmup + spent, drawn.counts.gradients / goal)
            if more <= goal:
                break
            goal = more
            self.journal.ask(number, Goal(goal, looked=last.looked))
            drawn, pace = self._draw(warm, goal, limits, drawn)
        return drawn, pace

    def _draw(
        self, warm: WarmedUp, draws: int, limits: Limits, before: StageResult | None = None
    ) -> tuple[StageResult, float]:
        """Make draws until each chain has ``draws`` of them or time is up; return them and the pace.

        ``before`` holds the existing draws. The pace is the number of seconds per new draw.
        """
        self.presses.hold()
        began = time.perf_counter()
        drawn = warm.runner.run(
            "draw",
            warm.state,
            warm.setup,
            _drawing(self.ready.plan, warm),
            draws,
            store=True,
            trace=True,
            before=before,
            deadline=limits.deadline,
        )
        self.presses.pressed = False
        new = drawn.so_far.rows - (0 if before is None else before.so_far.rows)
        return drawn, (time.perf_counter() - began) / max(1, new)

    def _outcome(
        self,
        drawn: StageResult,
        pace: float,
        warm: WarmedUp,
        spent: int,
        seconds: float,
        looked: int,
        number: int,
    ) -> Outcome:
        """Return the outcome of pass ``number``.

        ``pace`` is that of the last round. ``spent`` is the number of gradients spent on the starts and on an earlier
        pass, ``looked`` that of searches for modes in the draws.
        """
        assert drawn.draws is not None
        began = time.perf_counter()
        state, setup = drawn.state, warm.setup
        made, failed = self._made(drawn, warm)
        whole = setup.keep is None and not failed
        positions = jax.tree.map(lambda x: np.swapaxes(x, 0, 1), drawn.draws.position)
        step = np.exp(np.asarray(state.steps.log_step))
        vectors = positions if whole else None
        live = Live(
            setup,
            placed(step),
            warm.finder,
            warm.modes,
            self.unpack,
            vectors,
            warm,
            predictor=self.ready.predictor,
            glimpses=places(state.glimpses),
        )
        warmup = dataclasses.replace(warm.record, gradients={**warm.record.gradients, "start": spent})
        record = RunRecord(
            draws=made[0],
            learnt=ThetaRecord(
                theta=np.array(state.sahmc.theta.theta),
                visits=drawn.visits,
                desired=np.array(setup.desired),
                step_size=np.asarray(setup.kernel.step_size) * step,
                trace=ThetaTrace.join(warm.trace, drawn.trace),
            ),
            counts=drawn.counts,
            round_trips=np.array(state.trips.trips),
            num_gradients=sum(warmup.gradients.values()) + drawn.counts.gradients + looked,
            warmup=warmup,
            tilt=setup.tilt,
            settings=self._settings(warm, drawn, seconds, whole),
            labels=self.labels if whole else Labels(),
            prior_mass=warm.prior_mass,
            warmup_draws=made[1],
        )
        try:
            if warm.beside is not None and whole and self.ready.plan.adapt == "tune":
                record = dataclasses.replace(record, bridge=_bridge(record, warm.beside, positions))
        except Exception as error:
            failed = (*failed, failure("The evidence by bridges could not be examined", error))
        try:
            if int(live.modes.num) and whole and not self.presses.pressed:
                modes, now = live.find_modes(record.draws)
                record = dataclasses.replace(record, modes=modes, num_gradients=record.num_gradients + now)
                looked += now
        except Exception as error:
            failed = (*failed, failure("The modes of the draws could not be examined", error))
        looking = time.perf_counter() - began
        return Outcome(record, live, self.presses, drawn, warm, spent, looked, number, pace, looking, failed)

    def _made(
        self, drawn: StageResult, warm: WarmedUp
    ) -> tuple[tuple[DrawRecord, DrawRecord | None], tuple[Finding, ...]]:
        """Return the records of draws and warm-up draws, and a finding if they hold bare positions.

        They hold bare positions if the model fails to compute its variables from them: the draws must not be lost.
        """

        def records(unpack: Unpacker | None) -> tuple[DrawRecord, DrawRecord | None]:
            assert drawn.draws is not None
            made = draw_record(drawn.draws, unpack if self.kept is None else None, normalise=True)
            return made, None if warm.draws is None else draw_record(warm.draws, unpack, normalise=False)

        try:
            return records(self.unpack), ()
        except Exception as error:
            return records(None), (failure("The variables could not be made of the positions", error),)

    def _settings(self, warm: WarmedUp, drawn: StageResult, seconds: float, whole: bool) -> dict[str, object]:
        """Return the arguments of the run, the values it used, and versions, in a form that JSON can hold.

        ``whole`` says that the variables of the model were kept.
        """
        plan, gain = self.ready.plan, warm.setup.gain
        names = ("tune", "chains", "thin", "target_accept", "theta", "adapt")
        known: tuple[Symmetry, ...] = ()
        if warm.symmetries is not None and whole:
            known = warm.symmetries.of_variables(self.unpack, np.asarray(self.ready.positions)[:CHECKED])
        return {
            "random_seed": self.seed,
            "kernel": plan.kernel.name,
            "tilt": warm.setup.tilt.name,
            "prior": plan.has_prior,
            "draws": self.journal.asked[-1].draws if drawn.interrupted else drawn.so_far.rows,
            **{name: getattr(plan, name) for name in names},
            "jumps": plan.jumps,
            "reference": warm.record.reference is not None,
            "symmetries": as_data(known),
            "warm_start": plan.earlier is not None,
            "gain": [float(gain.t0), float(gain.power)],
            "interrupted": drawn.interrupted,
            "sampling_time": seconds,
            "versions": {"sahmc": __version__, "jax": jax.__version__, "numpy": np.__version__},
        }


def _costs(plan: Plan, warm: WarmedUp) -> tuple[int, float]:
    """Return the gradients spent on the warm-up, and the expected cost of one draw of all chains."""
    spent = warm.record.gradients
    moves = max(1, plan.stages["adapt"])  # as planned: with longer trajectories fewer moves are made
    return sum(spent.values()), spent["adapt"] / moves * plan.moves_per_draw


def _drawing(plan: Plan, warm: WarmedUp) -> Schedule:
    """Return the schedule of the last stage, which makes the draws."""
    bottom, top = _ends(warm.setup.tilt, warm.visits)
    learn = plan.adapt == "always" and warm.setup.tilt.num_regions > 1
    return Schedule(learn_theta=learn, thin=plan.thin * warm.setup.kernel.moves, bottom=bottom, top=top)


def _ends(tilt: Tilt, visits: np.ndarray) -> tuple[int, int]:
    """Return the regions at the ends of a round trip: the ends of a ladder, or the lowest and highest visited.

    ``visits`` counts those to each region during the adaptation. A region where a chain merely started does not count,
    since chains may never return to it.
    """
    share = visits.reshape(-1, visits.shape[-1]).sum(axis=0) / max(1, visits.sum())
    seen = np.flatnonzero(share >= LEAST_SHARE)
    if isinstance(tilt, TemperedTilt) or not seen.size:
        return 0, tilt.num_regions - 1
    return int(seen[0]), int(seen[-1])


def draw_record(draws: Draw, unpack: Unpacker | None, normalise: bool) -> DrawRecord:
    """Return draws (draw, chain, ...) as a record (chain, draw, ...); positions on disk stay there.

    ``unpack`` turns positions into variables; it is None if ``keep`` has replaced them. ``normalise`` makes the weights
    sum to 1.
    """
    position = jax.tree.map(lambda x: np.swapaxes(x, 0, 1), draws.position)
    rest = jax.tree.map(lambda x: np.ascontiguousarray(np.swapaxes(x, 0, 1)), draws._replace(position=None))
    leaves, structure = jax.tree.flatten(position if unpack is None else unpack.all(position))
    return DrawRecord(
        leaves=tuple(leaves),
        structure=structure,
        energy=rest.energy,
        log_density=-rest.total_energy,
        region=rest.region,
        log_weight=log_normalise(rest.log_weight) if normalise else rest.log_weight,
        acceptance_rate=rest.acceptance_rate,
        diverging=rest.diverging,
        tree_depth=rest.tree_depth,
    )


def _bridge(record: RunRecord, beside: Beside, positions: np.ndarray) -> tuple[float, float]:
    """Return the log integral of the density and its error, by a bridge to the reference ``beside`` the ladder.

    ``positions`` are the draws as vectors, (chain, draw, dim).
    """
    low = -np.asarray(record.draws.log_density, float) - beside.reference.energies(positions)
    found = bridge_to_reference(low, record.weight, beside.high)
    return float(found.mean), float(found.mcse)
