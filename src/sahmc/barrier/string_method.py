"""The string method: paths relax until they run along valleys, and their highest points move to saddles."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from sahmc._support.compiled import compiled
from sahmc._support.traced import TracedFunction
from sahmc.models.evaluation import energies

ROUNDS, CLIMB, HALVINGS = 5, 60, 16
"""The number of rounds in which a path relaxes. After each, its highest point moves to a saddle in a number of steps,
and is pinned there. Each step finds the highest point along the path by a number of interval halvings."""
FINE = 20
"""The number of points at which each segment of a path is examined."""

Points = Float[Array, "points dim"]
"""The points, or images, of a path."""
Pinned = Bool[Array, " points"]
"""Whether each point is held in place: the ends, and saddles."""
Land = Callable[[Points], tuple[Float[Array, " points"], Points]]
"""A function from points to their energies and gradients."""
Count = Int[Array, ""] | int
"""A number of steps."""
Vector = Float[Array, " dim"]
Number = Float[Array, ""]
Descent = tuple[Points, Float[Array, " points"], Points, Points, Float[Array, "points 1"]]
"""Images with their energies, gradients, velocities and step sizes."""
Climb = tuple[Vector, Number, Vector, Vector, Number]
"""The same of one point that climbs to a saddle."""
T = TypeVar("T")


class Paths(NamedTuple):
    """Paths, or one of them: JAX arrays while they relax, NumPy arrays with a leading axis at the end."""

    images: Array | np.ndarray
    """The points of each path, (..., images, dim)."""
    highest: Array | np.ndarray
    """The highest energy on the polygonal line through the points."""
    slope: Array | np.ndarray
    """The norm of the gradient at the highest point; 0 if that is an end."""


def relax_paths(
    energy_fn: TracedFunction, unit: Float[Array, " dim"], starts: Float[Array, "paths images dim"], steps: int
) -> tuple[Paths, int]:
    """Return the paths at the start and after each round, and the gradients spent.

    ``starts`` and the paths are in units of ``unit``, a length for each coordinate. The first round takes ``steps``
    steps, the others a third of that.
    """
    paths, images, _ = starts.shape
    pinned = jnp.tile(jnp.arange(images) % (images - 1) == 0, (paths, 1))
    counts, found = (0, steps, *[-(-steps // 3)] * (ROUNDS - 1)), []
    for count in counts:
        relaxed, (starts, pinned) = relax_round(energy_fn, unit, starts, pinned, count)
        found.append(relaxed)
    examined = FINE * (images - 1) + 1 + CLIMB * (HALVINGS + 1)
    spent = paths * (images * sum(counts) + examined * len(counts))
    return Paths(*map(np.concatenate, zip(*found, strict=True))), spent


@compiled
def relax_round(
    energy_fn: TracedFunction,
    unit: Float[Array, " dim"],
    chains: Float[Array, "paths images dim"],
    pinned: Bool[Array, "paths images"],
    steps: Count,
) -> tuple[Paths, tuple[Float[Array, "paths images dim"], Bool[Array, "paths images"]]]:
    """Relax every path by ``steps`` steps, and move its highest point to a saddle.

    Return the relaxed paths, and the points and pins for the next round. ``chains`` are the points of the paths, in
    units of ``unit``, and ``pinned`` says which of them are held.
    """

    def land(points: Points) -> tuple[Float[Array, " points"], Points]:
        energy, grad = energies(energy_fn, points * unit)
        return jnp.where(jnp.isfinite(energy), energy, jnp.inf), grad * unit

    def one(images: Points, pinned: Pinned) -> tuple[Paths, tuple[Points, Pinned]]:
        images = _relax(land, images, pinned, steps)
        line = fine(images)
        energy, grad = land(line)
        top = jnp.argmax(energy)
        inside = (top > 0) & (top < len(line) - 1)
        left = jnp.minimum(top // FINE, len(images) - 2)
        chord = images[left + 1] - images[left]
        slope = jnp.where(inside, jnp.linalg.norm(grad[top]), 0)
        missed = jnp.nan_to_num(slope * jnp.linalg.norm(chord) / FINE)  # bound on the rise between two points
        saddle, level = _to_saddle(land, line[top], chord)
        nearest = jnp.clip((top + FINE // 2) // FINE, 1, len(images) - 2)
        pin = inside & jnp.isfinite(level) & (steps > 0) & (jnp.arange(len(images)) == nearest)
        return Paths(images, energy[top] + missed, slope), (jnp.where(pin[:, None], saddle, images), pinned | pin)

    return jax.vmap(one)(chains, pinned)


def fine(images: Points) -> Float[Array, "finer dim"]:
    """Return points on the polygonal line through the images, ``FINE`` to a segment."""
    part = (jnp.arange(FINE, dtype=images.dtype) / FINE)[:, None]
    pieces = images[:-1, None] + part * jnp.diff(images, axis=0)[:, None]
    return jnp.concatenate([pieces.reshape(-1, images.shape[1]), images[-1:]])


def _relax(land: Land, images: Points, pinned: Pinned, steps: Count) -> Points:
    """Let images slide down the gradient perpendicular to the path, with inertia, at equal distances.

    This is the string method. Every image has its own velocity and step size. A step that would take more images out of
    the support is not made.
    """

    def body(_: Count, now: Descent) -> Descent:
        at, energy, grad, velocity, size = now
        rises = (jnp.roll(energy, -1) > jnp.roll(energy, 1))[:, None]
        tangent = _direction(jnp.where(rises, jnp.roll(at, -1, axis=0) - at, at - jnp.roll(at, 1, axis=0)))
        across = grad - jnp.sum(grad * tangent, axis=1, keepdims=True) * tangent
        free = ~pinned[:, None] & jnp.isfinite(across).all(axis=1, keepdims=True)
        force = jnp.where(free, -across, 0)
        onward = jnp.sum(force * velocity, axis=1, keepdims=True) >= 0
        size = jnp.where(onward, jnp.minimum(1.1 * size, 1.0), 0.5 * size)
        velocity = jnp.where(onward & free, 0.9 * velocity, 0) + size * force
        velocity = _at_most(velocity, 0.3 * jnp.mean(_length(jnp.diff(at, axis=0))))
        moved = _respace(at + velocity, pinned)
        new = (moved, *land(moved), velocity, size)
        lost = jnp.isinf(new[1])
        stay = (at, energy, grad, jnp.where(lost[:, None], 0, velocity), jnp.where(lost[:, None], 0.2 * size, size))
        return _either(jnp.sum(lost) <= jnp.sum(jnp.isinf(energy)), new, stay)

    none, size = jnp.zeros_like(images), jnp.full_like(images[:, :1], 0.1)
    unknown = jnp.full(len(images), jnp.inf, images.dtype)  # so the first step moves no image
    return jax.lax.fori_loop(0, steps, body, (images, unknown, none, none, size))[0]


def _respace(images: Points, pinned: Pinned) -> Points:
    """Put images at equal distances on the same polygonal line, from each pinned one to the next."""
    index = jnp.arange(len(images))
    before = jax.lax.cummax(jnp.where(pinned, index, 0))
    after = jax.lax.cummin(jnp.where(pinned, index, index[-1]), reverse=True)
    share = ((index - before) / jnp.maximum(after - before, 1)).astype(images.dtype)
    along = jnp.cumsum(_length(jnp.diff(images, axis=0, prepend=images[:1]))[:, 0])
    wanted = along[before] + share * (along[after] - along[before])
    spaced = jax.vmap(jnp.interp, (None, None, 1), 1)(wanted, along, images)
    return jnp.where(pinned[:, None], images, spaced)


def _to_saddle(land: Land, start: Vector, chord: Vector) -> tuple[Vector, Number]:
    """Return a saddle and its energy: the minimum, perpendicular to the path, of the maximum along it.

    ``start`` is the highest point of the path, and ``chord`` the segment it lies on. The gradient of max_s U(y + s
    chord) in y is that of U at the highest point. The descent has momentum; an upward step is undone.
    """
    along, reach = _direction(chord), jnp.linalg.norm(chord)

    def ridge(y: Vector) -> tuple[Vector, Number, Vector]:
        def halve(_: Count, bracket: tuple[Number, Number]) -> tuple[Number, Number]:
            middle = 0.5 * (bracket[0] + bracket[1])
            up = land((y + middle * along)[None])[1][0] @ along > 0
            return jnp.where(up, middle, bracket[0]), jnp.where(up, bracket[1], middle)

        y = y + 0.5 * sum(jax.lax.fori_loop(0, HALVINGS, halve, (-reach, reach))) * along
        energy, grad = land(y[None])
        return y, energy[0], grad[0] - (grad[0] @ along) * along

    def body(_: Count, now: Climb) -> Climb:
        y, energy, grad, velocity, size = now
        velocity = _at_most(0.9 * velocity - size * grad, reach)
        new = (*ridge(y + velocity), velocity, 1.1 * size)
        return _either(new[1] <= energy, new, (y, energy, grad, none, 0.5 * size))

    none, unknown = jnp.zeros_like(start), jnp.asarray(jnp.inf, start.dtype)
    return jax.lax.fori_loop(0, CLIMB, body, (start, unknown, none, none, jnp.full_like(unknown, 0.1)))[:2]


def _either(first: Bool[Array, ""], a: T, b: T) -> T:
    """Return the pytree ``a`` if ``first``, else ``b``."""
    return jax.tree.map(lambda x, y: jnp.where(first, x, y), a, b)


def _length(vectors: Float[Array, "*any dim"]) -> Float[Array, "*any 1"]:
    """Return the length of each vector."""
    return jnp.linalg.norm(vectors, axis=-1, keepdims=True)


def _direction(vectors: Float[Array, "*any dim"]) -> Float[Array, "*any dim"]:
    """Return each vector divided by its length; 0 stays 0."""
    return vectors / jnp.where(_length(vectors) > 0, _length(vectors), 1)


def _at_most(vectors: Float[Array, "*any dim"], length: Float[Array, ""]) -> Float[Array, "*any dim"]:
    """Cut each vector to a length of at most ``length``."""
    return jnp.minimum(_length(vectors), length) * _direction(vectors)
