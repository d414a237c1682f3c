"""The front door: validate, pilot, ladder, adapt, freeze, draw."""

from __future__ import annotations

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
from sahmc.gain import Gain
from sahmc.importance import log_normalise
from sahmc.kernels import Kernel
from sahmc.model import Model
from sahmc.partition import EnergyPartition, TemperatureLadder
from sahmc.plan import Plan, make_plan
from sahmc.positions import check_starts, starting_positions
from sahmc.program import Program
from sahmc.progress import progress
from sahmc.result import Result
from sahmc.round_trips import init_round_trips
from sahmc.run import NEVER, Outcome, Runner, RunState, Schedule, Setup, chunk_capacity
from sahmc.step_size import init_step_size
from sahmc.target import TiltedTarget, energy_program
from sahmc.theta import desired_frequencies, freeze_theta, init_theta
from sahmc.tilt import NoTilt, TemperedTilt, Tilt
from sahmc.validate import require
from sahmc.warmup import Pilot, build_tilt, level_steps, run_pilot, start_run, starting_theta


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
        Draws kept for each chain, the last of every ``thin`` iterations; iterations before that, for a pilot run and
        to learn theta; chains, which run side by side and learn together.
    random_seed
        An int, a NumPy ``Generator`` or a JAX key; one is made up and recorded if None.
    target_accept
        Acceptance the step size is tuned to. 0.8 suits HMC; a random walk wants about 0.3.

    Other parameters
    ----------------
    kernel, tilt
        A name or an object: "hmc", "random_walk"; "tempered", "linear", "step" (the paper's), "none" (plain HMC).
    partition
        ``EnergyPartition`` for the step and linear tilts, ``TemperatureLadder`` for the tempered one; built from the
        energies of the pilot if None.
    gain
        A ``Gain``, or its t0; a twentieth of the adaptation if None.
    desired
        Desired visiting frequencies, uniform if None.
    theta
        "shared" by all chains, which learn it together, or one "per-chain" (the paper).
    adapt
        Learn theta during "tune", then average and freeze it; or "always" (the paper).
    progressbar
        Show bars on a terminal or in a notebook.

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
    )
    seed, rng_key = _seed(random_seed)
    key_start, key_run = jax.random.split(rng_key)
    positions, unravel = starting_positions(model, initvals, chains, key_start)
    plan.kernel.check(positions.shape[1])
    program = energy_program(model, unravel, positions[0], plan.kernel.uses_gradient)
    began = time.perf_counter()
    state = _start(program, positions)

    with progress(plan.stages, progressbar) as report:
        runner = Runner(key_run, chunk_capacity(*positions.shape), report)
        pilot, kernel, state, spent = run_pilot(runner, program, state, plan)
        setup = _setup(plan, program, kernel, pilot, positions.dtype)
        state = _begin_adaptation(state, setup, plan, pilot)
        learnt = runner.stage("adapt", state, setup, _learning(plan, setup), plan.stages["adapt"], keep=False)
        drawn = runner.stage("draw", _freeze(learnt, plan), setup, _drawing(plan, setup, learnt), draws, keep=True)

    settings = {
        "random_seed": seed,
        "kernel": plan.kernel.name,
        "tilt": setup.tilt.name,
        "prior": plan.has_prior,
        **{
            name: getattr(plan, name) for name in ("draws", "tune", "chains", "thin", "target_accept", "theta", "adapt")
        },
        "gain": (float(setup.gain.t0), float(setup.gain.power)),
        "pilot": pilot,
        "interrupted": drawn.interrupted,
        "sampling_time": time.perf_counter() - began,
        "versions": {"sahmc": __version__, "jax": jax.__version__, "numpy": np.__version__},
    }
    result = _result(drawn, setup, unravel, spent + learnt.gradients + drawn.gradients, settings)
    _warn(result)
    return result


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


def _start(program: Program, positions: jax.Array) -> RunState:
    """The chains where they start, once it is known that the log density is finite there."""
    one = jnp.ones(1, positions.dtype)
    start = jax.jit(init)(TiltedTarget(program, NoTilt(), 0 * one, one), positions)
    check_starts(start.chains.energy, start.chains.grad, start.chains.base)
    return start_run(start, init_step_size(one, eager=False))


def _setup(plan: Plan, program: Program, kernel: Kernel, pilot: Pilot | None, dtype: Any) -> Setup:
    tilt = plan.tilt if isinstance(plan.tilt, Tilt) else build_tilt(plan.tilt, pilot)
    desired = desired_frequencies(plan.desired, tilt.num_regions).astype(dtype)
    return Setup(program, tilt, kernel, desired, plan.gain_used, plan.target_accept)


def _begin_adaptation(state: RunState, setup: Setup, plan: Plan, pilot: Pilot | None) -> RunState:
    """The chains as the pilot left them, theta and the step sizes at their first values."""
    dtype = setup.desired.dtype
    theta = starting_theta(setup.tilt, pilot, setup.desired)
    theta = theta if plan.theta == "shared" else np.tile(theta, (plan.chains, 1))
    steps = level_steps(setup.tilt, plan.kernel, pilot)
    return state._replace(
        sahmc=state.sahmc._replace(theta=init_theta(jnp.asarray(theta, dtype))),
        steps=init_step_size(jnp.asarray(steps, dtype), eager=False),
    )


def _learning(plan: Plan, setup: Setup) -> Schedule:
    average_from = plan.stages["adapt"] // 2 if plan.adapt == "tune" else NEVER
    regions = setup.tilt.num_regions
    return Schedule(regions > 1, plan.kernel.tunes_step_size, average_from, top=regions - 1)


def _drawing(plan: Plan, setup: Setup, learnt: Outcome) -> Schedule:
    bottom, top = _ends(setup.tilt, learnt.visits)
    learn = plan.adapt == "always" and setup.tilt.num_regions > 1
    return Schedule(learn_theta=learn, thin=plan.every, bottom=bottom, top=top)


def _freeze(learnt: Outcome, plan: Plan) -> RunState:
    """The state to draw from: averaged theta unless it goes on learning, averaged step sizes, counters at zero."""
    state = learnt.state
    theta = state.sahmc.theta
    if plan.adapt == "tune":
        best = theta.average if int(theta.num_averaged) else theta.theta
        theta = theta._replace(theta=jnp.asarray(freeze_theta(np.asarray(best), learnt.visits), theta.theta.dtype))
    return state._replace(
        sahmc=state.sahmc._replace(theta=theta),
        steps=state.steps._replace(log_step=state.steps.log_average),
        trips=init_round_trips(plan.chains),
    )


def _ends(tilt: Tilt, visits: np.ndarray) -> tuple[int, int]:
    """Between which regions round trips are counted: the ends of a ladder, or the lowest and highest region seen."""
    seen = np.flatnonzero(visits.reshape(-1, visits.shape[-1]).sum(axis=0))
    if isinstance(tilt, TemperedTilt) or not seen.size:
        return 0, tilt.num_regions - 1
    return int(seen[0]), int(seen[-1])


def _result(
    drawn: Outcome, setup: Setup, unravel: Callable[[jax.Array], Any], gradients: int, settings: dict[str, Any]
) -> Result:
    by_chain = jax.tree.map(lambda x: np.ascontiguousarray(np.swapaxes(x, 0, 1)), drawn.draws)
    base = 0.0 if by_chain.base_energy is None else by_chain.base_energy
    state = drawn.state
    return Result(
        draws=jax.tree.map(np.array, jax.vmap(jax.vmap(unravel))(by_chain.position)),
        energy=by_chain.energy,
        log_density=-(by_chain.energy + base),
        region=by_chain.region,
        log_weight=log_normalise(by_chain.log_weight),
        acceptance=by_chain.acceptance_rate,
        diverging=by_chain.diverging,
        theta=np.array(state.sahmc.theta.theta),
        visits=drawn.visits,
        desired=np.array(setup.desired),
        round_trips=np.array(state.trips.trips),
        step_size=np.array(setup.kernel.step_size * jnp.exp(state.steps.log_step)),
        num_gradients=gradients,
        num_diverging=drawn.diverging,
        tilt=setup.tilt,
        settings=MappingProxyType(settings),
    )


def _warn(result: Result) -> None:
    """Say so when the run cannot be trusted."""
    if result.settings["interrupted"]:
        warnings.warn(
            f"Interrupted: {result.energy.shape[1]} of {result.settings['draws']} draws were made.", stacklevel=3
        )
    if result.theta.shape[-1] > 1 and result.round_trips.sum() == 0:
        warnings.warn(
            "No chain went from the lowest region to the highest and back while draws were made, so modes may be "
            "missing and masses wrong. Raise tune and draws, or give a ladder with more levels.",
            stacklevel=3,
        )
