"""The symmetries that a run uses, either found automatically or given and checked."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from sahmc._support.traced import TracedFunction
from sahmc._support.types import PositionFn, Unravel
from sahmc._support.validate import Given, require, require_seed
from sahmc.engine.start import Prepared, evaluate_starts
from sahmc.models.convert import as_model
from sahmc.models.energy import trace_energy
from sahmc.models.evaluation import in_blocks
from sahmc.models.model import Model
from sahmc.models.positions import structure
from sahmc.models.starts import starting_positions
from sahmc.modes.quench import quench_all
from sahmc.symmetry.alike import held_at
from sahmc.symmetry.known import Symmetries, affine_map
from sahmc.symmetry.maps import Ids, Involution, Symmetry
from sahmc.symmetry.search import POINTS, Energies, Trial, places, search_symmetries
from sahmc.tilt.tilts import TemperedTilt

AUTO = "auto"
"""The word that asks for an automatic search for symmetries."""
TRIED = 8
"""The number of positions at which a user's function is tried."""
DOWNHILL = 200
"""The maximum number of descent steps from a start to a point where symmetries are tried again."""


def find_symmetries(
    model: Given,
    initvals: Given = None,
    *,
    model_args: tuple[object, ...] = (),
    model_kwargs: Mapping[str, object] | None = None,
    random_seed: int = 0,
) -> tuple[Symmetry, ...]:
    """Return the symmetries of a posterior: parts of a position that can change places, or sign, together.

    Only axes of the arrays in a position are tried, one length at a time, with up to two axes of an array. A vector
    without named parts shows only symmetries of its coordinates. Maps are tried around the starts and at the points
    that descent reaches from there. ``sample`` tries them again wherever its search for modes leads.

    Parameters
    ----------
    model
        The model, as for ``sample``: a log density, a ``Model``, or a model of NumPyro, PyMC or BridgeStan.
    initvals
        One position, or any other form that ``sample`` takes; None if the model draws its starts.
    model_args
        The positional arguments of a NumPyro model, a tuple; empty by default.
    model_kwargs
        The keyword arguments of a NumPyro model, a dict; none by default.
    random_seed
        The seed of the points at which maps are tried, an int. Default 0.
    """
    require_seed(random_seed, "random_seed")
    made = as_model(model, model_args, model_kwargs)
    chains = len(initvals) if isinstance(initvals, list) else POINTS
    require(chains, "a list of initvals holds at least one position", initvals, "pass one position")
    starts, unravel = starting_positions(made, initvals, chains, jax.random.key(random_seed))
    ids = places(unravel, starts[0])
    found = search_symmetries(Trial(made, np.asarray(starts), unravel, random_seed), ids)
    if not found:
        return ()
    try:
        energy_fn = trace_energy(made, unravel, starts[0], True)
    except Exception:  # without gradients there is no descent
        return found
    down = quench_all(energy_fn, np.asarray(starts), np.ones(len(starts[0]), starts.dtype), DOWNHILL)[0]
    held = held_at(energy_fn, Symmetries(found, ids), down)
    return () if held is None else held.each


def check_symmetries(given: object) -> None:
    """Raise ``ValueError`` for anything that cannot be a list of symmetries."""
    listed = isinstance(given, (list, tuple)) and all(isinstance(one, Symmetry) or callable(one) for one in given)
    require(
        given is None or listed or (isinstance(given, str) and given == AUTO),
        'symmetries must be "auto", None or a list of Permute, Flip and functions',
        given,
        'write symmetries=[sahmc.Permute(["mu", "sigma"])], say',
    )


def with_symmetries(model: Model, ready: Prepared, given: Given) -> Prepared:
    """Return the run with the symmetries of its model, if there are any.

    Symmetries that are ``given`` are checked. Otherwise they are searched for if the run searches for modes and its
    arrays have names. In a bare vector it is unknown which numbers belong together.
    """
    found = _symmetries(model, ready, given)
    return ready if found is None else ready._replace(plan=dataclasses.replace(ready.plan, symmetries=found))


def _symmetries(model: Model, ready: Prepared, given: Given) -> Symmetries | None:
    """Return the symmetries; None if there are none."""
    plan, unravel, example, starts = ready.plan, ready.unravel, ready.example, np.asarray(ready.positions)
    look = plan.looks_for_modes and plan.tilt is TemperedTilt
    bare = jax.tree_util.treedef_is_leaf(jax.tree.structure(jax.eval_shape(unravel, example)))
    if given is None or len(given) == 0 or (given == AUTO and (bare or not look)):
        return None
    ids = places(unravel, example)
    trial = Trial(model, starts, unravel, 0, _quick(ready.energy_fn, starts))
    if given == AUTO:
        try:
            found = search_symmetries(trial, ids)
        except Exception as error:  # a model that runs in 32 bits may fail in 64, and the run works without symmetries
            warnings.warn(
                f"symmetries could not be looked for ({str(error).splitlines()[0]}): every copy of a mode is a mode. "
                "Give them by symmetries=[...], or pass symmetries=None.",
                stacklevel=7,
            )
            return None
        return Symmetries(found, ids) if found else None
    given = [one if isinstance(one, Symmetry) else involution_of(one, unravel, starts.shape[1]) for one in given]
    for symmetry in given:
        maps = symmetry.generators(ids)
        require(maps, "parts that change places must be two or more", f"{symmetry}", "leave it out")
        must = "a symmetry must leave the log density, and the prior where it is apart, as they are"
        given_was = f"{symmetry}, which changes them, or they are so large at the starts that it cannot be told"
        require(trial.holds(maps).all(), must, given_was, "check its names and axes, and where chains start")
    _check_commute(given, ids, starts.shape[1])
    return Symmetries(tuple(given), ids, given=True)


def involution_of(function: PositionFn, unravel: Unravel, dim: int) -> Involution:
    """Return a user's function of positions as a map of flat positions.

    Raises ``ValueError`` unless it only exchanges numbers or changes their signs, and is its own inverse.
    """
    name = getattr(function, "__name__", type(function).__name__)
    points = np.random.default_rng(0).normal(size=(TRIED, dim)).astype(np.float32)
    images = []
    for point in points:
        position = unravel(jnp.asarray(point))
        image = function(position)
        ok = jax.tree.map(jnp.shape, image) == jax.tree.map(jnp.shape, position)
        must = "a symmetry that is a function must map a position to one with the same structure"
        require(ok, must, f"{name}, which returns {jax.tree.map(jnp.shape, image)}", f"return {structure(position)}")
        images.append(np.asarray(ravel_pytree(image)[0]))
    found = affine_map(name, points.astype(float), np.stack(images).astype(float))
    require(
        found is not None and not any(found.shift),
        "a symmetry that is a function must exchange numbers of a position or change their signs, and undo itself",
        f"{name}, which does not",
        "write one that does; numbers are unconstrained, so that 1 - p of a share p is the other sign of its logit",
    )
    assert found is not None
    return found


def _check_commute(symmetries: Sequence[Symmetry], ids: Ids, dim: int) -> None:
    """Raise ``ValueError`` for functions that do not commute with each other or with other symmetries."""
    point = np.arange(1.0, dim + 1)
    for one in (one for one in symmetries if isinstance(one, Involution)):
        for other in (other for other in symmetries if other is not one):
            for each in other.generators(ids):
                require(
                    np.array_equal(one(each(point)), each(one(point))),
                    "symmetries that are functions must do the same in whatever order they are applied",
                    f"{one} and {other}, which do not",
                    "give parts that change places as one Permute",
                )


def _quick(energy_fn: TracedFunction, starts: np.ndarray) -> Energies:
    """Return a function that computes energies with the code already compiled for chains at ``starts``."""

    def energies(points: np.ndarray) -> np.ndarray:
        found = np.zeros((len(points), 2))
        for block, padded in in_blocks(points.astype(starts.dtype), len(starts)):
            chains = evaluate_starts(energy_fn, jnp.asarray(padded))[1].chains
            num = len(found[block])
            found[block, 0] = np.asarray(chains.energy)[:num]
            found[block, 1] = 0.0 if chains.base is None else np.asarray(chains.base.energy)[:num]
        return found

    return energies
