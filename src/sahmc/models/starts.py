"""The positions from which chains start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from sahmc._support.platform import placed
from sahmc._support.types import Position, Unravel
from sahmc._support.validate import require
from sahmc.models.energy import BaseEnergy
from sahmc.models.model import Model
from sahmc.models.positions import called, flatten, structure

ONE_BY_ONE = 256
"""The maximum number of chains with starts drawn one by one."""


class NoStartError(ValueError):
    """The error of a run without starts for its chains."""


def starting_positions(model: Model, initvals: PyTree, chains: int, rng_key: jax.Array) -> tuple[jax.Array, Unravel]:
    """Return starting positions (chains, dim), and the map from one of them back to the user's structure.

    ``initvals`` is one position, a list with one for each chain, a function of a key, or None for starts drawn by the
    model. If the model names its variables, these take the place of positions.
    """
    named_variables = None if initvals is None or model.unconstrain is None else partial(_position, model.unconstrain)
    if initvals is None:
        if model.start is None:
            raise NoStartError(
                "initvals are needed to know what a position looks like; got None. To fix it, pass one position, a "
                "list with one for each chain, or a function of a key; or give a Model start."
            )
        initvals = model.start
    given = not callable(initvals)
    if not given:
        together = _drawn_together(initvals, named_variables, chains, rng_key)
        if together is not None:
            return together
        initvals = [initvals(jax.random.fold_in(rng_key, chain)) for chain in range(chains)]
    if named_variables is not None:
        initvals = list(map(named_variables, initvals)) if isinstance(initvals, list) else named_variables(initvals)
    if not isinstance(initvals, list):
        _check_one(model, initvals, chains)
        flat, unravel = flatten(initvals, "the start")
        _require_finite(np.asarray(flat), "the start")
        return placed(np.tile(np.asarray(flat), (chains, 1))), unravel
    require(
        len(initvals) == chains,
        f"a list of initvals holds one position for each of the {chains} chains",
        f"{len(initvals)} entries",
        f"pass chains={len(initvals)}, or, if this list is one position, make it an array",
    )
    flats, unravels = zip(*(flatten(p, f"the start of chain {i}") for i, p in enumerate(initvals)), strict=True)
    for i, flat in enumerate(flats if given else ()):
        _require_finite(np.asarray(flat), f"the start of chain {i}")
    first = structure(initvals[0])
    for i, position in enumerate(initvals):
        require(
            structure(position) == first,
            "all starts must have the same structure and shapes as that of chain 0",
            f"{structure(position)} for chain {i} against {first}",
            "build every start in the same way",
        )
    return placed(np.stack([np.asarray(flat) for flat in flats])), unravels[0]


def _require_finite(flat: np.ndarray, where: str) -> None:
    """Raise ``ValueError`` unless a start that the user gave is made of finite numbers."""
    ok, advice = np.isfinite(flat).all(), "pass numbers inside the support"
    require(ok, "a start must be made of finite numbers", f"NaN or infinity at {where}", advice)


def prior_positions(model: Model, num: int, rng_key: jax.Array, like: Position) -> np.ndarray | None:
    """Return draws from the prior as positions (num, dim), or None if the model cannot sample it.

    They must have the structure and shapes of ``like``.
    """
    if model.draw_prior is None:
        return None
    try:
        one = model.draw_prior(rng_key)
    except Exception:  # a user's distribution that cannot be sampled: chains start elsewhere
        return None
    must = "draw_prior must return positions of the same structure and shapes as start"
    require(structure(one) == structure(like), must, structure(one), f"return {structure(like)}")
    return np.asarray(starting_positions(replace(model, unconstrain=None), model.draw_prior, num, rng_key)[0])


def _position(unconstrain: Callable[[Mapping[str, object]], Position], variables: object) -> Position:
    """Return the position of named variables, or raise ``ValueError`` if they are not named."""
    ok, what = isinstance(variables, Mapping), type(variables).__name__
    require(ok, "initvals of a model that names its variables are dicts of them", f"a {what}", "pass values by name")
    return called(unconstrain, variables, "unconstrain")


def _check_one(model: Model, position: Position, chains: int) -> None:
    """Raise ``ValueError`` for an array that may be one position, or one for each of several chains."""
    log_density = model.log_density or model.log_likelihood
    if chains == 1 or getattr(position, "ndim", 0) != 2 or position.shape[0] != chains or log_density is None:
        return
    try:
        scalar = jax.eval_shape(log_density, jnp.asarray(position)[0]).shape == ()
    except Exception:  # then it cannot be a function of one row
        return
    require(
        not scalar,
        "it must be clear whether an array is one position, or one for each chain",
        f"initvals of shape {position.shape} for {chains} chains, and a log density that takes a row as well",
        "pass list(initvals) if its rows are positions, or [initvals] * chains if it is one",
    )


def _drawn_together(
    draw: Callable[[jax.Array], PyTree],
    unconstrain: Callable[[PyTree], Position] | None,
    chains: int,
    rng_key: jax.Array,
) -> tuple[jax.Array, Unravel] | None:
    """Return the starts of all chains from a function of a key, computed at once; None if there are few chains.

    Also None if JAX cannot trace the function, or if it returns something else on a second call.
    """
    if chains <= ONE_BY_ONE:
        return None

    def start(key: jax.Array) -> Position:
        return draw(key) if unconstrain is None else unconstrain(draw(key))

    keys = jax.vmap(jax.random.fold_in, (None, 0))(rng_key, jnp.arange(chains))
    first, unravel = flatten(start(keys[0]), "the start of chain 0")
    last, _ = flatten(start(keys[-1]), f"the start of chain {chains - 1}")
    try:
        flat = jax.vmap(lambda key: ravel_pytree(start(key))[0])(keys)
    except Exception:  # a function that cannot take traced keys is called for each key
        return None
    ends = np.stack([np.asarray(first), np.asarray(last)]) if first.shape == last.shape else np.zeros(0)
    same = flat.shape[1:] == first.shape and np.allclose(flat[np.array([0, -1])], ends, rtol=1e-4, atol=1e-6)
    return (flat, unravel) if same else None


def finite_starts(chains: PyTree) -> np.ndarray:
    """Tell for each chain whether its whole state is finite: energies and gradients, including the prior's.

    ``chains`` is a ``ChainState`` whose arrays lead with the chain.
    """
    rows = [np.asarray(leaf).reshape(len(chains.energy), -1) for leaf in jax.tree.leaves(chains)]
    return np.isfinite(np.concatenate(rows, axis=1)).all(axis=1)


def check_starts(
    energy: Float[Array, " chains"], grad: Float[Array, "chains dim"] | None, base: BaseEnergy | None
) -> None:
    """Raise ``ValueError`` for the first chain with a log density or gradient that is not finite at its start.

    ``energy`` and ``grad`` are those on which the tilt acts, and ``base`` holds those of the prior, if separate. Arrays
    lead with the chain.
    """
    for name, value in {
        "log density": energy,
        "gradient of the log density": grad,
        "log prior": base and base.energy,
        "gradient of the log prior": base and base.grad,
    }.items():
        if value is None:
            continue
        rows = np.asarray(value).reshape(len(energy), -1)
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        require(
            bad.size == 0,
            f"the {name} must be finite where a chain starts",
            f"{-rows[bad[0]] if bad.size else ''} at the start of chain {bad[0] if bad.size else ''}"
            + (f" (and {bad.size - 1} more)" if bad.size > 1 else ""),
            "start inside the support, away from points where the density or its gradient is undefined",
        )
