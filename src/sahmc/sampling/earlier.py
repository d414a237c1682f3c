"""A run that starts from the result of an earlier one: its draws are the starts, and its warm-up may serve."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from sahmc._support.validate import require
from sahmc.models.model import Model
from sahmc.results.result import Result
from sahmc.run.plan import Plan
from sahmc.run.start import Prepared, prepare
from sahmc.warmup.warm_start import may_serve


def prepare_from(model: Model, plan: Plan, initvals: Any, rng_key: Key[Array, ""]) -> Prepared:
    """Prepare a run, by ``prepare``, of which ``initvals`` may be the result of another run.

    Its chains then start from equal-weight draws of that.
    """
    if not isinstance(initvals, Result):
        return prepare(model, plan, initvals, rng_key)
    live, weight = initvals.live, initvals.weight
    seed = int(np.asarray(jax.random.key_data(rng_key))[-1])
    chosen = np.random.default_rng(seed).choice(weight.size, plan.chains, p=weight.ravel() / weight.sum())
    index = np.unravel_index(chosen, weight.shape)
    if live is None or not live.has_positions:
        leaves = [np.asarray(leaf[index]) for leaf in initvals.record.draws.leaves]
        structure = initvals.record.draws.structure
        starts = [jax.tree.unflatten(structure, [leaf[i] for leaf in leaves]) for i in range(plan.chains)]
        return prepare(model, plan, starts, rng_key)
    known: Any = live
    flat = jnp.asarray(np.asarray(known.positions[index]))
    one = None if model.start is not None else known.unpack.unravel(flat[0])
    ready = prepare(model, plan, one, rng_key)
    require(
        ready.positions.shape == flat.shape,
        "initvals that are a result must be of a model with positions like these",
        f"{flat.shape[1]} numbers there, {ready.positions.shape[1]} here",
        "pass positions in its place",
    )
    return ready._replace(positions=flat.astype(ready.positions.dtype))


def with_earlier(ready: Prepared, initvals: Any) -> Prepared:
    """Return a run that knows the warm-up of the result from which it starts, if there is one and it may serve."""
    live: Any = initvals.live if isinstance(initvals, Result) else None
    if live is None or not may_serve(live.warm, ready.plan):
        return ready
    return ready._replace(plan=dataclasses.replace(ready.plan, earlier=live.warm))
