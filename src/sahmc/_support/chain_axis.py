"""Chains that are split over a mesh of devices, and what does not depend on how: sums over all of them, and groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

AXIS = "sahmc_chains"
"""The name of the axis."""


Each = Callable[[Callable[..., Any]], Callable[..., Any]]
"""A way to apply a function of one chain to all chains, the leading axis of its arguments, such as ``jax.vmap``."""


vmap: Each = jax.vmap
"""All chains at once."""


@dataclass(frozen=True)
class Groups:
    """Groups of chains of one size, taken one after the other, so that all devices run the same program for each.

    The compiler's arithmetic may differ in the last place between programs for other numbers of chains.
    """

    num: int
    """The number of groups on this device."""
    bound: Int[Array, ""]
    """The same number as data: a loop whose length the compiler knows might be compiled as no loop at all."""

    def numbered(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Return what a function returns for each group, stacked: one of its number and of its part of ``args``.

        The function is in a branch that is always taken, with which the compiler joins nothing. Joined with how a part
        is read and a result is written, its arithmetic would depend on the number of groups.
        """

        def part(i: Any) -> Any:
            return i, *jax.tree.map(lambda x: x[i], args)

        shapes = jax.eval_shape(lambda i: fn(*part(i)), jnp.zeros((), jnp.int32))
        room = jax.tree.map(lambda x: jnp.zeros((self.num + 1, *x.shape), x.dtype), shapes)

        def one(i: Any, filled: Any) -> Any:
            none = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
            made = jax.lax.cond(self.bound > 0, fn, lambda *_: none, *part(i))
            return jax.tree.map(lambda all, new: all.at[i].set(new), filled, made)

        made = jax.lax.fori_loop(0, self.bound, one, room)
        return jax.tree.map(lambda x: x[: self.num], made)

    def _split(self, x: Array) -> Array:
        """Return an array by groups, and the first once more: a single one would be compiled as if it were not one."""
        grouped = x.reshape(self.num, -1, *x.shape[1:])
        return jnp.concatenate([grouped, grouped[:1]])

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function of all chains that ``fn`` of one chain stands for."""

        def over_all(*args: Any) -> Any:
            made = self.numbered(lambda _, *part: jax.vmap(fn)(*part), *jax.tree.map(self._split, args))
            return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), made)

        return over_all


def parts() -> int:
    """Return the number of devices over which the chains of the program that is being traced are split."""
    try:
        return jax.lax.axis_size(AXIS)
    except NameError:  # no mesh
        return 1


def first_chain(chains: int) -> Int[Array, ""] | int:
    """Return the number of the first of the ``chains`` that are on this device."""
    return jax.lax.axis_index(AXIS) * chains if parts() > 1 else 0


def over_parts(values: Any) -> Any:
    """Return the sums of arrays over all devices."""
    return jax.lax.psum(values, AXIS) if parts() > 1 else values


def count(flags: Array) -> Int[Array, "*any"]:
    """Return for how many chains, the leading axis, each flag holds, or the sum of integers over them."""
    return over_parts(jnp.sum(flags, axis=0, dtype=jnp.int32))


def pool(values: Float[Array, "chains *any"]) -> Float[Array, "*any"]:
    """Return the mean over chains of values in [0, 1], the same however chains are ordered or split over devices.

    The sum is taken in fixed point, as large as fits into 32 bits, because sums of integers do not depend on order.
    """
    chains = values.shape[0] * parts()
    unit = 2.0 ** (30 - max(0, (chains - 1).bit_length()))
    return count(jnp.round(values * unit).astype(jnp.int32)).astype(values.dtype) / (unit * chains)
