"""The energy barrier between two points, as the paper defines it: before and after the tilt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from sahmc._support.compiled import compiled
from sahmc._support.traced import TracedFunction
from sahmc._support.types import Position, PositionFn, Unravel
from sahmc._support.validate import as_rng, require, require_count
from sahmc.barrier.string_method import fine, relax_paths
from sahmc.models.convert import as_model
from sahmc.models.energy import trace_energy
from sahmc.models.evaluation import energies
from sahmc.models.model import Model
from sahmc.models.positions import flatten, structure
from sahmc.tilt.tilts import NoTilt, TemperedTilt, Tilt

SLACK = 1e-3
"""The tolerance in nats for a saddle: the energy that a descent from the highest point may still gain, estimated from
the slope there."""

Ends = Float[Array, "2 dim"]
"""The two ends of a path, as flat positions."""
Unit = Float[Array, " dim"]
"""A unit of length for every coordinate."""


@dataclass(frozen=True, repr=False)
class EnergyBarrier:
    """The best path found from x1 to x2, and its energy U = -log density, the prior's share included.

    ``path``, ``distance``
        Positions along the path, in the user's structure with a leading axis, and the arc length up to each.
    ``energy``, ``tilted_energy``
        U along the path, and U + Theta(U). The latter is None without a tilt.
    ``saddle``, ``saddle_energy``
        The highest point of the path, in the user's structure, and U there.
    ``height``, ``tilted_height``
        B of the paper, before and after the tilt: the highest energy along the path, minus that at x1.
    ``converged``
        Whether the highest point is a stationary point of U, or no higher than an end. If False, a better path is near.
    ``num_gradients``
        The gradients spent; energies and products with the Hessian count as one each.
    """

    path: Position
    distance: np.ndarray
    energy: np.ndarray
    tilted_energy: np.ndarray | None
    saddle: Position
    saddle_energy: float
    height: float
    tilted_height: float | None
    converged: bool
    num_gradients: int

    def __post_init__(self) -> None:
        for array in jax.tree.leaves(list(vars(self).values())):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False

    def __repr__(self) -> str:
        tilted = "" if self.tilted_height is None else f", {self.tilted_height:.2f} after the tilt"
        return (
            f"<sahmc.EnergyBarrier: height {self.height:.2f}{tilted}; highest energy {self.saddle_energy:.2f}, "
            f"{'converged' if self.converged else 'NOT converged'}, {self.num_gradients:,} gradients>"
        )


def energy_barrier(
    log_density: Model | PositionFn,
    x1: Position,
    x2: Position,
    *,
    tilt: Tilt | None = None,
    theta: ArrayLike | Sequence[float | int] | None = None,
    paths: int = 9,
    images: int = 41,
    steps: int = 300,
    random_seed: int = 0,
) -> EnergyBarrier:
    """Find the path from x1 to x2 whose highest energy is lowest, and return the energy barrier on it.

    The barrier is B(x1, x2) = min over paths from x1 to x2 of the highest U on the path, minus U(x1), where
    U = -log density. A straight line and several bowed ones, each a row of points, relax in parallel. Another path may
    be better than all of them, so the height found is an upper bound on B.

    Parameters
    ----------
    log_density
        A function of one position, written with ``jax.numpy``, or a ``Model``.
    x1, x2
        The ends of the path, usually modes: positions, any pytree of float arrays.
    tilt, theta
        The tilt for the tilted heights, and its theta; none by default. For the barrier that a run had to cross, pass
        ``tilt=result.tilt, theta=result.theta`` (``result.theta[chain]`` if every chain has its own).

    Other parameters
    ----------------
    paths, images, steps
        The numbers of paths tried, of points on each, and of steps in the first relaxation. Raise ``paths`` to find a
        way round walls, and ``steps`` if the result has not ``converged``.
    random_seed
        The seed for the directions in which paths are bowed.

    The path is the best for U. For any Theta it is also the best for U + Theta(U), unless it dips below both its ends.
    The reason is that any path passes through all energies from that of x1 to the saddle's. This does not hold for a
    ``Model``, where Theta acts on the likelihood alone: there the tilted height is that of this path.
    """
    for name, value, least in (("paths", paths, 1), ("images", images, 3), ("steps", steps, 1)):
        require_count(value, name, least)
    rng = as_rng(random_seed, "random_seed")
    _check_tilt(tilt, theta)
    _check_base(log_density, tilt)
    ends, unravel = _ends(x1, x2)
    energy_fn = trace_energy(as_model(log_density), unravel, ends[0], gradient=True)
    at_ends = np.asarray(energies(energy_fn, ends)[0])
    require(
        np.isfinite(at_ends).all(),
        "the log density must be finite at x1 and x2",
        (-at_ends).tolist(),
        "pass points inside the support",
    )
    unit = _unit(energy_fn, ends)
    starts = _starts(ends / unit, paths, images, rng)
    (position, highest, slope), spent = relax_paths(energy_fn, unit, starts, steps)
    require(
        np.isfinite(highest).any(),
        "a path of finite energies must join x1 and x2",
        f"energies that are infinite or undefined somewhere on each of the {paths} paths tried",
        "raise paths, pass another random_seed, or points that the support connects",
    )
    done = np.minimum(0.5 * slope**2, highest - at_ends.max()) < SLACK
    score = highest + np.where(done, 0, SLACK)
    length = np.linalg.norm(np.diff(position, axis=1), axis=2).sum(axis=1)
    best = int(np.argmin(np.where(score <= score.min() + SLACK, length, np.inf)))
    used, theta = (NoTilt(), [0.0]) if tilt is None else (tilt, theta)
    line, *both = _along(energy_fn, unit, position[best], ends, used, jnp.asarray(theta, ends.dtype))
    path, (energy, tilted) = jax.tree.map(np.array, jax.vmap(unravel)(line)), np.array(both, float)
    top = int(np.argmax(energy))
    return EnergyBarrier(
        path=path,
        distance=np.append(0.0, np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1))),
        energy=energy,
        tilted_energy=None if tilt is None else tilted,
        saddle=jax.tree.map(lambda leaf: np.array(leaf[top]), path),
        saddle_energy=float(energy[top]),
        height=float(energy[top] - energy[0]),
        tilted_height=None if tilt is None else float(tilted.max() - tilted[0]),
        converged=bool(done[best]),
        num_gradients=spent + len(line) + 2 * ends.size + 2,
    )


@compiled
def _along(
    energy_fn: TracedFunction,
    unit: Unit,
    images: Float[Array, "images dim"],
    ends: Ends,
    tilt: Tilt,
    theta: Float[Array, " regions"],
) -> tuple[Float[Array, "points dim"], Float[Array, " points"], Float[Array, " points"]]:
    """Return positions on the path, U and U + Theta(U) there; ``images`` are in units of ``unit``."""
    line = (fine(images) * unit).at[jnp.array([0, -1])].set(ends)
    energy = energies(energy_fn, line)[0]
    return line, energy, energy + jax.vmap(tilt.bias, (None, 0))(theta, jax.vmap(energy_fn)(line)[0])


@compiled
def _unit(energy_fn: TracedFunction, ends: Ends) -> Unit:
    """Return a length for every coordinate: 1 / sqrt |diagonal of the Hessian|, the smaller one of the two ends."""

    def entry(basis: Float[Array, " dim"]) -> Float[Array, ""]:
        slope = jax.jvp(lambda x: energies(energy_fn, x)[1], (ends,), (jnp.stack([basis, basis]),))[1]
        return jnp.nanmax(jnp.abs(slope @ basis))

    most = jax.lax.map(entry, jnp.eye(ends.shape[1], dtype=ends.dtype))
    apart = jnp.abs(ends[1] - ends[0])
    usable = jnp.isfinite(most) & (most > 0)
    return jnp.where(usable, 1 / jnp.sqrt(jnp.where(usable, most, 1)), jnp.where(apart > 0, apart, 1))


def _starts(ends: Ends, paths: int, images: int, rng: np.random.Generator) -> Float[Array, "paths images dim"]:
    """Return the straight line, and pairs of lines bowed to opposite sides by a tenth of its length up to all of it."""
    x1, x2 = np.asarray(ends, float)
    length, pairs = np.linalg.norm(x2 - x1) or 1.0, paths // 2
    bow = rng.normal(size=(pairs, len(x1)))
    bow -= np.outer(bow @ (x2 - x1), x2 - x1) / length**2
    bow *= (np.geomspace(0.1, 1, pairs) * length / np.maximum(np.linalg.norm(bow, axis=1), 1e-9))[:, None]
    bows = np.concatenate([np.zeros((1, len(x1))), np.stack([bow, -bow], axis=1).reshape(-1, len(x1))])[:paths]
    t = np.linspace(0, 1, images)[:, None]
    return jnp.asarray(x1 + t * (x2 - x1) + np.sin(np.pi * t) * bows[:, None], ends.dtype)


def _ends(x1: Position, x2: Position) -> tuple[Ends, Unravel]:
    """Return both ends as flat positions, and the map from these back to the user's structure."""
    (flat1, unravel), (flat2, _) = flatten(x1, "x1"), flatten(x2, "x2")
    shapes = [structure(x) for x in (x1, x2)]
    require(shapes[0] == shapes[1], "x1 and x2 must have the same structure and shapes", shapes, "build both alike")
    return jnp.stack([flat1, flat2.astype(flat1.dtype)]), unravel


def _check_base(log_density: Model | PositionFn, tilt: Tilt | None) -> None:
    """Raise ``ValueError`` if the tilt belongs to a ladder that ends at beta = 0 but the model has no prior."""
    ends = isinstance(tilt, TemperedTilt) and float(tilt.partition.betas[-1]) == 0.0
    require(
        not ends or as_model(log_density).has_prior,
        "a ladder that ends at beta = 0 acts on a likelihood, beside a prior",
        "a log density alone",
        "pass the tilt and theta of a run with reference=False, whose ladder ends in heat",
    )


def _check_tilt(tilt: Tilt | None, theta: ArrayLike | Sequence[float | int] | None) -> None:
    """Raise ``ValueError`` unless tilt and theta fit each other, or are both None."""
    regions, shape = getattr(tilt, "num_regions", 0), None if theta is None else np.shape(theta)
    require(
        shape is None if tilt is None else isinstance(tilt, Tilt) and shape == (regions,),
        "a tilt object goes with a theta that has one number for each of its regions",
        f"{type(tilt).__name__} of {regions} regions, theta of shape {shape}",
        "pass result.tilt and result.theta of a run (result.theta[chain] if every chain has its own), or neither",
    )
