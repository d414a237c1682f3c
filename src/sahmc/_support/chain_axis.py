"""Chains split over a mesh of devices, and operations that do not depend on how: sums over all chains, and groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

AXIS = "sahmc_chains"
"""The name of the mesh axis."""


Each = Callable[[Callable[..., PyTree]], Callable[..., PyTree]]
"""A way to apply a function of one chain to all chains, the leading axis of its arguments, such as ``jax.vmap``."""


vmap: Each = jax.vmap
"""The default: all chains at once."""


@dataclass(frozen=True)
class Groups:
    """Groups of chains of equal size, processed one after the other, so that all devices run the same program for each.

    Programs compiled for different numbers of chains may differ in the last digit of their arithmetic.
    """

    num: int
    """The number of groups on this device."""
    bound: Int[Array, ""]
    """The same number as data: the compiler could unroll a loop of known length."""

    def numbered(self, fn: Callable[..., PyTree], *args: PyTree) -> PyTree:
        """Return the stacked results of a function of the group's index and its part of ``args``, for each group.

        The function runs in a branch that is always taken, since the compiler fuses nothing into a branch. If it were
        fused with the code that reads parts and writes results, its arithmetic would depend on the number of groups.
        """

        def part(i: Int[Array, ""]) -> tuple[PyTree, ...]:
            return i, *jax.tree.map(lambda x: x[i], args)

        shapes = jax.eval_shape(lambda i: fn(*part(i)), jnp.zeros((), jnp.int32))
        room = jax.tree.map(lambda x: jnp.zeros((self.num + 1, *x.shape), x.dtype), shapes)

        def one(i: Int[Array, ""], filled: PyTree) -> PyTree:
            none = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
            made = jax.lax.cond(self.bound > 0, fn, lambda *_: none, *part(i))
            return jax.tree.map(lambda all, new: all.at[i].set(new), filled, made)

        made = jax.lax.fori_loop(0, self.bound, one, room)
        return jax.tree.map(lambda x: x[: self.num], made)

    def _split(self, x: Array) -> Array:
        """Return an array by groups, and the first group again: the compiler would treat a single group differently."""
        grouped = x.reshape(self.num, -1, *x.shape[1:])
        return jnp.concatenate([grouped, grouped[:1]])

    def __call__(self, fn: Callable[..., PyTree]) -> Callable[..., PyTree]:
        """Return ``fn``, a function of one chain, as a function of all chains."""

        def over_all(*args: PyTree) -> PyTree:
            made = self.numbered(lambda _, *part: jax.vmap(fn)(*part), *jax.tree.map(self._split, args))
            return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), made)

        return over_all


def parts() -> int:
    """Return the number of devices that share the chains of the program being traced."""
    try:
        return jax.lax.axis_size(AXIS)
    except NameError:  # no mesh
        return 1


def first_chain(chains: int) -> Int[Array, ""] | int:
    """Return the index of the first of the ``chains`` on this device."""
    return jax.lax.axis_index(AXIS) * chains if parts() > 1 else 0


def over_parts(values: PyTree) -> PyTree:
    """Return the sums of arrays over all devices."""
    return jax.lax.psum(values, AXIS) if parts() > 1 else values


def count(flags: Array) -> Int[Array, "*any"]:
    """Return the number of chains, the leading axis, for which each flag holds; integers are summed over chains."""
    return over_parts(jnp.sum(flags, axis=0, dtype=jnp.int32))


def pool(values: Float[Array, "chains *any"]) -> Float[Array, "*any"]:
    """Return the mean over chains of values in [0, 1], independent of their order and of the split over devices.

    The sum uses fixed point, with as many digits as fit into 32 bits, because integer sums do not depend on order.
    """
    chains = values.shape[0] * parts()
    unit = 2.0 ** (30 - max(0, (chains - 1).bit_length()))
    return count(jnp.round(values * unit).astype(jnp.int32)).astype(values.dtype) / (unit * chains)
