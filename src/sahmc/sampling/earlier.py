"""A run that starts from the result of an earlier one: from its draws and, if it fits, its warm-up."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from sahmc._support.types import Position
from sahmc._support.validate import require
from sahmc.engine.plan import Plan
from sahmc.engine.start import Prepared, prepare, prepare_at
from sahmc.models.model import Model
from sahmc.models.positions import flatten, named, split
from sahmc.results.result import Result
from sahmc.warmup.warm_start import Known, known_from, may_serve

MUST = "initvals that are a result must be of a model with the variables of this one"
"""The requirement on a result from which a run starts."""
ADVICE = "pass a result of such a model, or positions in its place"
"""The advice if it is not met."""


@dataclasses.dataclass(frozen=True)
class Earlier:
    """The parts of an earlier run from which another starts, kept in a form that ``resume`` can store."""

    starts: Position
    """The draws from which chains start, arrays (chain, ...) in the structure of a draw."""
    whole: bool
    """Whether these are positions; otherwise they are variables of a model or values of ``keep``."""
    names: frozenset[str]
    """The names of the variables of its draws."""
    known: Known | None
    """The outcome of its warm-up; None if no other run can use it, or it is no longer there."""


def as_earlier(initvals: object, chains: int, rng_key: Key[Array, ""]) -> object:
    """Return initvals; for a result, the parts needed, with ``chains`` draws resampled to equal weight."""
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


def prepare_from(model: Model, plan: Plan, initvals: object, rng_key: Key[Array, ""]) -> Prepared:
    """Prepare a run as ``prepare`` does; ``initvals`` may also be an earlier run, whose draws give the starts."""
    if not isinstance(initvals, Earlier):
        return prepare(model, plan, initvals, rng_key)
    starts = [jax.tree.map(lambda x: x[i], initvals.starts) for i in range(plan.chains)]  # noqa: B023
    if not initvals.whole and model.unconstrain is not None:
        return prepare(model, plan, starts, rng_key)
    one = starts[0]
    own = one if model.start is None else model.start(rng_key)
    _require_same(_shapes(one), _shapes(own))
    if initvals.whole and model.constrain is not None and jax.tree_util.all_leaves([own]):  # only this shows the names
        _require_same(initvals.names, named(jax.eval_shape(model.constrain, own)))
    flatten(one, "a draw of the result")
    example, unravel = flatten(own, "the start")
    leaves = named(initvals.starts)
    flat = np.concatenate([leaves[name].reshape(plan.chains, -1) for name in named(own)], axis=1)
    try:
        return prepare_at(model, plan, jnp.asarray(flat, example.dtype), unravel)
    except (TypeError, IndexError, AttributeError) as error:  # a function given something it did not expect
        why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        got = f"{_listed(_shapes(one))}, with which its log density fails: {why}"
        raise ValueError(f"{MUST}; got {got}. To fix it, {ADVICE}.") from error


def with_earlier(ready: Prepared, initvals: object) -> Prepared:
    """Return a run that uses the warm-up of the run it starts from, if there is one and it fits."""
    known = initvals.known if isinstance(initvals, Earlier) else None
    if known is None or not may_serve(known, ready.plan):
        return ready
    return ready._replace(plan=dataclasses.replace(ready.plan, earlier=known))


def _shapes(position: Position) -> list[str]:
    """Return the names of the variables of a position, each with its shape."""
    return [f"{name} {np.shape(leaf)}" for name, leaf in named(position).items()]


def _require_same(there: Collection[str], here: Collection[str]) -> None:
    """Raise ``ValueError`` unless an earlier run has the variables of the model."""
    only = [sorted(set(one) - set(other)) for one, other in ((there, here), (here, there))]
    require(only == [[], []], MUST, f"{_listed(only[0])} there, {_listed(only[1])} here", ADVICE)


def _listed(names: Collection[str]) -> str:
    return " and ".join(names) or "no other"
