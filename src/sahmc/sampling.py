"""The front door: validate, pilot, ladder, adapt, freeze, draw."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from sahmc import __version__
from sahmc.algorithm import init
from sahmc.findings import examine
from sahmc.gain import Gain
from sahmc.importance import log_normalise
from sahmc.kernels import Kernel
from sahmc.model import Model
from sahmc.partition import EnergyPartition, TemperatureLadder
from sahmc.pilot import come_down
from sahmc.plain import Bench
from sahmc.plan import Plan, make_plan
from sahmc.positions import check_starts, starting_positions
from sahmc.program import Program
from sahmc.progress import progress
from sahmc.result import Result
from sahmc.round_trips import init_round_trips
from sahmc.run import Outcome, Runner, RunState, Schedule, chunk_capacity
from sahmc.scout import Sighting, lowest_draws, posterior_draws
from sahmc.step_size import init_step_size
from sahmc.target import TiltedTarget, energy_program
from sahmc.tilt import NoTilt, TemperedTilt, Tilt
from sahmc.validate import require
from sahmc.warmup import Ready, warm_up

EXAMINED = 512
"""Chains that are examined; of more, every second or third, since that work is the host's."""


def sample(
    model: Model | Callable[[Any], Any],
    initvals: Any = None,
    *,
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
    progressbar: bool = True,
) -> Result:
    """Draw from a posterior that may have many modes.

    Parameters
    ----------
    model
        A function from one position, any pytree of float arrays, to its log density (up to a constant), written
        with ``jax.numpy``; or a ``Model`` with prior and likelihood apart.
    initvals
        One position, from which every chain starts; a list of positions, one for each chain; or a function of a key.
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
    progressbar
        Show bars on a terminal or in a notebook.

    Look at ``findings`` of the result first: what is wrong with the run, which a warning lists too. ``warmup`` tells
    what was chosen.

    Without a pilot run, that is when the kernel's step size and metric and the partition are all given, theta starts
    from zero and the algorithm is the paper's to the letter.
    """
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
    seed, rng_key = _seed(random_seed)
    key_start, key_run = jax.random.split(rng_key)
    positions, unravel = starting_positions(model, initvals, chains, key_start)
    plan.kernel.check(positions.shape[1])
    plan = dataclasses.replace(plan, kernel=plan.kernel.bound(unravel, positions[0]))
    program = energy_program(model, unravel, positions[0], plan.kernel.uses_gradient)
    began = time.perf_counter()
    state, spent = _start(program, positions, plan)

    with progress(plan.stages, progressbar) as report:
        runner = Runner(key_run, chunk_capacity(*positions.shape), report)
        ready = warm_up(Bench(runner, program, plan), state)
        drawn = ready.runner.stage("draw", ready.state, ready.setup, _drawing(plan, ready), draws, keep=True)

    settings = {
        "random_seed": seed,
        "kernel": plan.kernel.name,
        "tilt": ready.setup.tilt.name,
        "prior": plan.has_prior,
        **{
            name: getattr(plan, name) for name in ("draws", "tune", "chains", "thin", "target_accept", "theta", "adapt")
        },
        "jumps": plan.jumps,
        "gain": (float(ready.setup.gain.t0), float(ready.setup.gain.power)),
        "interrupted": drawn.interrupted,
        "sampling_time": time.perf_counter() - began,
        "versions": {"sahmc": __version__, "jax": jax.__version__, "numpy": np.__version__},
    }
    ready.record.gradients["start"] = spent
    return _examine(_result(drawn, ready, unravel, settings), ready, drawn)


def _seed(random_seed: Any) -> tuple[Any, jax.Array]:
    """What to record, and the key."""
    if isinstance(random_seed, jax.Array) and jnp.issubdtype(random_seed.dtype, jax.dtypes.prng_key):
        return jax.random.key_data(random_seed).tolist(), random_seed
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
    target = TiltedTarget(program, NoTilt(), 0 * one, one)
    start = jax.jit(init)(target, positions)
    check_starts(start.chains.energy, start.chains.grad, start.chains.base)
    if plan.kernel.tunes_step_size and plan.kernel.uses_gradient:
        positions, spent = come_down(program, positions)
        start = jax.jit(init)(target, positions)
    zero = jnp.zeros((), jnp.int32)
    steps, trips = init_step_size(one, eager=False), init_round_trips(len(positions))
    return RunState(start, steps, trips, zero, zero), spent


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


def _result(drawn: Outcome, ready: Ready, unravel: Callable[[jax.Array], Any], settings: dict[str, Any]) -> Result:
    by_chain = jax.tree.map(lambda x: np.ascontiguousarray(np.swapaxes(x, 0, 1)), drawn.draws)
    base = 0.0 if by_chain.base_energy is None else by_chain.base_energy
    state, setup = drawn.state, ready.setup
    return Result(
        draws=jax.tree.map(np.array, jax.vmap(jax.vmap(unravel))(by_chain.position)),
        energy=by_chain.energy,
        log_density=-(by_chain.energy + base),
        region=by_chain.region,
        log_weight=log_normalise(by_chain.log_weight),
        acceptance=by_chain.acceptance_rate,
        diverging=by_chain.diverging,
        tree_depth=by_chain.tree_depth,
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
    )


def _examine(result: Result, ready: Ready, drawn: Outcome) -> Result:
    """The result with its findings, of which a warning tells."""
    every = -(-len(result.energy) // EXAMINED)
    flat = np.swapaxes(drawn.draws.position[:, ::every], 0, 1)
    sightings: list[Sighting] = []
    spent = 0
    if int(ready.modes.num):
        scout = ready.scout.with_draws(posterior_draws(drawn.draws))
        weight, cold = result.weight[::every], result.region[::every] == 0
        sightings, spent = scout.sight(flat, weight / weight.sum(), cold, lowest_draws(drawn.draws), ready.modes)
    findings = examine(result, flat, sightings, every)
    if findings:
        lines = "\n".join(f"  - {finding}" for finding in findings)
        warnings.warn(f"sahmc found fault with this run (Result.findings):\n{lines}", stacklevel=3)
    return dataclasses.replace(result, findings=findings, num_gradients=result.num_gradients + spent)
