"""The function ``sample``: check the arguments, warm up, draw, examine."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Array, Key

from sahmc._support.forked import require_not_forked
from sahmc._support.hints import with_hints
from sahmc._support.hosts import agreed
from sahmc._support.program_cache import keep_programs
from sahmc._support.types import PositionFn
from sahmc._support.validate import require, require_flag, require_function
from sahmc.checkpoint.folder import open_journal, recorded, stored_arguments
from sahmc.checkpoint.journal import Goal, Journal
from sahmc.engine.devices import parse_devices
from sahmc.engine.identity import identity
from sahmc.engine.interrupts import Interrupts, interrupts
from sahmc.engine.limits import Limits, make_limits
from sahmc.engine.live import Live
from sahmc.engine.loop import chunk_capacity
from sahmc.engine.memory import MANY, numbers_of, require_memory
from sahmc.engine.plan import make_plan
from sahmc.engine.stage import StageRunner
from sahmc.engine.start import Prepared, parse_seed, start_chains
from sahmc.engine.symmetries import check_symmetries, with_symmetries
from sahmc.kernels.base import Kernel
from sahmc.models.convert import as_model, model_in_context
from sahmc.models.energy import trace_keep
from sahmc.models.positions import Unpacker
from sahmc.models.starts import starting_positions
from sahmc.progress.display import progress
from sahmc.progress.progress import Progress
from sahmc.results.precision import Precision
from sahmc.results.records import RunRecord
from sahmc.results.result import Result
from sahmc.sampling.earlier import Earlier, as_earlier, prepare_from, with_earlier
from sahmc.sampling.outcome import Outcome, Run
from sahmc.sampling.read_back import keep_result, read_back
from sahmc.sampling.rounds import draw_in_rounds
from sahmc.tilt.gain import Gain
from sahmc.tilt.partition import EnergyPartition, TemperatureLadder
from sahmc.tilt.tilts import Tilt
from sahmc.warmup.tempered import WarmupContext
from sahmc.warmup.warmup import WarmedUp, warm_up


@with_hints
def sample(
    model: Any = None,
    initvals: Any = None,
    *,
    model_args: tuple[Any, ...] = (),
    model_kwargs: Mapping[str, Any] | None = None,
    draws: int | np.integer = 1000,
    tune: int | np.integer = 1000,
    chains: int | np.integer = 32,
    random_seed: Any = None,
    target_accept: float = 0.8,
    kernel: str | Kernel = "hmc",
    tilt: str | Tilt = "tempered",
    partition: EnergyPartition | TemperatureLadder | None = None,
    gain: Gain | float | int | None = None,
    desired: Any = None,
    theta: Literal["shared", "per-chain"] = "shared",
    adapt: Literal["tune", "always"] = "tune",
    thin: int | np.integer = 1,
    jumps: bool = True,
    reference: bool = True,
    symmetries: Any = "auto",
    keep: PositionFn | None = None,
    save_warmup: bool = False,
    until: Precision | None = None,
    max_time: float | int | None = None,
    max_gradients: float | int | None = None,
    checkpoint: str | Path | None = None,
    devices: Any = None,
    check: Literal["serial"] | None = None,
    progressbar: bool = True,
    callback: Callable[[Progress], None] | None = None,
) -> Result:
    """Draw from a posterior that may have many modes.

    Parameters
    ----------
    model
        A function from one position (any pytree of float arrays) to its log density, up to a constant, written with
        ``jax.numpy``; a ``Model``; or a model of NumPyro, PyMC, Bambi or BridgeStan as it is. None, the default, takes
        the PyMC model of the surrounding ``with`` block.
    initvals
        One position, from which every chain starts; a list of positions, one for each chain; or a function from a JAX
        key to a position. If the model names its variables, pass a dict of these instead of each position. The result
        of another run gives a warm start, on new data for example. Chains then start from its draws, and its ladder,
        metric and theta replace pilot and climb. None, the default, lets the model draw the starts; a bare log density
        cannot.
    model_args
        The positional arguments of a NumPyro model, a tuple; empty by default.
    model_kwargs
        The keyword arguments of a NumPyro model, a dict; none by default.
    draws
        The number of draws kept of each chain, an int. Default 1000.
    tune
        The number of warm-up iterations before the draws, an int: pilot, climb, learning of theta. Default 1000.
    chains
        The number of chains, an int. They run in parallel and learn together; a few dozen cost little more than one.
        Default 32.
    random_seed
        An int, a NumPy ``Generator`` or a JAX key. If None, the default, a seed is chosen at random.
        ``Result.settings`` records it.
    target_accept
        The target acceptance probability of step-size tuning, a float in (0, 1). The default 0.8 suits HMC; use about
        0.3 for a random walk.

    Other parameters
    ----------------
    kernel
        How chains move: "hmc" (the default), "nuts", "rmhmc", "random_walk", or an object such as
        ``sahmc.HMC(metric="dense")``.
    tilt
        The function of the energy that flattens the barriers, with learnt weights theta: "tempered" (the default),
        "linear", "step" (the paper's), "none" (plain HMC), or an object with its partition.
    partition
        The regions of the tilt: an ``EnergyPartition`` for the step and linear tilts, a ``TemperatureLadder`` for the
        tempered one. If None, the default, the warm-up finds them.
    gain
        The gain with which theta learns: a ``Gain``, or a number, its t0, counted in moves as in the paper. If None,
        the default, t0 is a twentieth of the adaptation, and the gain decays as levels are visited.
    desired
        The desired visiting frequencies, one positive number for each region of a given partition. If None, the
        default, they are equal.
    theta
        Whether theta is "shared", so that all chains learn it together (the default), or one "per-chain" (the paper).
    adapt
        When theta learns: only during "tune", after which it is averaged and frozen (the default), or "always" (the
        paper). Draws are exact once theta is frozen. While it learns they are right only in the limit of a small gain.
        If theta moves by a nat before its chains have passed between the modes, it drives them, and no weight corrects
        that.
    thin
        The number of iterations per kept draw, an int; the last of them is kept. Default 1.
    jumps
        Whether chains also jump between the modes that the warm-up found, a bool. Draws are right either way. Without
        jumps, chains pass between modes only over the top of the ladder. Default True.
    reference
        Whether the ladder may end in a reference, a bool: a normalised density that the warm-up fits to the modes it
        finds. Hot levels are then proper, and ``log_evidence`` is known. A reference is used for a log density without
        a separate prior, and if the path to the prior is long. Otherwise, or if you give the partition, the ladder ends
        in heat or in the prior. Draws are right either way. Default True.
    symmetries
        The symmetries that give modes equivalent copies (label switching). "auto", the default, looks for them if
        positions have named arrays; None ignores them. You can also pass a list of ``Permute``, ``Flip`` and functions
        from position to position, which is checked and used. The search counts copies as one mode, draws cover all of
        them equally, and ``Result.relabel`` carries the draws to one copy.
    keep
        A function, written with ``jax.numpy``, of a position, or of the variables of a model that names them. Its value
        is kept instead of the draw. If None, the default, the whole draw is kept.
    save_warmup
        Whether to keep draws of the adaptation too, from every eighth move or fewer, in ``Result.warmup_draws``; a
        bool. Default False.
    until
        A target precision, a ``sahmc.Precision`` such as ``Precision(mass=0.01, ess=400)``. After the first ``draws``
        of each chain, further rounds follow until the target is met. If a limit comes first, that is a finding. If
        None, the default, there is one round.
    max_time
        The time limit of the call in seconds, a number: draws stop early enough for the result to be ready. The warm-up
        is never cut short. If None, the default, there is no limit.
    max_gradients
        The maximum number of gradients of warm-up and draws, a number: fewer draws are made if they would cost more.
        The search for modes in the draws comes on top. If None, the default, there is no limit.
    checkpoint
        A folder in which the run is recorded as it goes on. After a crash, repeat the call or use ``sahmc.resume``; the
        run continues, to the same bits. Draws stay on disk and may exceed the memory. If None, the default, nothing is
        written.
    devices
        The devices over which chains are split evenly: the number of them, a list, a mesh, or "all". None, the default,
        means JAX's default device, or all devices of all processes joined by ``sahmc.join_hosts``. On CPUs the draws
        have the same bits on any number of devices.
    check
        "serial" repeats the first moves of each stage on one device, and raises ``RuntimeError`` if their bits differ.
        If None, the default, nothing is compared.
    progressbar
        Whether to show progress, a bool: bars on a terminal or in a notebook, elsewhere log lines of the logger "sahmc"
        at level INFO. Default True.
    callback
        A function that receives a ``Progress`` a few times a second; none by default.

    Look at ``findings`` of the result first: they report any problem with the run, and a warning lists them too.
    ``warmup`` shows what the warm-up chose.

    If you give the partition and a kernel with step size and metric, there is no pilot run. Theta then starts from
    zero, and the algorithm is exactly the paper's.
    """
    require_not_forked()
    keep_programs()
    limits = make_limits(max_time, max_gradients)
    ok = until is None or isinstance(until, Precision)
    require(ok, "until must be a Precision", until, "pass sahmc.Precision(ess=400), say")
    model = model_in_context(model)
    algorithm = {
        "draws": draws,
        "tune": tune,
        "chains": chains,
        "target_accept": target_accept,
        "kernel": kernel,
        "tilt": tilt,
        "partition": partition,
        "gain": gain,
        "desired": desired,
        "theta": theta,
        "adapt": adapt,
        "thin": thin,
        "jumps": jumps,
        "reference": reference,
    }
    given = {
        "model": model,
        "model_args": model_args,
        "model_kwargs": model_kwargs,
        "symmetries": symmetries,
        "keep": keep,
        "save_warmup": save_warmup,
        "until": until,
        "max_time": max_time,
        "max_gradients": max_gradients,
        **algorithm,
    }
    counts = {name: int(value) for name, value in algorithm.items() if isinstance(value, np.integer)}
    model = as_model(model, model_args, model_kwargs)
    plan = make_plan(model, **algorithm | counts)
    for flag, name in ((save_warmup, "save_warmup"), (progressbar, "progressbar")):
        require_flag(flag, name)
    check_symmetries(symmetries)
    where = parse_devices(devices, check, plan.chains)
    require_function(keep, "keep", "a position")
    require_function(callback, "callback", "a Progress")
    known = None if checkpoint is None else recorded(checkpoint)
    seed, rng_key = parse_seed(agreed(known["seed"] if known is not None and random_seed is None else random_seed))
    key_start, key_run = jax.random.split(rng_key)
    presses = Interrupts()
    with jax.default_device(where.first), interrupts(presses), ExitStack() as stack:
        initvals = as_earlier(initvals, plan.chains, key_start)
        if plan.chains > MANY and not isinstance(initvals, (list, Earlier)):  # before their starts are made
            one = starting_positions(model, initvals, 1, key_start)[0]
            require_memory(plan, one.size, one.itemsize, where, True, None)
        ready = with_symmetries(model, prepare_from(model, plan, initvals, key_start), symmetries)
        ready = with_earlier(ready, initvals)
        unpack = Unpacker.of(model, ready.unravel, ready.example)
        kept = None if keep is None else trace_keep(keep, unpack, ready.example)
        (_, dim), itemsize = ready.positions.shape, ready.positions.itemsize
        size = None if kept is None else numbers_of(kept, ready.example)
        require_memory(plan, dim, itemsize, where, checkpoint is not None, size)
        given["initvals"] = initvals
        opened = partial(open_journal, checkpoint, lambda: identity(ready, seed, kept, save_warmup), seed, given)
        journal = opened()
        stack.enter_context(closing(journal))
        if until is None and limits.are_none:
            journal.ask_for(plan.draws)
        words = f"{plan.draws} draws, {until}, {max_time} s, {max_gradients} gradients"
        shown = (progressbar, callback)
        run = Run(ready, unpack, kept, model.labels, save_warmup, journal, presses, *shown, seed, where, words)
        asked = partial(_asked, journal, until, limits)
        result = read_back(run, asked(), lambda: _woken(run, opened, key_run), partial(_resumed, checkpoint))
        if result is None:
            outcome, more = draw_in_rounds(run, key_run, limits, until)
            result = outcome.result(partial(_further, run, key_run, outcome, checkpoint), *more)
            keep_result(outcome, journal, asked(), result.record)
    if until is None and limits.are_none:
        _tell_of_more(result.record, plan.draws, checkpoint)
    return _warned(result)


def _asked(journal: Journal, until: Precision | None, limits: Limits) -> dict[str, Any]:
    """Return what the run was asked for beyond its identity, in a form that JSON can hold."""
    most = [repr(limits.max_time), repr(limits.max_gradients)]
    return {"draws": [list(goal) for goal in journal.asked], "until": repr(until), "limits": most}


def _woken(run: Run, opened: Callable[[], Journal], rng_key: Key[Array, ""]) -> Live:
    """Return a complete run in its final state; ``opened`` opens its journal."""
    with jax.default_device(run.where.first), closing(opened()) as journal:
        again = dataclasses.replace(run, journal=journal, presses=Interrupts(), bars=False, callback=None)
        return draw_in_rounds(again, rng_key, Limits(), None)[0].live


def _resumed(checkpoint: Any, before: int, draws: int, progressbar: bool) -> Result:
    """Return the result of a run in a folder after ``draws`` more draws of each chain; it had ``before``."""
    return resume(checkpoint, draws=before + draws, progressbar=progressbar)


def _tell_of_more(record: RunRecord, draws: int, checkpoint: Any) -> None:
    """Give a warning if an extended run holds more draws than requested now."""
    rows = record.draws.energy.shape[1]
    if rows > draws:
        has = f"the run in {checkpoint} has {rows:,} draws of each chain already"
        warnings.warn(f"{has}, and all of them are returned, not {draws:,}", stacklevel=4)


def _warned(result: Result) -> Result:
    """Return a result, after a warning that lists its findings, if any."""
    if result.findings:
        lines = "\n".join(f"  - {finding}" for finding in result.findings)
        warnings.warn(f"sahmc found problems with this run (Result.findings):\n{lines}", stacklevel=4)
    return result


def _further(
    run: Run, rng_key: Key[Array, ""], before: Outcome, checkpoint: str | Path | None, draws: int, progressbar: bool
) -> Result:
    """Return the result of a run with ``draws`` more draws of each chain than it had ``before``."""
    total = before.drawn.so_far.rows + draws
    if checkpoint is not None:
        return _resumed(checkpoint, before.drawn.so_far.rows, draws, progressbar)
    presses = Interrupts()
    run = dataclasses.replace(run, journal=Journal(), presses=presses, bars=progressbar, callback=None)
    run.journal.asked = (Goal(total),) * (before.number + 1)
    with jax.default_device(run.where.first), interrupts(presses):
        outcome = run.go_on(before._replace(presses=presses), total, Limits())
        if outcome.number == 0 and outcome.may_go_on() and len(outcome.missed):
            outcome = run.again(jax.random.fold_in(rng_key, 1), Limits(), outcome)
        result = outcome.result(partial(_further, run, rng_key, outcome, None))
    return _warned(result)


@with_hints
def resume(
    checkpoint: str | Path,
    *,
    draws: int | np.integer | None = None,
    devices: Any = None,
    check: Literal["serial"] | None = None,
    progressbar: bool = True,
    callback: Callable[[Progress], None] | None = None,
) -> Result:
    """Go on with the run in a folder as if it had never stopped, or read back a complete one.

    The model and the other arguments of ``sample`` were pickled with it, so resume only checkpoints you trust.

    Parameters
    ----------
    checkpoint
        The folder that was passed to ``sample``.
    draws
        The total number of draws of each chain, an int. A shorter run is extended to it, bit for bit as if you had
        asked for this number at first. If None, the default, the run makes its original number of draws.
    devices, check
        The devices over which chains are split, and whether to compare with one of them, as for ``sample``. They may
        differ from those of the original run, in kind and in number.
    progressbar
        Whether to show progress, as for ``sample``. Default True.
    callback
        A function that receives a ``Progress``, as for ``sample``; none by default.
    """
    arguments = stored_arguments(checkpoint)
    if draws is not None:
        arguments |= {"draws": draws, "until": None, "max_time": None, "max_gradients": None}
    return sample(
        **arguments, checkpoint=checkpoint, devices=devices, check=check, progressbar=progressbar, callback=callback
    )


def warm_up_only(ready: Prepared, rng_key: Key[Array, ""]) -> WarmedUp:
    """Run the warm-up alone, and return everything needed to make draws in a loop outside ``sample``."""
    with progress(ready.plan.stages, False, None) as report:
        started = start_chains(ready)
        runner = StageRunner(rng_key, chunk_capacity(*ready.positions.shape), report, Journal())
        return warm_up(WarmupContext(runner, ready.energy_fn, ready.plan), started.state, shown=started.minima)
