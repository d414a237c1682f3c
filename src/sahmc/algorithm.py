"""One iteration of SAHMC."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from sahmc._support.chain_axis import Each, first_chain, vmap
from sahmc._support.noise import Noise, make_noise
from sahmc._support.platform import when
from sahmc._support.validate import require
from sahmc.kernels.base import Kernel, TransitionInfo
from sahmc.tilt.target import ChainState, TiltedTarget, require_target
from sahmc.tilt.theta import ThetaState, count_visits, init_theta, learn_theta

T = TypeVar("T")


class SAHMCState(NamedTuple):
    """The chains (leading axis) and theta."""

    chains: ChainState
    theta: ThetaState


def init(target: TiltedTarget, positions: Float[Array, "chains dim"]) -> SAHMCState:
    """Return the state at the starting positions, with energies and gradients, and the target's theta as theta_0."""
    require_target(target)
    ok, what = np.ndim(positions) == 2 and hasattr(positions, "dtype"), type(positions).__name__
    must = "positions must be an array (chains, dim)"
    require(ok, must, f"{what} of shape {np.shape(positions)}", "stack the starts of all chains: jnp.zeros((8, dim))")
    return SAHMCState(jax.vmap(target.evaluate)(positions), init_theta(target.theta))


def noise_of(
    rng_keys: Key[Array, "*moves"],
    kernel: Kernel,
    state: SAHMCState,
    groups: int = 1,
    group: Int[Array, ""] | int = 0,
) -> Noise:
    """Return the random numbers that ``sahmc_step`` needs, for one move or many, from their keys.

    Generating them for many moves at once costs much less. A kernel that draws from its own keys needs none. The
    numbers are those of one ``group`` of chains; ``groups`` is the number of groups.
    """
    chains, dim = state.chains.position.shape
    first, chains = first_chain(chains) + group * (chains // groups), chains // groups
    uniforms, dim = (0, 0) if kernel.uniforms is None else (kernel.uniforms, dim)
    dtype = state.chains.position.dtype
    return make_noise(rng_keys, chains, dim, uniforms, kernel.shared, dtype, first)


def with_theta(each: Each, fn: Callable[..., T], theta: Float[Array, "*own regions"]) -> Callable[..., T]:
    """Return ``fn``, a function of one chain with theta as its last argument, as a function of all chains.

    theta is shared, or each chain has its own.
    """
    if theta.ndim == 2:
        return lambda *args: each(fn)(*args, theta)
    return each(lambda *args: fn(*args, theta))


def sahmc_step(
    rng_key: Key[Array, ""],
    state: SAHMCState,
    kernel: Kernel,
    target: TiltedTarget,
    gain: Float[Array, ""],
    desired: Float[Array, " regions"],
    noise: Noise | None = None,
    each: Each = vmap,
) -> tuple[SAHMCState, TransitionInfo]:
    """Move and decide, see where the chains are, learn theta: theta_{t+1} = theta_t + a_{t+1} (e_{t+1} - pi).

    The theta in force is that of ``state``, not that of ``target``. ``gain`` is a_{t+1} and ``desired`` is pi. With
    ``gain=0`` theta does not change, and the iteration is an ordinary Markov transition. The function returns the new
    state and a report on the move, whose ``level`` is the region in which each chain counts. ``noise`` is that of
    ``noise_of``, if already generated, and ``each`` maps a function of one chain over all chains.
    """
    _require_parts(rng_key, state, kernel, target, noise, each)
    _require_numbers(gain, desired, state)
    theta = state.theta.theta
    gain = jnp.asarray(gain, theta.dtype)
    desired = jnp.broadcast_to(jnp.asarray(desired, theta.dtype), theta.shape[-1:])
    chains, dim = state.chains.position.shape
    noise = noise_of(rng_key, kernel, state) if noise is None else noise
    kernel = kernel.refresh(noise.shared)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(rng_key, first_chain(chains) + jnp.arange(chains))

    def move(
        numbers: tuple[Array, Array], key: Key[Array, ""], chain: ChainState, theta: Float[Array, " regions"]
    ) -> tuple[ChainState, TransitionInfo]:
        chain, info = kernel.step_by(*numbers, key, chain, target.with_theta(theta))
        return chain, info._replace(level=target.tilt.region(theta, chain.energy, info.level))

    moved, info = with_theta(each, move, theta)(noise.of_chains(chains, dim), keys, state.chains)

    def learn() -> ThetaState:
        membership = with_theta(each, lambda energy, theta: target.tilt.membership(theta, energy), theta)(moved.energy)
        return learn_theta(state.theta, membership, gain, desired)

    learnt = when(gain > 0, learn, state.theta)
    return SAHMCState(moved, count_visits(learnt, info.level)), info


def _require_parts(rng_key: object, state: object, kernel: object, target: object, noise: object, each: object) -> None:
    """Raise ``ValueError`` for arguments of the wrong kind; inside ``jit`` this runs once per trace."""
    ok = isinstance(rng_key, (jax.Array, np.ndarray)) and (
        rng_key.shape == ()
        if jnp.issubdtype(rng_key.dtype, jax.dtypes.prng_key)
        else rng_key.dtype == jnp.uint32 and rng_key.ndim == 1
    )
    require(ok, "rng_key must be one JAX key", type(rng_key).__name__, "pass jax.random.key(0)")
    require(isinstance(state, SAHMCState), "state must be a SAHMCState", type(state).__name__, "begin with sahmc.init")
    require(
        isinstance(kernel, Kernel), "kernel must be a kernel", type(kernel).__name__, "pass sahmc.HMC(0.1, 10), say"
    )
    require_target(target)
    ok = noise is None or isinstance(noise, Noise)
    require(ok, "noise must be that of noise_of, or None", type(noise).__name__, "leave it out")
    require(callable(each), "each must be a function of functions", type(each).__name__, "leave it out")


def _require_numbers(gain: object, desired: object, state: SAHMCState) -> None:
    """Raise ``ValueError`` unless gain is a number and desired has one number for each region."""
    regions = state.theta.theta.shape[-1]
    for value, shape, name in ((gain, (), "gain"), (desired, (regions,), "desired")):
        ok, what = False, type(value).__name__
        if isinstance(value, (jax.Array, np.ndarray, np.generic, float, int)):
            has, kind = np.shape(value), (np.asarray(value) if isinstance(value, (float, int)) else value).dtype
            real = jnp.issubdtype(kind, np.floating) or jnp.issubdtype(kind, np.integer)
            ok, what = has in ((), shape) and real, f"shape {has} of {kind}"
        must = f"{name} must be {'a number' if shape == () else f'an array of {regions} numbers'}"
        require(ok, must, what, f"pass {'jnp.float32(0.1)' if shape == () else 'jnp.ones(regions) / regions'}, say")
