"""The energy of a model, as a function of flat positions that is traced once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sahmc._support.compiled import make_room
from sahmc._support.traced import TracedFunction, trace
from sahmc._support.types import PositionFn, Unravel
from sahmc._support.validate import require
from sahmc.models.model import Model
from sahmc.models.positions import Unpacker, called, require_storable

Vector = Float[Array, " dim"]
"""A flat position."""
Scalar = Float[Array, ""]
"""One number."""
FURTHEST = 1e33
"""The size of a coordinate beyond which every density counts as zero, since only overflow would end a flat density."""


class BaseEnergy(NamedTuple):
    """The prior's share of the energy, which is not tilted."""

    energy: Scalar
    """-log prior."""
    grad: Vector | None
    """The gradient of ``energy``; None for kernels without gradients."""


def trace_energy(model: Model, unravel: Unravel, example: Vector, gradient: bool) -> TracedFunction:
    """Return the energy of a model as one program of a flat position; the model is called once.

    The program returns E, its gradient, and the prior's share. If the model separates prior and likelihood, E is -log
    likelihood and the prior's share is a ``BaseEnergy``. Otherwise E is -log density and the share is None. ``unravel``
    maps a flat position to the structure that the model expects, and ``example`` is a flat position. Gradients are None
    unless ``gradient`` is true.
    """

    def energy_of(log_density: PositionFn, gradient: bool) -> Callable[[Vector], tuple[Scalar, Vector | None]]:
        def energy(flat: Vector) -> Scalar:
            given = called(log_density, unravel(flat), "a log density")
            plain = isinstance(given, (int, float, np.generic, np.ndarray, jax.Array))
            what = "None" if given is None else f"a {type(given).__name__}"
            todo = "end the function with `return`" if given is None else "return one, by jnp.sum, say"
            require(plain, "a log density must return one real number", what, todo)
            value = jnp.asarray(given)
            require(
                value.shape == (),
                "a log density must return one real number",
                f"an array of shape {value.shape} from a position of dimension {flat.size}",
                "sum over data and coordinates; the function is given one position, never a batch of chains",
            )
            todo = "compute it in floating-point numbers; whole numbers have no gradient"
            if jnp.issubdtype(value.dtype, jnp.complexfloating):
                todo = "return its real part, by jnp.real, if the imaginary part is 0"
            ok = jnp.issubdtype(value.dtype, jnp.floating)
            require(ok, "a log density must return one real number", f"a number of type {value.dtype}", todo)
            return -value.astype(flat.dtype)

        def bounded(flat: Vector) -> tuple[Scalar, Vector | None]:
            """Return the energy and its gradient, which is 0 where the energy is +inf.

            A log density of +inf is an overflow far out, and becomes energy +inf.
            """
            value, grad = jax.value_and_grad(energy)(flat) if gradient else (energy(flat), None)
            value = jnp.where(jnp.all(jnp.abs(flat) < FURTHEST), value, jnp.inf)
            grad = None if grad is None else jnp.where(value == jnp.inf, 0.0, grad)
            return jnp.where(value == -jnp.inf, jnp.inf, value), grad

        return bounded

    def energies(flat: Vector, gradient: bool = gradient) -> tuple[Scalar, Vector | None, BaseEnergy | None]:
        if model.log_likelihood is not None and model.log_prior is not None:
            likelihood, prior = (energy_of(fn, gradient) for fn in (model.log_likelihood, model.log_prior))
            value, grad = likelihood(flat)
            # Where the likelihood is undefined it counts as zero: the prior must not be cut off there.
            return jnp.where(jnp.isnan(value), jnp.inf, value), grad, BaseEnergy(*prior(flat))
        assert model.log_density is not None
        return (*energy_of(model.log_density, gradient)(flat), None)

    try:
        made = _traced(energies, example, "a log density")
    except Exception as error:
        if gradient and _works(lambda flat: energies(flat, gradient=False), example):
            raise ValueError(
                f"a log density must have a gradient; JAX cannot take that of this one: {str(error).splitlines()[0]} "
                "To fix it, write loops with lax.scan or fori_loop of a fixed length in place of lax.while_loop and "
                'give callbacks a jax.custom_vjp; or pass kernel="random_walk", which needs none.'
            ) from error
        raise
    try:
        jax.eval_shape(jax.vmap(made), example[None])
    except NotImplementedError as error:
        raise ValueError(
            f"a log density must work for many chains at once, by jax.vmap; got {str(error).splitlines()[0]} To fix "
            'it, pass vmap_method="sequential" to jax.pure_callback, or write it without what cannot be batched.'
        ) from error
    make_room(made.steps)
    return made


def _works(fn: Callable[[Vector], object], example: Vector) -> bool:
    """Tell whether JAX can trace ``fn``."""
    try:
        jax.eval_shape(fn, example)
    except Exception:
        return False
    return True


def trace_keep(keep: PositionFn, unpack: Unpacker, example: Vector) -> TracedFunction:
    """Return the user's ``keep`` as a program of a flat position.

    ``unpack`` turns a flat position into the argument of ``keep``, and ``example`` is a flat position.
    """
    kept = _traced(lambda flat: jax.tree.map(jnp.asarray, called(keep, unpack(flat), "keep")), example, "keep")
    require(kept.returns.num_leaves, "keep must return arrays", "none", "return what you want to look at")
    require_storable(jax.eval_shape(kept, example))
    return kept


UNTRACED = (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError)
"""The errors by which JAX reports that a function needs concrete values of its arguments."""


def _traced(fn: Callable[[Vector], object], example: Vector, what: str) -> TracedFunction:
    """Return ``fn`` as a program of a flat position; raise ``ValueError`` about ``what`` if JAX cannot trace it."""
    try:
        return trace(fn, example)
    except jax.errors.NonConcreteBooleanIndexError as error:
        raise ValueError(
            f"{what} must be made of arrays whose shapes do not depend on values; got one that picks elements by a "
            "condition. To fix it, use jnp.where(condition, value, 0.0) in place of value[condition]."
        ) from error
    except UNTRACED as error:
        raise ValueError(
            f"{what} must be a JAX function of traced arrays; got one that turned its argument into a plain number, "
            "boolean, shape or NumPy array. To fix it, use jax.numpy in place of numpy and jnp.where in place of if."
        ) from error
