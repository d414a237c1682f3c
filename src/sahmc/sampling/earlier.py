"""A run that starts from the result of an earlier one: its draws are the starts, and its warm-up may serve."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from sahmc._support.validate import require
from sahmc.models.model import Model
from sahmc.models.positions import flatten, named, split
from sahmc.results.result import Result
from sahmc.run.plan import Plan
from sahmc.run.start import Prepared, prepare, prepare_at
from sahmc.warmup.warm_start import Known, known_from, may_serve

MUST = "initvals that are a result must be of a model with the variables of this one"
"""What must hold of a result from which a run starts."""
ADVICE = "pass a result of such a model, or positions in its place"
"""What to do where it does not."""


@dataclasses.dataclass(frozen=True)
class Earlier:
    """An earlier run from which another starts: all that is needed of it, so that it can be stored for ``resume``."""

    starts: Any
    """The draws from which chains start, arrays (chain, ...) in the structure of a draw."""
    whole: bool
    """Whether these are positions, rather than the variables of a model or what ``keep`` made of them."""
    names: frozenset[str]
    """The names of the variables of its draws."""
    known: Known | None
    """What its warm-up knows; None if it cannot serve another run, or was not there any more."""


def as_earlier(initvals: Any, chains: int, rng_key: Key[Array, ""]) -> Any:
    """Return the initvals of a run of so many ``chains``, of a result what is needed: equal-weight draws and more."""
    if not isinstance(initvals, Result):
        return initvals
    draws, weight = initvals.record.draws, initvals.weight
    live: Any = initvals.live
    seed = int(np.asarray(jax.random.key_data(rng_key))[-1])
    chosen = np.random.default_rng(seed).choice(weight.size, chains, p=weight.ravel() / weight.sum())
    index = np.unravel_index(chosen, weight.shape)
    whole = live is not None and live.has_positions
    if whole:
        starts = split(np.asarray(live.positions[index]), live.unpack.unravel)
    else:
        starts = jax.tree.unflatten(draws.structure, [np.asarray(leaf[index]) for leaf in draws.leaves])
    known = None if live is None else known_from(live.warm, initvals.settings["prior"], draws.energy[index])
    return Earlier(starts, whole, frozenset(named(draws.values)), known)


def prepare_from(model: Model, plan: Plan, initvals: Any, rng_key: Key[Array, ""]) -> Prepared:
    """Prepare a run, by ``prepare``, whose ``initvals`` may be an earlier run, from whose draws chains then start."""
    if not isinstance(initvals, Earlier):
        return prepare(model, plan, initvals, rng_key)
    starts = [jax.tree.map(lambda x: x[i], initvals.starts) for i in range(plan.chains)]  # noqa: B023
    if not initvals.whole and model.unconstrain is not None:
        return prepare(model, plan, starts, rng_key)
    one = starts[0]
    own = one if model.start is None else model.start(rng_key)
    _require_same(_shapes(one), _shapes(own))
    if initvals.whole and model.constrain is not None and jax.tree_util.all_leaves([own]):  # names are told by it alone
        _require_same(initvals.names, named(jax.eval_shape(model.constrain, own)))
    flatten(one, "a draw of the result")
    example, unravel = flatten(own, "the start")
    leaves = named(initvals.starts)
    flat = np.concatenate([leaves[name].reshape(plan.chains, -1) for name in named(own)], axis=1)
    try:
        return prepare_at(model, plan, jnp.asarray(flat, example.dtype), unravel)
    except (TypeError, IndexError, AttributeError) as error:  # what a function does with what it did not expect
        why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        got = f"{_listed(_shapes(one))}, with which its log density fails: {why}"
        raise ValueError(f"{MUST}; got {got}. To fix it, {ADVICE}.") from error


def with_earlier(ready: Prepared, initvals: Any) -> Prepared:
    """Return a run that knows what the run from which it starts knew, if there is one and it may serve."""
    known = initvals.known if isinstance(initvals, Earlier) else None
    if known is None or not may_serve(known, ready.plan):
        return ready
    return ready._replace(plan=dataclasses.replace(ready.plan, earlier=known))


def _shapes(position: Any) -> list[str]:
    """Return the names of the variables of a position, each with its shape."""
    return [f"{name} {np.shape(leaf)}" for name, leaf in named(position).items()]


def _require_same(there: Collection[str], here: Collection[str]) -> None:
    """Raise ``ValueError`` unless the variables of an earlier run are those of the model."""
    only = [sorted(set(one) - set(other)) for one, other in ((there, here), (here, there))]
    require(only == [[], []], MUST, f"{_listed(only[0])} there, {_listed(only[1])} here", ADVICE)


def _listed(names: Collection[str]) -> str:
    return " and ".join(names) or "no other"
