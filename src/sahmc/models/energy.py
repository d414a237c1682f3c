"""The energy of a model, as a function of flat positions that is traced once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sahmc._support.traced import TracedFunction, trace
from sahmc._support.validate import require
from sahmc.models.model import Model
from sahmc.models.positions import Unpacker

Vector = Float[Array, " dim"]


class BaseEnergy(NamedTuple):
    """The prior's share of the energy, on which the tilt does not act."""

    energy: Float[Array, ""]
    grad: Vector | None
    """None for kernels that need no gradient."""


def trace_energy(model: Model, unravel: Callable[[Vector], Any], example: Vector, gradient: bool) -> TracedFunction:
    """E, its gradient, and the prior's (``BaseEnergy``) as one program of a flat position; the model is called once."""

    def energy_of(log_density: Callable[[Any], Any], gradient: bool) -> Callable[[Vector], Any]:
        def energy(flat: Vector) -> Any:
            value = jnp.asarray(log_density(unravel(flat)))
            require(
                value.shape == () and jnp.issubdtype(value.dtype, jnp.floating),
                "a log density must return one real number",
                f"an array of shape {value.shape} and type {value.dtype} from a position of dimension {flat.size}",
                "sum over data and coordinates; the function is given one position, never a batch of chains",
            )
            return -value.astype(flat.dtype)

        def bounded(flat: Vector) -> Any:
            """A log density of +inf is an overflow far out, not a place to stay."""
            value, grad = jax.value_and_grad(energy)(flat) if gradient else (energy(flat), None)
            return jnp.where(value == -jnp.inf, jnp.inf, value), grad

        return bounded

    def energies(flat: Vector, gradient: bool = gradient) -> Any:
        if model.log_likelihood is not None and model.log_prior is not None:
            likelihood, prior = (energy_of(fn, gradient) for fn in (model.log_likelihood, model.log_prior))
            return (*likelihood(flat), BaseEnergy(*prior(flat)))
        assert model.log_density is not None
        return (*energy_of(model.log_density, gradient)(flat), None)

    try:
        return _traced(energies, example, "a log density")
    except Exception as error:
        if gradient and _works(lambda flat: energies(flat, gradient=False), example):
            raise ValueError(
                f"a log density must have a gradient; JAX cannot take that of this one: {str(error).splitlines()[0]} "
                "To fix it, write loops with lax.scan or fori_loop of a fixed length in place of lax.while_loop and "
                'give callbacks a jax.custom_vjp; or pass kernel="random_walk", which needs none.'
            ) from error
        raise


def _works(fn: Callable[[Vector], Any], example: Vector) -> bool:
    try:
        jax.eval_shape(fn, example)
    except Exception:
        return False
    return True


def trace_keep(keep: Callable[[Any], Any], unpack: Unpacker, example: Vector) -> TracedFunction:
    """What is kept of a flat position."""
    kept = _traced(lambda flat: jax.tree.map(jnp.asarray, keep(unpack(flat))), example, "keep")
    require(kept.returns.num_leaves, "keep must return arrays", "none", "return what you want to look at")
    return kept


UNTRACED = (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError)


def _traced(fn: Callable[[Vector], Any], example: Vector, what: str) -> TracedFunction:
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
