"""The front door: validate, pilot, ladder, adapt, freeze, draw."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from sahmc._support.traced import Program
from sahmc._support.validate import require, require_flag, require_function
from sahmc._version import __version__
from sahmc.algorithm import SAHMCState, init
from sahmc.kernels import Kernel
from sahmc.models.model import Labels, Model, as_model
from sahmc.models.positions import View, check_starts, finite_starts, labels, split, starting_positions
from sahmc.results.findings import examine
from sahmc.results.result import Result
from sahmc.run.checkpoint import identity, keep_run, recorded
from sahmc.run.journal import Journal
from sahmc.run.live import Source
from sahmc.run.loop import RunState, Schedule, chunk_capacity, total_energy
from sahmc.run.plan import Plan, make_plan
from sahmc.run.progress import Progress, progress
from sahmc.run.round_trips import init_round_trips
from sahmc.run.stage import Outcome, Runner
from sahmc.run.stage import Path as ThetaPath
from sahmc.run.step_size import init_step_size
from sahmc.tilt.gain import Gain
from sahmc.tilt.importance import log_normalise
from sahmc.tilt.partition import EnergyPartition, TemperatureLadder
from sahmc.tilt.target import TiltedTarget, energy_program, keep_program
from sahmc.tilt.tilts import NoTilt, TemperedTilt, Tilt
from sahmc.warmup.pilot import come_down
from sahmc.warmup.tempered import Bench
from sahmc.warmup.warmup import Ready, warm_up

RETRIES = 20
"""Times that a model is asked for a start with a finite log density."""
EXAMINED, EXAMINED_COORDINATES, EXAMINED_BYTES = 512, 1000, 2**27
"""Chains and coordinates that are examined at most, and the size of their draws."""


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
    keep: Callable[[Any], Any] | None = None,
    save_warmup: bool = False,
    checkpoint: str | Path | None = None,
    progressbar: bool = True,
    callback: Callable[[Progress], None] | None = None,
) -> Result:
    """Draw from a posterior that may have many modes.

    Parameters
    ----------
    model
        A function from one position, any pytree of float arrays, to its log density (up to a constant), written
        with ``jax.numpy``; a ``Model``; or a model of NumPyro, PyMC or BridgeStan as it is.
    initvals
        One position, from which every chain starts; a list of positions, one for each chain; or a function of a key.
        Not needed for a model that knows where to start; in place of positions it takes named variables.
    model_args, model_kwargs
        Arguments of a NumPyro model.
    draws, tune, chains, thin
        Draws kept for each chain, the last of every ``thin`` iterations; iterations before that, for the warm-up:
        pilot, search for modes, learning of theta; chains, which run side by side and learn together.
    random_seed
        An int, a NumPy ``Generator`` or a JAX key; one is made up and recorded if None.
    target_accept
        Acceptance the step size is tuned to. 0.8 suits HMC; a random walk wants about 0.3.

    Other parameters
    ----------------
    kernel, tilt
        A name or an object: "hmc", "nuts", "rmhmc", "random_walk"; "tempered", "linear", "step" (the
        paper's), "none" (plain HMC).
    partition
        ``EnergyPartition`` for the step and linear tilts, ``TemperatureLadder`` for the tempered one; found by the
        search if None.
    gain
        A ``Gain``, or its t0, on the clock of the paper. If None, t0 is a twentieth of the adaptation and the gain
        decays as levels are seen.
    desired
        Desired visiting frequencies, uniform if None.
    theta
        "shared" by all chains, which learn it together, or one "per-chain" (the paper).
    jumps
        Let chains jump between the modes that the warm-up has found. Exact either way; off, they go over the top only.
    adapt
        Learn theta during "tune", then average and freeze it; or "always" (the paper).
    keep
        A function of a position, or of the variables of a model that names them, written with ``jax.numpy``: what is
        kept of each draw in their place.
    save_warmup
        Keep the draws of the adaptation as well, of every eighth move: ``Result.warmup_draws``.
    checkpoint
        A folder in which the run is kept while it goes on. After a crash the same call, or ``sahmc.resume``, goes on
        from there, to the same bits. Draws stay on disk, so that they may exceed the memory.
    progressbar, callback
        Show bars on a terminal or in a notebook; call a function with a ``Progress``, a few times a second.

    Look at ``findings`` of the result first: what is wrong with the run, which a warning lists too. ``warmup`` tells
    what was chosen.

    Without a pilot run, that is when the kernel's step size and metric and the partition are all given, theta starts
    from zero and the algorithm is the paper's to the letter.
    """
    arguments = {k: v for k, v in locals().items() if k not in ("checkpoint", "progressbar", "callback")}
    model = as_model(model, model_args, model_kwargs)
    plan = make_plan(
        model,
        draws=draws,
        tune=tune,
        chains=chains,
        thin=thin,
        target_accept=target_accept,
        kernel=kernel,
        tilt=tilt,
        partition=partition,
        gain=gain,
        desired=desired,
        theta=theta,
        adapt=adapt,
        jumps=jumps,
    )
    for flag, name in ((save_warmup, "save_warmup"), (progressbar, "progressbar")):
        require_flag(flag, name)
    require_function(keep, "keep", "a position")
    require_function(callback, "callback", "a Progress")
    known = None if checkpoint is None else recorded(checkpoint)
    seed, rng_key = _seed(known["seed"] if known is not None and random_seed is None else random_seed)
    key_start, key_run = jax.random.split(rng_key)
    plan, program, positions, unravel = prepared(model, plan, initvals, key_start)
    view = View.of(model, unravel, positions[0])
    kept = None if keep is None else keep_program(keep, view, positions[0])
    journal = Journal()
    if checkpoint is not None:
        energy = _evaluated(program, positions)[1].chains.energy  # tells callbacks apart, which have no text
        what = identity(plan, seed, start=positions, model=program, energy=energy, keep=kept, save_warmup=save_warmup)
        journal = keep_run(checkpoint, what, seed, arguments)

    began = time.perf_counter()
    with closing(journal), progress(plan.stages, progressbar, callback) as report:
        state, spent = _start(program, positions, plan)
        runner = Runner(key_run, chunk_capacity(*positions.shape), report, journal)
        ready = warm_up(Bench(runner, program, plan), state, save_warmup)
        setup = dataclasses.replace(ready.setup, keep=kept)
        drawn = ready.runner.stage("draw", ready.state, setup, _drawing(plan, ready), draws, keep=True, trace=True)

    settings = {
        "random_seed": seed,
        "kernel": plan.kernel.name,
        "tilt": setup.tilt.name,
        "prior": plan.has_prior,
        **{
            name: getattr(plan, name) for name in ("draws", "tune", "chains", "thin", "target_accept", "theta", "adapt")
        },
        "jumps": plan.jumps,
        "gain": (float(setup.gain.t0), float(setup.gain.power)),
        "interrupted": drawn.interrupted,
        "sampling_time": journal.seconds + time.perf_counter() - began,
        "versions": {"sahmc": __version__, "jax": jax.__version__, "numpy": np.__version__},
    }
    ready.record.gradients["start"] = spent
    return _examined(_result(drawn, ready, view, kept is not None, settings, model.labels))


def prepared(
    model: Model, plan: Plan, initvals: Any, rng_key: jax.Array
) -> tuple[Plan, Program, jax.Array, Callable[[jax.Array], Any]]:
    """The plan for positions like these, the program of the energy, where chains start, and what a vector stands for.

    Starts that the model itself draws are drawn again where its density is zero or undefined.
    """
    positions, unravel = starting_positions(model, initvals, plan.chains, rng_key)
    plan.kernel.check(positions.shape[1])
    plan = dataclasses.replace(plan, kernel=plan.kernel.bound(unravel, positions[0]))
    program = energy_program(model, unravel, positions[0], plan.kernel.uses_gradient)
    for attempt in range(1, RETRIES if initvals is None else 1):
        lost = np.flatnonzero(~finite_starts(_evaluated(program, positions)[1].chains))
        if not lost.size:
            break
        again, _ = starting_positions(model, None, plan.chains, jax.random.fold_in(rng_key, attempt))
        positions = positions.at[lost].set(again[lost])
    return plan, program, positions, unravel


def warmed_up(program: Program, positions: jax.Array, plan: Plan, rng_key: jax.Array) -> Ready:
    """The chains, the ladder and theta as they are when draws can be made, for a loop outside ``sample``."""
    with progress(plan.stages, False, None) as report:
        state, _ = _start(program, positions, plan)
        runner = Runner(rng_key, chunk_capacity(*positions.shape), report, Journal())
        return warm_up(Bench(runner, program, plan), state)


def _seed(random_seed: Any) -> tuple[Any, jax.Array]:
    """What to record, and the key."""
    if isinstance(random_seed, jax.Array) and jnp.issubdtype(random_seed.dtype, jax.dtypes.prng_key):
        return jax.random.key_data(random_seed).tolist(), random_seed
    words = len(jax.random.key_data(jax.random.key(0)))
    if (
        isinstance(random_seed, list)
        and len(random_seed) == words
        and all(type(word) is int and 0 <= word < 2**32 for word in random_seed)
    ):  # a key, as it was recorded
        return random_seed, jax.random.wrap_key_data(jnp.asarray(random_seed, jnp.uint32))
    if random_seed is None or isinstance(random_seed, np.random.Generator):
        random_seed = int(np.random.default_rng(random_seed).integers(2**31))
    ok = isinstance(random_seed, (int, np.integer)) and not isinstance(random_seed, bool) and 0 <= random_seed < 2**63
    require(
        ok, "random_seed must be a non-negative int, a NumPy Generator, a JAX key or None", random_seed, "pass 0, say"
    )
    return int(random_seed), jax.random.key(int(random_seed))


def _start(program: Program, positions: jax.Array, plan: Plan) -> tuple[RunState, int]:
    """The chains where they start, once it is known that the log density is finite there; and the gradients spent.

    Where the step size is to be found, chains that start absurdly high come down first.
    """
    one, spent = jnp.ones(1, positions.dtype), 0
    target, start = _evaluated(program, positions)
    check_starts(start.chains.energy, start.chains.grad, start.chains.base)
    if plan.kernel.tunes_step_size and plan.kernel.uses_gradient:
        positions, spent = come_down(program, positions)
        start = jax.jit(init)(target, positions)
    zero = jnp.zeros((), jnp.int32)
    steps, trips = init_step_size(one, eager=False), init_round_trips(len(positions))
    return RunState(start, steps, trips, zero, zero), spent


def _evaluated(program: Program, positions: jax.Array) -> tuple[TiltedTarget, SAHMCState]:
    one = jnp.ones(1, positions.dtype)
    target = TiltedTarget(program, NoTilt(), 0 * one, one)
    return target, jax.jit(init)(target, positions)


def _drawing(plan: Plan, ready: Ready) -> Schedule:
    bottom, top = _ends(ready.setup.tilt, ready.visits)
    learn = plan.adapt == "always" and ready.setup.tilt.num_regions > 1
    return Schedule(learn_theta=learn, thin=plan.thin * ready.setup.kernel.moves, bottom=bottom, top=top)


def _ends(tilt: Tilt, visits: np.ndarray) -> tuple[int, int]:
    """Between which regions round trips are counted: the ends of a ladder, or the lowest and highest region seen."""
    seen = np.flatnonzero(visits.reshape(-1, visits.shape[-1]).sum(axis=0))
    if isinstance(tilt, TemperedTilt) or not seen.size:
        return 0, tilt.num_regions - 1
    return int(seen[0]), int(seen[-1])


def _result(drawn: Outcome, ready: Ready, view: View, kept: bool, settings: dict[str, Any], about: Labels) -> Result:
    """All arrays by chain; positions that are on disk stay there. ``kept`` tells that they are not whole."""
    position = jax.tree.map(lambda x: np.swapaxes(x, 0, 1), drawn.draws.position)
    rest = jax.tree.map(lambda x: np.ascontiguousarray(np.swapaxes(x, 0, 1)), drawn.draws._replace(position=None))
    state, setup = drawn.state, ready.setup
    return Result(
        draws=position if kept else view.all(position),
        energy=rest.energy,
        log_density=-total_energy(rest),
        region=rest.region,
        log_weight=log_normalise(rest.log_weight),
        acceptance=rest.acceptance_rate,
        diverging=rest.diverging,
        tree_depth=rest.tree_depth,
        theta=np.array(state.sahmc.theta.theta),
        visits=drawn.visits,
        desired=np.array(setup.desired),
        round_trips=np.array(state.trips.trips),
        step_size=np.array(setup.kernel.step_size * jnp.exp(state.steps.log_step)),
        num_gradients=sum(ready.record.gradients.values()) + drawn.tally.gradients,
        num_diverging=drawn.tally.diverging,
        num_failed=drawn.tally.failed,
        num_deepest=drawn.tally.deepest,
        num_trajectories=drawn.tally.trajectories,
        jumps=(drawn.tally.jumps, drawn.tally.jumps_accepted),
        warmup=ready.record,
        tilt=setup.tilt,
        settings=MappingProxyType(settings),
        path=ThetaPath.join(ready.path, drawn.path),
        warmup_draws=None if ready.draws is None else ready.draws._replace(position=view.all(ready.draws.position)),
        labels=Labels() if kept else about,
        source=Source(setup, jnp.exp(state.steps.log_step), ready.scout, ready.modes, view, None if kept else position),
    )


def _examined(result: Result) -> Result:
    """The result with its modes and findings, of which a warning tells."""
    spent = 0
    assert result.source is not None
    if int(result.source.modes.num) and result.source.flat is not None:
        sightings, spent = result.source.sight(-result.log_density, result.log_weight)
        result = dataclasses.replace(result, sightings=sightings)
    flat, names, every = _quantities(result)
    findings = examine(result, flat, names, every)
    if findings:
        lines = "\n".join(f"  - {finding}" for finding in findings)
        warnings.warn(f"sahmc found fault with this run (Result.findings):\n{lines}", stacklevel=3)
    return dataclasses.replace(result, findings=findings, num_gradients=result.num_gradients + spent)


def _quantities(result: Result) -> tuple[np.ndarray, list[str], tuple[int, int]]:
    """What is examined: coordinates of positions (chain, draw, coordinate), their names, of which chains and draws.

    All of them or, since this is the host's work, some, evenly spread.
    """
    assert result.source is not None
    flat = result.source.flat
    whole = result.draws if flat is None else split(flat, result.source.view.unravel)
    leaves = [leaf.reshape(*leaf.shape[:2], -1) for leaf in jax.tree.leaves(whole)]
    known = labels(whole, lead=2)
    chains, draws = result.energy.shape
    dim = sum(leaf.shape[2] for leaf in leaves)
    coordinates = -(-dim // EXAMINED_COORDINATES)
    every = -(-chains // EXAMINED), -(-8 * min(chains, EXAMINED) * draws * -(-dim // coordinates) // EXAMINED_BYTES)
    parts, names, first = [], [], 0
    for leaf in leaves:
        pick = np.arange(-first % coordinates, leaf.shape[2], coordinates)
        parts.append(leaf[:: every[0], :: every[1], pick])
        names += [known[first + i] for i in pick]
        first += leaf.shape[2]
    return np.concatenate(parts, axis=2), names, every
