"""Models written in NumPyro."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from sahmc._support.types import PositionFn
from sahmc._support.validate import require, require_library
from sahmc.models.model import NO_DATA, Labels, Model
from sahmc.models.numpyro_predictor import Args, Kwargs, NumPyroModel, NumPyroPredictor
from sahmc.models.positions import require_shapes
from sahmc.models.simplex import log_pin, log_volume, logits_of

RADIUS = 2.0
"""The half-width around 0 of the uniform distribution of starts, in every unconstrained coordinate; NumPyro's
default."""

MOST_RUNS = 10
"""The maximum number of runs of a model, each with other latent values, until its parameters are all valid."""

Site: TypeAlias = Mapping[str, Any]
"""A site as NumPyro's handlers record it: its name, type, value, distribution and so on."""
Sites: TypeAlias = Mapping[str, Site]
"""The sites of a model by name."""
Distribution: TypeAlias = Any
"""A distribution of NumPyro, which has no types."""
Point: TypeAlias = Mapping[str, Array]
"""A position: the unconstrained values of latent sites, by name."""
Given: TypeAlias = Callable[[Point], NumPyroModel]
"""A function from a position to the model at this position."""


def from_numpyro(model: NumPyroModel, *args: object, **kwargs: object) -> Model:
    """Return a NumPyro model, called with these arguments, as a ``Model``.

    Positions are the unconstrained values of its latent sites. Draws are the sites and deterministics by name, with
    plates as dims. Prior and likelihood are separate, unless the prior is improper or a discrete site is summed out.
    """
    require_library("numpyro")
    require(callable(model), "model must be a function with NumPyro's sample statements", model, "pass the function")
    from numpyro import handlers
    from numpyro.infer.util import unconstrain_fn

    seeded = handlers.seed(model, jax.random.key(0))
    sites = _sites(model, args, kwargs)
    latent = {name: site for name, site in sites.items() if site["type"] == "sample" and not site["is_observed"]}
    enumerated = _check(sites, latent)
    if not any(site["type"] == "sample" and site["is_observed"] for site in sites.values()):
        warnings.warn(NO_DATA, stacklevel=2)
    masked = _needs_masks(sites, _sites(model, args, kwargs, seed=1))
    simplexes = [name for name, site in latent.items() if _is_simplex(site)]

    def as_position(values: Mapping[str, Array]) -> Point:
        logits = {name: logits_of(values[name]) for name in simplexes}
        return {**unconstrain_fn(seeded, args, kwargs, values), **logits}

    continuous = {name: site["value"] for name, site in latent.items() if not site["fn"].support.is_discrete}
    example = as_position(continuous)
    following = {name for name, site in sites.items() if site["type"] == "deterministic"}
    given = partial(_substituted, seeded, simplexes)

    def start(rng_key: Array) -> Point:
        leaves, tree = jax.tree.flatten(example)
        keys = jax.random.split(rng_key, len(leaves))
        drawn = [jax.random.uniform(k, x.shape, x.dtype, -RADIUS, RADIUS) for k, x in zip(keys, leaves, strict=True)]
        return jax.tree.unflatten(tree, drawn)

    def unconstrain(variables: Mapping[str, Any]) -> Point:
        known = ", ".join(map(repr, example))
        variables = {name: value for name, value in variables.items() if name not in following}
        missing, stray = sorted(example.keys() - variables.keys()), sorted(variables.keys() - example.keys())
        given = " and ".join(
            words for words, names in ((f"no {missing}", missing), (f"an unknown {stray}", stray)) if names
        )
        require(not given, f"initvals must have a value for each of {known}", given, "add or drop what is named")
        require_shapes(variables, {name: np.shape(value) for name, value in continuous.items()})
        return as_position({name: jnp.asarray(value) for name, value in variables.items()})

    def draw_prior(rng_key: Array) -> Point:
        drawn = handlers.trace(handlers.seed(model, rng_key)).get_trace(*args, **kwargs)
        return unconstrain({name: drawn[name]["value"] for name in example})

    parts: dict[str, PositionFn] = {"log_density": partial(_whole, given, args, kwargs, enumerated)}
    improper = any(_is_improper(site["fn"]) for site in latent.values())
    if not enumerated and not improper:
        parts = {
            "log_likelihood": partial(_part, given, args, kwargs, True),
            "log_prior": partial(_part, given, args, kwargs, False),
        }
    if not masked:
        parts = {name: _without_masks(part) for name, part in parts.items()}
    labels = _labels(sites, example)
    sizes = {name: values.size for name, values in labels.observed_data.items()}
    return Model(
        **parts,
        start=start,
        constrain=partial(_constrain, seeded, args, kwargs, simplexes),
        unconstrain=unconstrain,
        labels=labels,
        prior_normalised="log_prior" in parts and all(map(_is_whole, latent.values())),
        predictor=NumPyroPredictor(model, args, kwargs, tuple(example), sizes, enumerated, improper),
        draw_prior=None if improper else jax.jit(draw_prior),  # compiled, so that NumPyro rejects no parameters
    )


def is_numpyro_model(model: object, args: Args, kwargs: Kwargs) -> bool:
    """Tell whether ``model`` is a function that, called with these arguments, has NumPyro sample sites.

    A log density needs a position, so it cannot be called like this.
    """
    if "numpyro" not in sys.modules or not callable(model):
        return False
    try:
        inspect.signature(model).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return False
    return any(site["type"] == "sample" for site in _sites(model, args, kwargs).values())


def _sites(model: NumPyroModel, args: Args, kwargs: Kwargs, seed: int = 0) -> Sites:
    """Return the sites of one run of the model, by name.

    Latent values are drawn like NumPyro's starts, since a prior may be improper. NumPyro raises ``ValueError`` for
    parameters that are not finite, and random latent values can lead to some: for example, a time series explodes.
    Other latent values are then tried. If all fail, the first error is raised.
    """
    from numpyro import handlers
    from numpyro.infer import init_to_uniform

    first, key = None, jax.random.key(seed)
    for i in range(MOST_RUNS):
        seeded = handlers.seed(model, jax.random.fold_in(key, i) if i else key)
        try:
            return handlers.trace(handlers.substitute(seeded, substitute_fn=init_to_uniform)).get_trace(*args, **kwargs)
        except ValueError as error:
            first = first or error
    assert first is not None
    raise first


def _check(sites: Sites, latent: Sites) -> bool:
    """Raise ``ValueError`` for models that cannot be sampled; return whether there are discrete sites to sum out."""
    parameters = [name for name, site in sites.items() if site["type"] == "param"]
    require(
        not parameters,
        "a model must be made of sample sites",
        f"numpyro.param sites {parameters}, which have no prior",
        "give them one with numpyro.sample, or numpyro.contrib.module.random_flax_module for a network",
    )
    subsampled = [
        name for name, site in sites.items() if site["type"] == "plate" and len(site["value"]) < site["args"][0]
    ]
    require(
        not subsampled,
        "a log density must be the same each time it is computed",
        f"plates {subsampled}, of which a random part is used",
        "leave subsample_size out",
    )
    require(latent, "a model must have something to sample", "no latent site", "condition on less data")
    discrete = [name for name, site in latent.items() if site["fn"].support.is_discrete]
    endless = [name for name in discrete if not latent[name]["fn"].has_enumerate_support]
    advice = (
        "sum them out by hand (for a mixture: numpyro.distributions.MixtureSameFamily), or replace them by a "
        "continuous relaxation"
    )
    require(not endless, "latent variables must be continuous", f"discrete sites {endless}", advice)
    if discrete:
        import importlib.util

        have = importlib.util.find_spec("funsor") is not None
        must = "to sum out discrete sites NumPyro needs funsor"
        require(have, must, f"discrete sites {discrete}, and it is not installed", f"pip install funsor, or {advice}")
    return bool(discrete)


def _needs_masks(sites: Sites, again: Sites) -> bool:
    """Tell whether observed values could lie outside their support for some latent values.

    ``sites`` and ``again`` come from runs with different latent values. If values could lie outside, NumPyro gives them
    zero density, by a mask over the data in every evaluation. Values outside a support that is independent of latent
    values raise ``ValueError``.
    """
    from numpyro import distributions as dist

    moving = False
    for name, site in sites.items():
        if site["type"] != "sample" or not site["is_observed"]:
            continue
        layers = _layers(site["fn"])
        support = inspect.getattr_static(type(layers[-1]), "support")
        fixed = isinstance(support, dist.constraints.Constraint) and not dist.constraints.is_dependent(support)
        if not fixed or name not in again or not np.array_equal(site["value"], again[name]["value"], equal_nan=True):
            moving = True
            continue
        inside = bool(np.all(site["fn"].support(site["value"])))
        if any(isinstance(layer, dist.MaskedDistribution) for layer in layers):
            moving = moving or not inside
            continue
        family = type(layers[-1]).__name__
        require(
            inside,
            f"observed values must lie in the support of their distribution, {family}",
            f"some of {name!r} that do not",
            "correct the data, mask what is missing, or take another distribution",
        )
    return moving


def _layers(distribution: Distribution) -> list[Distribution]:
    """Return a distribution and the ones nested in it; for a mixture that is the component distribution."""
    from numpyro import distributions as dist

    wrappers = (dist.ExpandedDistribution, dist.Independent, dist.MaskedDistribution)
    layers = [distribution]
    while isinstance(layers[-1], (*wrappers, dist.MixtureSameFamily)):
        last = layers[-1]
        layers.append(last.base_dist if isinstance(last, wrappers) else last.component_distribution)
    return layers


def _without_masks(part: PositionFn) -> PositionFn:
    """Return a log density that does not check whether the data lie in their support."""

    def unmasked(position: Point) -> Array:
        from numpyro import validation_enabled

        with validation_enabled(False):
            return part(position)

    return unmasked


def _is_improper(distribution: Distribution) -> bool:
    from numpyro import distributions as dist

    while hasattr(distribution, "base_dist"):
        distribution = distribution.base_dist
    return isinstance(distribution, dist.ImproperUniform)


def _is_whole(site: Site) -> bool:
    """Tell whether the density of a latent site is neither masked nor scaled, so that it has mass 1."""
    from numpyro import distributions as dist

    return site["scale"] is None and not any(isinstance(d, dist.MaskedDistribution) for d in _layers(site["fn"]))


def _is_simplex(site: Site) -> bool:
    """Tell whether a latent site is a simplex; the position then holds logits of its parts."""
    from numpyro.distributions import constraints

    support = site["fn"].support
    while isinstance(support, type(constraints.independent(constraints.real, 1))):
        support = support.base_constraint
    return support is constraints.simplex and "_scan_current_index" not in site["infer"]


def _substituted(model: NumPyroModel, simplexes: list[str], position: Point) -> NumPyroModel:
    """Return the model at a position, with Jacobians as extra sites; ``simplexes`` lists the names of simplex sites."""
    import numpyro
    from numpyro import handlers
    from numpyro.infer.util import _unconstrain_reparam

    def value(site: Site) -> Array | None:
        name = site["name"]
        if name not in simplexes or site["type"] != "sample":
            return _unconstrain_reparam(position, site)
        numpyro.factor(f"_{name}_log_det", log_volume(position[name]) + log_pin(position[name]))
        return jax.nn.softmax(position[name], axis=-1)

    return handlers.substitute(model, substitute_fn=value)


def _constrain(model: NumPyroModel, args: Args, kwargs: Kwargs, simplexes: list[str], position: Point) -> Point:
    """Return the latent sites and the deterministics at a position."""
    from numpyro import handlers
    from numpyro.infer.util import constrain_fn

    known = {name: jax.nn.softmax(position[name], axis=-1) for name in simplexes}
    rest = {name: value for name, value in position.items() if name not in known}
    found = constrain_fn(handlers.substitute(model, data=known), args, kwargs, rest, return_deterministic=True)
    return {**{name: known.get(name, found.get(name)) for name in position}, **found}


def _whole(given: Given, args: Args, kwargs: Kwargs, enumerated: bool, position: Point) -> Array:
    """Return the log density at a position, with discrete sites summed out if ``enumerated``."""
    if enumerated:
        from numpyro.contrib.funsor import log_density
    else:
        from numpyro.infer.util import log_density
    return log_density(given(position), args, kwargs, {})[0]


def _part(given: Given, args: Args, kwargs: Kwargs, observed: bool, position: Point) -> Array:
    """Return the log likelihood if ``observed``, otherwise the log prior, including the Jacobians of the transforms.

    ``args`` and ``kwargs`` are the arguments of the model, and ``position`` holds its unconstrained latent values;
    ``given`` returns the model at these.
    """
    from numpyro.infer.util import compute_log_probs

    terms, sites = compute_log_probs(given(position), args, kwargs, {}, True)
    jacobians = {f"_{name}_log_det" for name in position}
    data = {name for name in terms if sites[name]["is_observed"] and name not in jacobians}
    chosen = [term for name, term in terms.items() if observed == (name in data)]
    return sum(chosen, jnp.zeros((), jax.tree.leaves(position)[0].dtype))


def _labels(sites: Sites, sampled: Point) -> Labels:
    """Return the plates as dims, and the observed values; ``sampled`` holds the latent sites that draws contain."""
    from numpyro import distributions as dist

    dims, observed = {}, {}
    for name, site in sites.items():
        if site["type"] == "deterministic":
            own = _plates(np.shape(site["value"]), site["cond_indep_stack"])
        elif site["type"] == "sample":
            own = [None] * np.ndim(site["value"])
            for frame in site["cond_indep_stack"]:
                own[len(site["fn"].batch_shape) + frame.dim] = frame.name
        else:
            continue
        data = site["type"] == "sample" and site["is_observed"] and not isinstance(site["fn"], dist.Unit)
        if (name in sampled or data or site["type"] == "deterministic") and any(own):
            dims[name] = [label or f"{name}_dim_{i}" for i, label in enumerate(own)]
        if data:
            observed[name] = np.asarray(site["value"])
    return Labels(dims=dims, observed_data=observed)


def _plates(shape: tuple[int, ...], frames: list[Any]) -> list[str | None]:
    """Return the plate of each axis of a deterministic value of this shape; none if ambiguous.

    NumPyro does not record its axes within a plate, so the sizes must leave only one choice.
    """
    found = []
    for inner in range(len(shape) + 1):
        places = {len(shape) - inner + frame.dim: frame for frame in frames}
        if all(at >= 0 and shape[at] == frame.size for at, frame in places.items()):
            found.append([places[at].name if at in places else None for at in range(len(shape))])
    return found[0] if len(found) == 1 else [None] * len(shape)
