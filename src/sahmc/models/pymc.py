"""Models written in PyMC."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from sahmc._support.types import PositionFn
from sahmc._support.validate import require, require_library
from sahmc.models.model import NO_DATA, Labels, Model
from sahmc.models.positions import require_shapes
from sahmc.models.pymc_predictor import PyMCModel, PyMCPredictor
from sahmc.models.simplex import log_pin

JITTER = 1.0
"""The half-width, around PyMC's initial point, of the uniform distribution of starts in unconstrained coordinates."""

Variable: TypeAlias = Any
"""A variable, or another expression, of PyTensor, which has no types."""
Point = dict[str, jax.Array]
"""A position: the unconstrained value variables by name."""

ONTO = {"LogTransform", "LogOddsTransform", "Interval", "IntervalTransform", "SimplexTransform", "LogExpM1"}
"""The names of PyMC's transforms that map one-to-one onto the whole support of a variable, so that a prior keeps its
mass. An ordered vector covers only part of its support, and an angle repeats every turn."""


def from_pymc(model: PyMCModel) -> Model:
    """Return a PyMC model as a ``Model``, with its log density translated to JAX, without callbacks.

    Positions are the unconstrained value variables. Draws are the free variables and deterministics by name, with the
    model's coords and dims. Prior and likelihood are separate, unless the prior is improper. The data are the model's
    current data.
    """
    require_library("pymc")
    known = hasattr(model, "free_RVs") and hasattr(model, "value_vars")
    require(known, "model must be a pymc.Model", model, "pass what `with pm.Model() as model` made")
    get_jaxified_graph = _graphs()  # first: it switches JAX to 64 bits, which the starts must use
    from pymc.util import get_default_varnames

    discrete = [variable.name for variable in model.free_RVs if variable.dtype.startswith(("int", "uint", "bool"))]
    advice = "sum them out (pm.Mixture, or marginalize() of pymc-extras), or replace them by a continuous relaxation"
    require(not discrete, "latent variables must be continuous", f"discrete {discrete}", advice)
    require(model.free_RVs, "a model must have something to sample", "no free variable", "observe less data")
    if not model.observed_RVs and not model.potentials:
        warnings.warn(NO_DATA, stacklevel=2)
    names = [variable.name for variable in model.value_vars]
    simplexes = _simplexes(model)

    def as_position(point: Mapping[str, np.ndarray]) -> Point:
        return {name: _lifted(jnp.asarray(point[name], float), name in simplexes) for name in names}

    initial = as_position(model.initial_point(0))

    def start(rng_key: jax.Array) -> Point:
        keys = jax.random.split(rng_key, len(names))
        return {
            name: x + jax.random.uniform(key, x.shape, x.dtype, -JITTER, JITTER)
            for key, (name, x) in zip(keys, initial.items(), strict=True)
        }

    # the free variables, constrained, and the deterministics
    outputs = list(get_default_varnames(model.unobserved_value_vars, include_transformed=False))
    jaxified = partial(_jaxified, get_jaxified_graph, model)
    constrain = jaxified(outputs)
    improper = [v.name for v in model.free_RVs if type(v.owner.op).__name__ in ("FlatRV", "HalfFlatRV")]
    if improper:
        whole = jaxified([model.logp()])
        parts: dict[str, PositionFn] = {"log_density": lambda position: whole(position)[0] + _pins(position, simplexes)}
    else:
        prior, data = jaxified([model.varlogp]), jaxified([model.observedlogp + model.potentiallogp])
        parts = {
            "log_prior": lambda position: prior(position)[0] + _pins(position, simplexes),
            "log_likelihood": lambda position: data(position)[0],
        }
    labels, transforms = _labels(model), model.rvs_to_transforms.values()
    return Model(
        **parts,
        start=start,
        constrain=lambda position: dict(zip([v.name for v in outputs], constrain(position), strict=True)),
        unconstrain=lambda values: as_position(_initial_point(model, values)),
        labels=labels,
        prior_normalised=not improper and all(how is None or type(how).__name__ in ONTO for how in transforms),
        predictor=PyMCPredictor(model, labels, tuple(improper)),
    )


def _jaxified(
    get_jaxified_graph: Callable[..., Callable[..., Sequence[jax.Array]]], model: PyMCModel, outputs: Sequence[Variable]
) -> Callable[[Point], Sequence[jax.Array]]:
    """Return PyTensor expressions ``outputs`` of a model as a JAX function of a position.

    ``get_jaxified_graph`` is PyMC's own translator.
    """
    try:
        graph = get_jaxified_graph(inputs=model.value_vars, outputs=list(outputs))
    except NotImplementedError as error:
        raise ValueError(
            f"every operation of a model must be one that PyTensor can hand to JAX; got one that it cannot: {error}. "
            "To fix it, write it with other operations, or register it with pytensor.link.jax.dispatch.jax_funcify."
        ) from error
    simplexes = _simplexes(model)
    names = [variable.name for variable in model.value_vars]
    return lambda position: graph(*(_lowered(position[name], name in simplexes) for name in names))


def _simplexes(model: PyMCModel) -> set[str]:
    """Return the names of the value variables of simplexes; the position holds a logit for each part."""
    transforms = model.rvs_to_transforms.items()
    return {model.rvs_to_values[rv].name for rv, how in transforms if type(how).__name__ == "SimplexTransform"}


def _lifted(value: jax.Array, simplex: bool) -> jax.Array:
    """Return a value variable in position form: for a simplex PyMC omits the last logit, which makes the sum 0."""
    return jnp.concatenate([value, -value.sum(axis=-1, keepdims=True)], axis=-1) if simplex else value


def _lowered(value: jax.Array, simplex: bool) -> jax.Array:
    """Return a part of a position as PyMC's value variable."""
    return value[..., :-1] - value.mean(axis=-1, keepdims=True) if simplex else value


def _pins(position: Point, simplexes: set[str]) -> jax.Array | float:
    """Return the log density of the sums of logits, with the log Jacobian from these logits to PyMC's."""
    total: jax.Array | float = 0.0
    for name in sorted(simplexes):
        logits = position[name]
        total += log_pin(logits) - 0.5 * math.prod(logits.shape[:-1]) * math.log(logits.shape[-1])
    return total


def _graphs() -> Callable[..., Callable[..., Sequence[jax.Array]]]:
    """Return PyMC's translator to JAX.

    Importing it sets an environment variable that asks JAX for a hundred devices. JAX is started first, so that this
    has no effect, and the variable is restored.
    """
    jax.devices()
    before = os.environ.get("XLA_FLAGS")
    from pymc.sampling.jax import get_jaxified_graph

    if before is None:
        os.environ.pop("XLA_FLAGS", None)
    else:
        os.environ["XLA_FLAGS"] = before
    return get_jaxified_graph


def _initial_point(model: PyMCModel, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return PyMC's initial point, with some variables replaced by ``values``, constrained and by name."""
    from pymc.initial_point import make_initial_point_fn

    known = [variable.name for variable in model.free_RVs]
    if all(name in values for name in known):  # a draw, which determines the deterministics
        following = {variable.name for variable in model.deterministics}
        values = {name: value for name, value in values.items() if name not in following}
    stray = [name for name in values if name not in known]
    require(not stray, f"initvals must be of the free variables {known}", f"{stray}", "drop or rename them")
    shapes = {variable.name: variable.type.shape for variable in model.free_RVs if None not in variable.type.shape}
    require_shapes({name: value for name, value in values.items() if name in shapes}, shapes)
    return make_initial_point_fn(model=model, overrides=dict(values), return_transformed=True)(0)


def _labels(model: PyMCModel) -> Labels:
    """Return coords, dims and data of a model."""
    from pymc.backends.arviz import coords_and_dims_for_inferencedata, find_constants, find_observations

    coords, dims = coords_and_dims_for_inferencedata(model)
    data = {name: np.asarray(values) for name, values in find_observations(model).items()}
    constants = {name: np.asarray(values) for name, values in find_constants(model).items()}
    return Labels(coords, dims, data, constants)
