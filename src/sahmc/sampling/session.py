"""A session: one call of ``sample`` or ``resume``, from its arguments to the result and to what may follow it."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import numpy as np
from jaxtyping import Array, Key

from sahmc._support.forked import require_not_forked
from sahmc._support.hosts import agreed
from sahmc._support.program_cache import keep_programs
from sahmc._support.validate import Given, require, require_flag, require_function
from sahmc.checkpoint.folder import open_journal, recorded, stored_arguments
from sahmc.checkpoint.journal import Goal, Journal, asked_in
from sahmc.engine.devices import Devices, parse_devices
from sahmc.engine.identity import identity
from sahmc.engine.interrupts import Interrupts, interrupts
from sahmc.engine.limits import Limits, make_limits
from sahmc.engine.live import Live
from sahmc.engine.memory import MANY, numbers_of, require_memory
from sahmc.engine.plan import Plan, make_plan
from sahmc.engine.settings import Settings
from sahmc.engine.start import Prepared, parse_seed
from sahmc.engine.symmetries import check_symmetries, with_symmetries
from sahmc.models.convert import as_model, model_in_context
from sahmc.models.energy import trace_keep
from sahmc.models.model import Model
from sahmc.models.positions import Unpacker
from sahmc.models.starts import starting_positions
from sahmc.progress.progress import Progress
from sahmc.results.precision import Precision
from sahmc.results.result import Result
from sahmc.sampling.earlier import Earlier, as_earlier, prepare_from, with_earlier
from sahmc.sampling.outcome import Outcome, Run
from sahmc.sampling.read_back import keep_result, read_back
from sahmc.sampling.rounds import draw_in_rounds


@dataclass(frozen=True)
class Request:
    """What a call asks for. A run in a folder keeps it, so that the call can be repeated."""

    model: object
    """The model, as the user gave it."""
    initvals: object
    """The starts, as the user gave them, or the parts of an earlier run."""
    settings: Settings
    """How to draw."""
    model_args: tuple[object, ...] = ()
    """The positional arguments of the model."""
    model_kwargs: Mapping[str, object] | None = None
    """The keyword arguments of the model."""
    until: Precision | None = None
    """The target precision; None if the number of draws is fixed."""
    max_time: float | int | None = None
    """The time limit of the call in seconds."""
    max_gradients: float | int | None = None
    """The maximum number of gradients."""

    @classmethod
    def stored(cls, checkpoint: str | Path, draws: int | np.integer | None) -> tuple[Request, object]:
        """Return the request of the run in a folder, and its seed; with ``draws``, this number and no limits.

        A run that was extended since makes as many draws as were asked for last.
        """
        stored = stored_arguments(checkpoint)
        seed = stored.pop("random_seed")
        names = [field.name for field in dataclasses.fields(Settings)]
        settings = Settings(**{name: stored.pop(name) for name in names})
        request = cls(settings=settings, **stored)
        asked = asked_in(Path(checkpoint))
        if draws is None and asked and request.until is None and request.limits().are_none:
            draws = max(asked[-1].draws, settings.draws)
        if draws is not None:
            settings = dataclasses.replace(settings, draws=draws)
            request = dataclasses.replace(request, settings=settings, until=None, max_time=None, max_gradients=None)
        return request, seed

    @property
    def arguments(self) -> dict[str, object]:
        """The request as arguments of ``sample``."""
        own = dict(vars(self))
        settings = own.pop("settings")
        return {**own, **vars(settings)}

    def limits(self) -> Limits:
        """Check what ends the run, and return its limits, which start now."""
        limits = make_limits(self.max_time, self.max_gradients)
        ok = self.until is None or isinstance(self.until, Precision)
        require(ok, "until must be a Precision", self.until, "pass sahmc.Precision(ess=400), say")
        return limits


@dataclass(frozen=True)
class Session:
    """A run that is ready, with its limits: it is read back, made, repeated or extended."""

    run: Run
    """The run."""
    rng_key: Key[Array, ""]
    """The key of all its random numbers but those of the starts."""
    until: Precision | None
    """The target precision; None if the number of draws is fixed."""
    limits: Limits
    """The time and the gradients it may take."""
    checkpoint: str | Path | None
    """The folder in which it is recorded."""
    opened: Callable[[], Journal]
    """The function that opens its journal once more."""

    def result(self) -> Result:
        """Read the result back if the folder holds it, or else make it."""
        result = read_back(self.run, self._asked(), self._repeated, self._resumed)
        if result is None:
            outcome, more = draw_in_rounds(self.run, self.rng_key, self.limits, self.until)
            result = outcome.result(partial(self._extended, outcome), *more)
            keep_result(outcome, self.run.journal, self._asked(), result.record)  # which has changed
        return result

    def _asked(self) -> dict[str, object]:
        """Return what the run was asked for beyond its identity, in a form that JSON can hold."""
        most = [repr(self.limits.max_time), repr(self.limits.max_gradients)]
        return {"draws": [list(goal) for goal in self.run.journal.asked], "until": repr(self.until), "limits": most}

    def _repeated(self) -> Live:
        """Return the final state of a complete run, from its journal."""
        with jax.default_device(self.run.where.first), closing(self.opened()) as journal:
            run = dataclasses.replace(self.run, journal=journal, presses=Interrupts(), bars=False, callback=None)
            return draw_in_rounds(run, self.rng_key, Limits(), None)[0].live

    def _resumed(self, before: int, draws: int, progressbar: bool) -> Result:
        """Return the result of a run in a folder after ``draws`` more draws of each chain; it had ``before``."""
        assert self.checkpoint is not None
        request, seed = Request.stored(self.checkpoint, before + draws)
        return warned(make(request, seed, checkpoint=self.checkpoint, progressbar=progressbar))

    def _extended(self, before: Outcome, draws: int, progressbar: bool) -> Result:
        """Return the result of a run with ``draws`` more draws of each chain than it had ``before``."""
        rows = before.drawn.so_far.rows
        if self.checkpoint is not None:
            return self._resumed(rows, draws, progressbar)
        presses = Interrupts()
        run = dataclasses.replace(self.run, journal=Journal(), presses=presses, bars=progressbar, callback=None)
        run.journal.asked = (Goal(rows + draws),) * (before.number + 1)
        with jax.default_device(run.where.first), interrupts(presses):
            outcome = run.go_on(before._replace(presses=presses), rows + draws, Limits())
            if outcome.number == 0 and outcome.may_go_on() and len(outcome.missed):
                outcome = run.again(jax.random.fold_in(self.rng_key, 1), Limits(), outcome)
            longer = dataclasses.replace(self, run=run)
            result = outcome.result(partial(longer._extended, outcome))
        return warned(result)


def make(
    request: Request,
    random_seed: object,
    *,
    checkpoint: str | Path | None = None,
    devices: object = None,
    check: Given = None,
    progressbar: bool = True,
    callback: Callable[[Progress], None] | None = None,
) -> Result:
    """Return the result of a request; the other arguments are those of ``sample``."""
    require_not_forked()
    keep_programs()
    require_flag(progressbar, "progressbar")
    require_function(callback, "callback", "a Progress")
    limits, settings = request.limits(), request.settings
    request = dataclasses.replace(request, model=model_in_context(request.model))
    model = as_model(request.model, request.model_args, request.model_kwargs)
    plan = make_plan(model, settings)
    require_flag(settings.save_warmup, "save_warmup")
    check_symmetries(settings.symmetries)
    where = parse_devices(devices, check, plan.chains)
    require_function(settings.keep, "keep", "a position")
    known = None if checkpoint is None else recorded(checkpoint)
    seed, rng_key = parse_seed(agreed(known["seed"] if known is not None and random_seed is None else random_seed))
    presses = Interrupts()
    with jax.default_device(where.first), interrupts(presses):
        key_start, key_run = jax.random.split(rng_key)
        initvals = as_earlier(request.initvals, plan.chains, key_start)
        ready = _prepared(model, plan, settings, initvals, where, key_start)
        unpack = Unpacker.of(model, ready.unravel, ready.example)
        kept = None if settings.keep is None else trace_keep(settings.keep, unpack, ready.example)
        (_, dim), itemsize = ready.positions.shape, ready.positions.itemsize
        size = None if kept is None else numbers_of(kept, ready.example)
        require_memory(plan, dim, itemsize, where, checkpoint is not None, size)
        call = dataclasses.replace(request, initvals=initvals).arguments
        about = partial(identity, ready, seed, kept, settings.save_warmup)
        opened = partial(open_journal, checkpoint, about, seed, call)
        with closing(opened()) as journal:
            if request.until is None and limits.are_none:
                journal.ask_for(plan.draws)
            words = f"{plan.draws} draws, {request.until}, {request.max_time} s, {request.max_gradients} gradients"
            run = Run(
                ready, unpack, kept, model.labels, settings.save_warmup, journal, presses, progressbar, callback, seed,
                where, words,
            )  # fmt: skip
            result = Session(run, key_run, request.until, limits, checkpoint, opened).result()
    if request.until is None and limits.are_none:
        _tell_of_more(result, plan.draws, checkpoint)
    return result


def _prepared(
    model: Model, plan: Plan, settings: Settings, initvals: object, where: Devices, rng_key: Key[Array, ""]
) -> Prepared:
    """Find the starts of the chains, the symmetries and what an earlier run knows."""
    if plan.chains > MANY and not isinstance(initvals, (list, Earlier)):  # before their starts are made
        one = starting_positions(model, initvals, 1, rng_key)[0]
        require_memory(plan, one.size, one.itemsize, where, True, None)
    ready = with_symmetries(model, prepare_from(model, plan, initvals, rng_key), settings.symmetries)
    return with_earlier(ready, initvals)


def _tell_of_more(result: Result, draws: int, checkpoint: str | Path | None) -> None:
    """Give a warning if an extended run holds more draws than requested now."""
    rows = result.record.draws.energy.shape[1]
    if rows > draws:
        has = f"the run in {checkpoint} has {rows:,} draws of each chain already"
        warnings.warn(f"{has}, and all of them are returned, not {draws:,}", stacklevel=5)


def warned(result: Result) -> Result:
    """Return a result, after a warning that lists its findings, if any."""
    if result.findings:
        lines = "\n".join(f"  - {finding}" for finding in result.findings)
        warnings.warn(f"sahmc found problems with this run (Result.findings):\n{lines}", stacklevel=4)
    return result
