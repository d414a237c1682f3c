"""The front door: validate, pilot, ladder, adapt, freeze, draw."""

from __future__ import annotations

import importlib.metadata
import time
import warnings
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from sahmc.algorithm import init
from sahmc.gain import Gain
from sahmc.importance import log_normalise
from sahmc.kernels import KERNELS, Kernel
from sahmc.model import Model
from sahmc.partition import EnergyPartition, TemperatureLadder
from sahmc.positions import check_starts, starting_positions
from sahmc.progress import progress
from sahmc.result import Result
from sahmc.round_trips import init_round_trips
from sahmc.run import NEVER, Outcome, Runner, RunState, Schedule, Setup, chunk_capacity
from sahmc.step_size import init_step_size
from sahmc.target import TiltedTarget, energy_program
from sahmc.theta import desired_frequencies, freeze_theta, init_theta
from sahmc.tilt import TILTS, NoTilt, TemperedTilt, Tilt
from sahmc.validate import require, require_count, require_known
from sahmc.warmup import build_tilt, level_steps, run_pilot, start_run, starting_theta


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
    for name, value in {"draws": draws, "tune": tune, "chains": chains, "thin": thin}.items():
        require_count(value, name)
    require(
        0 < target_accept < 1,
        "target_accept must lie in (0, 1)",
        target_accept,
        "use 0.8 for HMC, 0.3 for a random walk",
    )
    require_known(theta, ("shared", "per-chain"), "theta")
    require_known(adapt, ("tune", "always"), "adapt")
    require(
        callable(model) or isinstance(model, Model), "model must be a log density or a Model", model, "pass a function"
    )
    spec = _kernel(kernel)
    kind, partition = _tilt(tilt, partition, isinstance(model, Model))
    if partition is not None:
        desired_frequencies(desired, build_tilt(kind, partition, None).num_regions)
    else:
        require(
            desired is None or kind is NoTilt,
            "desired needs a partition, or its length cannot be known",
            "desired without partition",
            "pass partition= too",
        )
    if isinstance(gain, (int, float)):
        gain = Gain(gain)
    require(
        gain is None or isinstance(gain, Gain), "gain must be a Gain, a number t0 or None", gain, "pass Gain(t0=...)"
    )

    seed, rng_key = _seed(random_seed)
    key_start, key_run = jax.random.split(rng_key)
    positions, unravel = starting_positions(model, initvals, chains, key_start)
    spec.check(positions.shape[1])
    program = energy_program(model, unravel, positions[0], spec.uses_gradient)
    began = time.perf_counter()
    one = jnp.ones(1, positions.dtype)
    start = jax.jit(init)(TiltedTarget(program, NoTilt(), 0 * one, one), positions)
    check_starts(start.chains.energy, start.chains.grad, start.chains.base)

    has_prior = isinstance(model, Model)
    needs_pilot = spec.tunes_step_size or spec.covariance_rank > 0 or (partition is None and kind is not NoTilt)
    every = thin * spec.moves
    pilot_size = max(4, tune * spec.moves // 4) if needs_pilot else 0
    pilot_total = pilot_size * (2 if has_prior else 1)
    adapt_size = max(0, tune * spec.moves - pilot_total)
    if gain is None:
        gain = Gain(max(1.0, (adapt_size if adapt == "tune" else adapt_size + draws * every) / 20))

    with progress({"pilot": pilot_total, "adapt": adapt_size, "draw": draws * every}, progressbar) as report:
        runner = Runner(key_run, chunk_capacity(*positions.shape), report)
        pilot, gradients = None, 0
        state = start_run(start, init_step_size(one, eager=False))
        tuned = spec
        if needs_pilot:
            pilot, tuned, state, gradients = run_pilot(runner, program, start.chains, spec, target_accept, pilot_size)

        built = build_tilt(kind, partition, pilot)
        pi = desired_frequencies(desired, built.num_regions).astype(positions.dtype)
        setup = Setup(program, built, tuned, pi, gain, target_accept)
        state = _begin_adaptation(
            state, setup, starting_theta(built, pilot, pi), level_steps(built, spec, pilot), theta
        )
        learn = Schedule(
            learn_theta=built.num_regions > 1,
            learn_step=spec.tunes_step_size,
            average_from=adapt_size // 2 if adapt == "tune" else NEVER,
        )
        learnt = runner.stage("adapt", state, setup, learn, adapt_size, keep=False)
        state, (bottom, top) = _freeze(learnt, built, adapt), _ends(built, learnt.visits)
        draw = Schedule(
            learn_theta=adapt == "always" and built.num_regions > 1,
            average_from=NEVER,
            thin=every,
            bottom=bottom,
            top=top,
        )
        drawn = runner.stage("draw", state, setup, draw, draws, keep=True)

    result = _result(
        drawn,
        setup,
        unravel,
        gradients=gradients + learnt.gradients + drawn.gradients,
        settings={
            "draws": draws,
            "tune": tune,
            "chains": chains,
            "thin": thin,
            "random_seed": seed,
            "target_accept": target_accept,
            "kernel": spec.name,
            "tilt": built.name,
            "theta": theta,
            "adapt": adapt,
            "prior": has_prior,
            "gain": (float(gain.t0), float(gain.power)),
            "pilot": pilot,
            "interrupted": drawn.interrupted,
            "sampling_time": time.perf_counter() - began,
            "versions": {name: importlib.metadata.version(name) for name in ("sahmc", "jax", "numpy")},
        },
    )
    _warn(result)
    return result


def _kernel(kernel: str | Kernel) -> Kernel:
    if isinstance(kernel, Kernel):
        return kernel
    require_known(kernel, KERNELS, "kernel")
    return KERNELS[kernel]()


def _tilt(tilt: Any, partition: Any, has_prior: bool) -> tuple[type[Tilt], Any]:
    """The kind of tilt and its partition, whichever way they were given."""
    if isinstance(tilt, Tilt):
        require(
            partition is None, "a tilt object carries its own partition", "partition= as well", "leave one of them out"
        )
        tilt, partition = tilt.name, getattr(tilt, "partition", None)
    require_known(tilt, TILTS, "tilt")
    kind = TILTS[tilt]
    wanted = {"none": type(None), "tempered": TemperatureLadder}.get(tilt, EnergyPartition)
    require(
        partition is None or isinstance(partition, wanted),
        f"tilt {tilt!r} takes " + ("no partition" if kind is NoTilt else f"a partition of type {wanted.__name__}"),
        type(partition).__name__,
        "change the tilt or the partition",
    )
    flat_top = isinstance(partition, TemperatureLadder) and float(partition.betas[-1]) == 0 and not has_prior
    require(
        not flat_top,
        "a ladder may reach beta = 0 only where there is a prior",
        "beta = 0 and a bare log density",
        "pass a sahmc.Model with log_prior and log_likelihood, or end the ladder above 0",
    )
    return kind, partition


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


def _begin_adaptation(state: RunState, setup: Setup, theta: np.ndarray, steps: np.ndarray, own: str) -> RunState:
    """The chains as the pilot left them, theta and the step sizes at their first values."""
    dtype = setup.desired.dtype
    chains = state.trips.trips.shape[0]
    first = jnp.asarray(theta if own == "shared" else np.tile(theta, (chains, 1)), dtype)
    return state._replace(
        sahmc=state.sahmc._replace(theta=init_theta(first)),
        steps=init_step_size(jnp.asarray(steps, dtype), eager=False),
    )


def _freeze(learnt: Outcome, tilt: Tilt, adapt: str) -> RunState:
    """The state to draw from: averaged theta unless it goes on learning, averaged step sizes, counters at zero."""
    state = learnt.state
    theta = state.sahmc.theta
    if adapt == "tune":
        best = theta.average if int(theta.num_averaged) else theta.theta
        theta = theta._replace(theta=jnp.asarray(freeze_theta(np.asarray(best), learnt.visits), theta.theta.dtype))
    return state._replace(
        sahmc=state.sahmc._replace(theta=theta),
        steps=state.steps._replace(log_step=state.steps.log_average),
        trips=init_round_trips(state.trips.trips.shape[0]),
    )


def _ends(tilt: Tilt, visits: np.ndarray) -> tuple[int, int]:
    """Between which regions round trips are counted: the ends of a ladder, or the lowest and highest region seen."""
    seen = np.flatnonzero(visits.reshape(-1, visits.shape[-1]).sum(axis=0))
    if isinstance(tilt, TemperedTilt) or not seen.size:
        return 0, tilt.num_regions - 1
    return int(seen[0]), int(seen[-1])


def _result(
    drawn: Outcome, setup: Setup, unravel: Callable[[jax.Array], Any], *, gradients: int, settings: dict[str, Any]
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
