"""SAHMC as a kernel of ``numpyro.infer.MCMC``."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree
from numpyro.infer.mcmc import MCMC, MCMCKernel

from sahmc._support.jax_internals import is_traced
from sahmc._support.types import Position, PositionFn
from sahmc._support.validate import as_rng, require, require_count
from sahmc.engine.loop import run_chunk
from sahmc.engine.move import NEVER, Draw, MoveSums, RunState, Schedule, Setup
from sahmc.engine.plan import make_plan
from sahmc.engine.settings import Settings
from sahmc.engine.start import prepare
from sahmc.models.model import Model
from sahmc.models.numpyro import from_numpyro
from sahmc.models.numpyro_predictor import Args, Kwargs, NumPyroModel
from sahmc.sampling import warm_up_only
from sahmc.tilt.importance import log_normalise, systematic_resample


class AdaptState(NamedTuple):
    """The settings learnt in the warm-up."""

    step_size: Float[Array, " levels"]
    """The step size at each level of the tilt."""
    theta: Float[Array, " regions"]
    """The log of the mass of each region divided by its desired frequency, up to a constant."""


class NumPyroState(NamedTuple):
    """The state that NumPyro passes between iterations, with its names.

    You can collect the fields up to ``log_weight`` as ``extra_fields``. These belong to one chain, or to several with a
    leading axis. The other fields belong to all chains together.
    """

    i: Int[Array, "*chains"]
    """The number of iterations so far, including the warm-up as NumPyro counts it."""
    z: Position
    """The unconstrained position, in the structure of the model."""
    potential_energy: Float[Array, "*chains"]
    """The energy U = -log density there, without the tilt."""
    energy: Float[Array, "*chains"]
    """The energy on which the tilt acts: -log likelihood if the model has a separate prior, else U."""
    region: Int[Array, "*chains"]
    """The region, or level, in which the chain is counted."""
    num_steps: Int[Array, "*chains"]
    """The number of gradients in the last iteration, mean over chains."""
    accept_prob: Float[Array, "*chains"]
    """The acceptance probability of the last move."""
    diverging: Bool[Array, "*chains"]
    """Whether that move diverged."""
    log_weight: Float[Array, "*chains"]
    """The log importance weight of the position, which recovers the posterior."""
    adapt_state: AdaptState
    rng_key: Array
    run: RunState
    """The state of this library that changes with every move."""
    setup: Setup
    """The density, tilt and kernel, fixed after the warm-up."""
    moves: Int[Array, ""]
    """The number of moves in an iteration."""


class SAHMC(MCMCKernel):
    """A kernel for NumPyro: ``MCMC(SAHMC(model), num_warmup=1000, num_samples=1000, ...)``.

    Chains learn together, so run them in one program: ``num_chains=32, chain_method="vectorized"``.
    The whole warm-up (pilot, climb, ladder, theta) runs when the chains are initialised, with the number of iterations
    that NumPyro plans for it.

    Draws come from the tilted density. Request their weights with
    ``mcmc.run(key, ..., extra_fields=("log_weight",))``, then get equal-weight draws with
    ``sahmc.numpyro.resample(mcmc)``. Note that ``mcmc.print_summary()`` ignores weights.

    ``options`` are the arguments of ``sahmc.sample`` that choose the algorithm: kernel, tilt, partition, gain, desired,
    target_accept, jumps, reference.
    """

    sample_field = "z"
    """The field of the state that holds the draw."""

    def __init__(
        self,
        model: NumPyroModel | None = None,
        potential_fn: PositionFn | None = None,
        **options: Any,
    ) -> None:
        one = (model is None) != (potential_fn is None)
        given = "both" if model is not None else "neither"
        require(one, "SAHMC takes either a model or a potential_fn", given, "pass one of them")
        known = {"kernel", "tilt", "partition", "gain", "desired", "target_accept", "jumps", "reference"}
        stray = sorted(options.keys() - known)
        require(not stray, f"options of SAHMC are {', '.join(sorted(known))}", stray, "leave the others out")
        self._model, self._potential_fn, self._options = model, potential_fn, options
        self._made: Model | None = None

    @property
    def model(self) -> NumPyroModel | None:
        """The model as it was given, or None."""
        return self._model

    @property
    def default_fields(self) -> tuple[str, ...]:
        """The fields of the state that NumPyro collects by default."""
        return ("z", "diverging")

    def postprocess_fn(self, model_args: Args, model_kwargs: Kwargs | None) -> PositionFn:
        """Return the function from a position to named variables, for the arguments given to ``init``."""
        made = self._made
        return (lambda z: z) if made is None or made.constrain is None else made.constrain

    def get_diagnostics_str(self, state: NumPyroState) -> str:
        """Return a short text on the last iteration, for the progress bar of one chain."""
        step = float(jnp.ravel(state.adapt_state.step_size)[0])
        return f"{int(state.num_steps)} steps of size {step:.2e}. acc. prob={float(state.accept_prob):.2f}"

    def init(
        self,
        rng_key: Array,
        num_warmup: int,
        init_params: PyTree = None,
        model_args: Args = (),
        model_kwargs: Kwargs | None = None,
    ) -> NumPyroState:
        """Run the whole warm-up, of ``num_warmup`` iterations, and return the state with which sampling begins.

        There is one chain for each key in ``rng_key``. ``init_params`` are unconstrained starting positions, with a
        leading axis for several chains; None draws them from the model.
        """
        require(
            not is_traced(rng_key),
            "the warm-up of SAHMC runs on the host",
            'chain_method="parallel" or a transformation of JAX around it',
            'pass chain_method="vectorized" to MCMC',
        )
        if not jnp.issubdtype(rng_key.dtype, jax.dtypes.prng_key):
            rng_key = jax.random.wrap_key_data(rng_key)
        many = rng_key.ndim > 0
        chains = len(rng_key) if many else 1
        require(num_warmup > 0, "SAHMC must learn before it draws", f"num_warmup={num_warmup}", "pass 1000, say")
        if self._model is not None:
            made = from_numpyro(self._model, *model_args, **(model_kwargs or {}))
        else:
            potential = self._potential_fn
            assert potential is not None
            made = Model(log_density=lambda z: -potential(z))
        self._made = made
        if init_params is not None and many:
            init_params = [jax.tree.map(lambda x, k=k: x[k], init_params) for k in range(chains)]
        plan = make_plan(made, Settings(draws=1, tune=num_warmup, chains=chains, **self._options))
        key_start, key_run, key_draw = jax.random.split(rng_key[0] if many else rng_key, 3)
        as_given = dataclasses.replace(made, unconstrain=None)  # NumPyro's init_params are unconstrained
        ready = prepare(as_given, plan, init_params, key_start)
        warm = warm_up_only(ready, key_run)
        self._unravel, self._many, self._num_warmup = ready.unravel, many, num_warmup
        state = self._state(0, warm.state, warm.setup, jnp.int32(warm.setup.kernel.moves), key_draw, None)
        return jax.tree.map(jnp.asarray, state)

    def sample(self, state: NumPyroState, model_args: Args, model_kwargs: Kwargs | None) -> NumPyroState:
        """Make one iteration, or none during NumPyro's warm-up, because ``init`` has already made all of it."""

        def move(state: NumPyroState) -> NumPyroState:
            moves: Any = state.moves  # traced, as the whole schedule is here
            schedule = Schedule(thin=moves, top=state.setup.tilt.num_regions - 1)
            numbers = (moves, jnp.int32(0), jnp.int32(NEVER))
            words = jax.random.key_data(state.rng_key)
            run, draw, _, sums = run_chunk(words, state.run, state.setup, schedule, *numbers, 1)
            return self._state(state.i, run, state.setup, moves, state.rng_key, (draw, sums))

        i = state.i if state.i.ndim == 0 else state.i[0]
        moved = jax.lax.cond(i < self._num_warmup, lambda s: s, move, state)
        return moved._replace(i=state.i + 1)

    def _state(
        self,
        i: Int[Array, "*chains"] | int,
        run: RunState,
        setup: Setup,
        moves: Int[Array, ""],
        rng_key: Array,
        made: tuple[Draw, MoveSums] | None,
    ) -> NumPyroState:
        """Return the state with NumPyro's names; ``made`` holds the last draw and sums over the moves before it."""
        chains = run.sahmc.chains
        energy = chains.total_energy
        per_chain = dict(
            i=jnp.broadcast_to(jnp.asarray(i, jnp.int32).reshape(-1)[:1], energy.shape),
            z=jax.vmap(self._unravel)(chains.position),
            potential_energy=energy,
            energy=chains.energy,
            region=jnp.zeros(energy.shape, jnp.int32),
            num_steps=jnp.zeros(energy.shape, jnp.int32),
            accept_prob=jnp.zeros_like(energy),
            diverging=jnp.zeros(energy.shape, bool),
            log_weight=jnp.zeros_like(energy),
        )
        if made is not None:
            draw, sums = made
            per_chain |= dict(
                region=draw.region[0],
                num_steps=jnp.full(energy.shape, sums.counts.gradients // len(energy), jnp.int32),
                accept_prob=draw.acceptance_rate[0],
                diverging=draw.diverging[0],
                log_weight=draw.log_weight[0],
            )
        if not self._many:
            per_chain = jax.tree.map(lambda x: x[0], per_chain)
        learnt = AdaptState(setup.kernel.step_size * jnp.exp(run.steps.log_step), run.sahmc.theta.theta)
        return NumPyroState(**per_chain, adapt_state=learnt, rng_key=rng_key, run=run, setup=setup, moves=moves)


def resample(mcmc: MCMC, n: int | None = None, seed: int = 0) -> dict[str, np.ndarray]:
    """Return equal-weight draws of the posterior from a run of SAHMC, chain by chain in time order.

    ``n`` is their number; None means the number of draws made. The run must have collected the field ``log_weight``.
    """
    ok = isinstance(mcmc, MCMC)
    require(ok, "mcmc must be a numpyro.infer.MCMC that has run", mcmc, "pass MCMC(SAHMC(model), ...) after mcmc.run")
    if n is not None:
        require_count(n, "n")
    rng = as_rng(seed, "seed")
    fields = mcmc.get_extra_fields(group_by_chain=True)
    must = "the weights must have been collected"
    require("log_weight" in fields, must, sorted(fields), 'pass extra_fields=("log_weight",) to mcmc.run')
    weight = np.exp(log_normalise(np.asarray(fields["log_weight"]))).ravel()
    index = systematic_resample(weight / weight.sum(), n or weight.size, rng)
    return {k: np.asarray(v)[index] for k, v in mcmc.get_samples().items()}
