"""The function ``sample``: check the arguments, warm up, draw, examine."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from sahmc._support.forked import require_not_forked
from sahmc._support.types import PositionFn
from sahmc._support.validate import require_flag, require_function
from sahmc._version import __version__
from sahmc.kernels.base import Kernel
from sahmc.models.convert import as_model
from sahmc.models.energy import trace_keep
from sahmc.models.model import Labels
from sahmc.models.positions import Unpacker
from sahmc.results.findings.examine import NOT_EXAMINED, examine
from sahmc.results.records import DrawRecord, Finding, RunRecord, ThetaRecord, ThetaTrace
from sahmc.results.result import Result
from sahmc.run.checkpoint import open_checkpoint, recorded, stored_arguments
from sahmc.run.identity import identity
from sahmc.run.interrupts import Interrupts, interrupts
from sahmc.run.journal import Journal
from sahmc.run.live import Live
from sahmc.run.loop import Draw, Schedule, chunk_capacity
from sahmc.run.plan import Plan, make_plan
from sahmc.run.progress import Progress, progress
from sahmc.run.stage import StageResult, StageRunner
from sahmc.run.start import Prepared, parse_seed, prepare, start_chains
from sahmc.tilt.bridge import bridge_to_reference
from sahmc.tilt.gain import Gain
from sahmc.tilt.importance import log_normalise
from sahmc.tilt.partition import EnergyPartition, TemperatureLadder
from sahmc.tilt.tilts import TemperedTilt, Tilt
from sahmc.warmup.reference import Stay
from sahmc.warmup.tempered import WarmupContext
from sahmc.warmup.warmup import WarmedUp, warm_up

LEAST_SHARE = 1e-3
"""The share of the moves of the adaptation from which on a region counts as one that chains come to."""


def sample(
    model: Any,
    initvals: Any = None,
    *,
    model_args: tuple[Any, ...] = (),
    model_kwargs: Mapping[str, Any] | None = None,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 32,
    random_seed: Any = None,
    target_accept: float = 0.8,
    kernel: str | Kernel = "hmc",
    tilt: str | Tilt = "tempered",
    partition: EnergyPartition | TemperatureLadder | None = None,
    gain: Gain | float | int | None = None,
    desired: Any = None,
    theta: Literal["shared", "per-chain"] = "shared",
    adapt: Literal["tune", "always"] = "tune",
    thin: int = 1,
    jumps: bool = True,
    reference: bool = True,
    keep: PositionFn | None = None,
    save_warmup: bool = False,
    checkpoint: str | Path | None = None,
    progressbar: bool = True,
    callback: Callable[[Progress], None] | None = None,
) -> Result:
    """Draw from a posterior that may have many modes.

    Parameters
    ----------
    model
        A function from one position, any pytree of float arrays, to its log density (up to a constant), written with
        ``jax.numpy``; a ``Model``; or a model of NumPyro, PyMC or BridgeStan as it is.
    initvals
        One position, from which every chain starts; a list of positions, one for each chain; or a function from a JAX
        key to a position. A model with named variables takes a dict of these in place of each position. None, the
        default, lets the model draw the starts, which a bare log density cannot.
    model_args
        A tuple of the positional arguments of a NumPyro model; empty by default.
    model_kwargs
        A dict of the keyword arguments of a NumPyro model; none by default.
    draws
        The number of draws kept of each chain, an int. Default 1000.
    tune
        The number of iterations of the warm-up before that, an int: pilot, climb, learning of theta. Default 1000.
    chains
        The number of chains, an int. They run side by side and learn together, and a few dozen cost little more than
        one. Default 32.
    random_seed
        An int, a NumPy ``Generator`` or a JAX key. If None, the default, a seed is drawn. It is recorded in
        ``Result.settings``.
    target_accept
        The acceptance probability to which the step size is tuned, a float in (0, 1). The default 0.8 suits HMC; a
        random walk wants about 0.3.

    Other parameters
    ----------------
    kernel
        The way in which chains move: "hmc" (the default), "nuts", "rmhmc", "random_walk", or an object such as
        ``sahmc.HMC(metric="dense")``.
    tilt
        The function of the energy that is learnt, with the weights theta, to flatten the barriers: "tempered" (the
        default), "linear", "step" (the paper's), "none" (plain HMC), or an object with its partition.
    partition
        The regions of the tilt: an ``EnergyPartition`` for the step and linear tilts, a ``TemperatureLadder`` for the
        tempered one. If None, the default, the warm-up finds them.
    gain
        The gain with which theta learns: a ``Gain``, or a number, its t0, counted in moves as in the paper. If None,
        the default, t0 is a twentieth of the adaptation and the gain decays as levels are seen.
    desired
        The desired visiting frequencies, one positive number for each region of a partition that is given. They are
        equal if None, the default.
    theta
        Whether theta is "shared" by all chains, which learn it together (the default), or one "per-chain" (the paper).
    adapt
        Whether theta learns during "tune", and is then averaged and frozen (the default), or "always" (the paper). The
        draws are exact once theta is frozen. While it learns they are right only in the limit of a small gain: a theta
        that moves by a nat before its chains have passed between the modes drives them, and no weight undoes that.
    thin
        The number of iterations of which the last is kept as a draw, an int. Default 1.
    jumps
        Whether chains also jump between the modes that the warm-up has found, a bool. The draws are right either way;
        without jumps, chains pass between modes only by way of the top of the ladder. Default True.
    reference
        Whether the ladder may end in a normalised density that the warm-up fits to the modes it finds, a bool: hot
        levels are then proper, and ``log_evidence`` is known. It does for a log density without a prior of its own, and
        where the way to the prior is long. Without it, or where the partition is given, the ladder ends in heat or in
        the prior. The draws are right either way. Default True.
    keep
        A function that returns what is kept of each draw in its place, written with ``jax.numpy``: of a position, or of
        the variables of a model that names them. If None, the default, all of it is kept.
    save_warmup
        Whether to keep draws of the adaptation as well, of every eighth move or fewer, in ``Result.warmup_draws``; a
        bool. Default False.
    checkpoint
        A folder in which the run is kept while it goes on. After a crash the same call, or ``sahmc.resume``, goes on
        from there, to the same bits. Draws stay on disk, so that they may exceed the memory. If None, the default,
        nothing is written.
    progressbar
        Whether to show progress bars, on a terminal or in a notebook; a bool. Default True.
    callback
        A function that is called with a ``Progress`` a few times a second; none by default.

    Look at ``findings`` of the result first: what is wrong with the run, which a warning lists too. ``warmup`` tells
    what was chosen.

    If the kernel's step size and metric and the partition are all given, there is no pilot run: theta starts from zero,
    and the algorithm is the paper's to the letter.
    """
    require_not_forked()
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
        "initvals": initvals,
        "model_args": model_args,
        "model_kwargs": model_kwargs,
        "keep": keep,
        "save_warmup": save_warmup,
        **algorithm,
    }
    model = as_model(model, model_args, model_kwargs)
    plan = make_plan(model, **algorithm)
    for flag, name in ((save_warmup, "save_warmup"), (progressbar, "progressbar")):
        require_flag(flag, name)
    require_function(keep, "keep", "a position")
    require_function(callback, "callback", "a Progress")
    known = None if checkpoint is None else recorded(checkpoint)
    seed, rng_key = parse_seed(known["seed"] if known is not None and random_seed is None else random_seed)
    key_start, key_run = jax.random.split(rng_key)
    ready = prepare(model, plan, initvals, key_start)
    unpack = Unpacker.of(model, ready.unravel, ready.positions[0])
    kept = None if keep is None else trace_keep(keep, unpack, ready.positions[0])
    journal = Journal()
    if checkpoint is not None:
        journal = open_checkpoint(checkpoint, identity(ready, seed, kept, save_warmup), seed, given)

    began = time.perf_counter()
    with interrupts() as presses:
        with closing(journal), progress(plan.stages, progressbar, callback) as report:
            state, spent = start_chains(ready)
            runner = StageRunner(key_run, chunk_capacity(*ready.positions.shape), report, journal)
            warm = warm_up(WarmupContext(runner, ready.energy_fn, ready.plan), state, save_warmup)
            warm = warm._replace(setup=dataclasses.replace(warm.setup, keep=kept))
            presses.hold()
            drawn = warm.runner.run(
                "draw",
                warm.state,
                warm.setup,
                _drawing(ready.plan, warm),
                draws,
                store=True,
                trace=True,
                presses=presses,
            )
        presses.pressed = False
        seconds = journal.seconds + time.perf_counter() - began
        settings = _settings(ready.plan, warm, seed, drawn.interrupted, seconds)
        return _result(drawn, warm, unpack, settings, model.labels, spent, presses)


def resume(
    checkpoint: str | Path, *, progressbar: bool = True, callback: Callable[[Progress], None] | None = None
) -> Result:
    """Go on with the run that is kept in a folder, as if it had never stopped; a complete one is read back.

    The model and the other arguments of ``sample`` were stored with it, by pickle: resume only what you trust.

    Parameters
    ----------
    checkpoint
        The folder that was passed to ``sample``.
    progressbar
        Whether to show progress bars, as for ``sample``. Default True.
    callback
        A function that is called with a ``Progress``, as for ``sample``; none by default.
    """
    arguments = stored_arguments(checkpoint)
    return sample(**arguments, checkpoint=checkpoint, progressbar=progressbar, callback=callback)


def warm_up_only(ready: Prepared, rng_key: Key[Array, ""]) -> WarmedUp:
    """Run the warm-up alone, and return all that is needed to make draws in a loop outside ``sample``."""
    with progress(ready.plan.stages, False, None) as report:
        state, _ = start_chains(ready)
        runner = StageRunner(rng_key, chunk_capacity(*ready.positions.shape), report, Journal())
        return warm_up(WarmupContext(runner, ready.energy_fn, ready.plan), state)


def _drawing(plan: Plan, warm: WarmedUp) -> Schedule:
    """Return the schedule of the last stage, in which draws are made."""
    bottom, top = _ends(warm.setup.tilt, warm.visits)
    learn = plan.adapt == "always" and warm.setup.tilt.num_regions > 1
    return Schedule(learn_theta=learn, thin=plan.thin * warm.setup.kernel.moves, bottom=bottom, top=top)


def _ends(tilt: Tilt, visits: np.ndarray) -> tuple[int, int]:
    """Return the regions between which round trips are counted: the ends of a ladder, or the lowest and highest seen.

    ``visits`` are those to each region during the adaptation. A region in which a chain only happened to start is none
    that chains could come back to.
    """
    share = visits.reshape(-1, visits.shape[-1]).sum(axis=0) / max(1, visits.sum())
    seen = np.flatnonzero(share >= LEAST_SHARE)
    if isinstance(tilt, TemperedTilt) or not seen.size:
        return 0, tilt.num_regions - 1
    return int(seen[0]), int(seen[-1])


def _settings(plan: Plan, warm: WarmedUp, seed: Any, interrupted: bool, seconds: float) -> dict[str, Any]:
    """Return the arguments of the run, what became of them, and versions, as JSON can hold them."""
    names = ("draws", "tune", "chains", "thin", "target_accept", "theta", "adapt")
    gain = warm.setup.gain
    return {
        "random_seed": seed,
        "kernel": plan.kernel.name,
        "tilt": warm.setup.tilt.name,
        "prior": plan.has_prior,
        **{name: getattr(plan, name) for name in names},
        "jumps": plan.jumps,
        "reference": warm.record.reference is not None,
        "gain": [float(gain.t0), float(gain.power)],
        "interrupted": interrupted,
        "sampling_time": seconds,
        "versions": {"sahmc": __version__, "jax": jax.__version__, "numpy": np.__version__},
    }


def _result(
    drawn: StageResult,
    warm: WarmedUp,
    unpack: Unpacker,
    settings: dict[str, Any],
    labels: Labels,
    spent: int,
    presses: Interrupts,
) -> Result:
    """Return the result, with its modes and findings, which a warning lists too.

    ``spent`` are the gradients spent on the starts. What one of ``presses`` cuts short is left out, and a finding.
    """
    assert drawn.draws is not None
    state, setup, whole = drawn.state, warm.setup, warm.setup.keep is None
    positions = jax.tree.map(lambda x: np.swapaxes(x, 0, 1), drawn.draws.position)
    live = Live(setup, jnp.exp(state.steps.log_step), warm.finder, warm.modes, unpack, positions if whole else None)
    warmup = dataclasses.replace(warm.record, gradients={**warm.record.gradients, "start": spent})
    record = RunRecord(
        draws=_draw_record(drawn.draws, unpack if whole else None, normalise=True),
        learnt=ThetaRecord(
            theta=np.array(state.sahmc.theta.theta),
            visits=drawn.visits,
            desired=np.array(setup.desired),
            step_size=np.array(setup.kernel.step_size * jnp.exp(state.steps.log_step)),
            trace=ThetaTrace.join(warm.trace, drawn.trace),
        ),
        counts=drawn.counts,
        round_trips=np.array(state.trips.trips),
        num_gradients=sum(warmup.gradients.values()) + drawn.counts.gradients,
        warmup=warmup,
        tilt=setup.tilt,
        settings=settings,
        labels=labels if whole else Labels(),
        prior_mass=warm.prior_mass,
        warmup_draws=None if warm.draws is None else _draw_record(warm.draws, unpack, normalise=False),
    )
    if warm.beside is not None and whole and settings["adapt"] == "tune":
        record = dataclasses.replace(record, bridge=_bridge(record, warm.beside, positions))
    if int(live.modes.num) and whole and not presses.pressed:
        modes, looked = live.find_modes(record.draws)
        record = dataclasses.replace(record, modes=modes, num_gradients=record.num_gradients + looked)
    findings: tuple[Finding, ...] = (NOT_EXAMINED,)
    if not presses.pressed:
        findings = examine(record, live.structured_positions() if whole else record.draws.values)
    if findings:
        lines = "\n".join(f"  - {finding}" for finding in findings)
        warnings.warn(f"sahmc found problems with this run (Result.findings):\n{lines}", stacklevel=3)
    return Result(dataclasses.replace(record, findings=findings), live)


def _bridge(record: RunRecord, beside: Stay, positions: np.ndarray) -> tuple[float, float]:
    """Return the log of the integral of the density and its error, by a bridge to the reference ``beside`` the ladder.

    ``positions`` are the draws as vectors, (chain, draw, dim).
    """
    low = -np.asarray(record.draws.log_density, float) - beside.reference.energies(positions)
    found = bridge_to_reference(low, record.weight, beside.high)
    return float(found.mean), float(found.mcse)


def _draw_record(draws: Draw, unpack: Unpacker | None, normalise: bool) -> DrawRecord:
    """Return draws (draw, chain, ...) as a record (chain, draw, ...); positions that are on disk stay there.

    ``unpack`` makes variables of positions; it is None if ``keep`` has replaced them. ``normalise`` makes the weights
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
