"""Quench: L-BFGS from many points at once, each to the bottom of whatever basin it reaches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from sahmc._support.compiled import compiled
from sahmc._support.traced import TracedFunction
from sahmc.models.evaluation import energies, energies_and_gradients, in_blocks
from sahmc.modes.curvature import nat_lengths
from sahmc.modes.descent import DESCENTS_AT_ONCE, absurd_height

HISTORY = 8
"""The number of steps from which L-BFGS estimates curvature."""
SUFFICIENT = 1e-4
"""The minimum decrease of a step, as a share of the decrease predicted by the slope."""
SHRINK, MOST_FAILURES = 0.25, 6
"""The factor by which a failed step is shortened, and the number of consecutive failures after which the curvature is
discarded."""
AT_REST = 1e-3
"""A point is at rest if one more step promises at most this decrease, in nats."""
FIRST_FALL = 0.01
"""The share of its energy by which the first step of a point that is too high should lower it, if a step of one unit
would do less. At 1e20 nats, the decrease over one unit is lost in rounding."""
START_STEPS, MOST_SCALED = 1000, 400
"""The most steps from an absurdly high start, and the largest dimension in which its scale is measured first."""
STEEPEST_STEPS, STEEP, STEEP_NATS = 30, 0.1, 1e5
"""The most steps along the gradient before that, and the minimum decrease of each: a share of the energy, and nats."""
STEEPEST_LENGTHS = 2.0 ** np.arange(-8, 6)
"""The lengths tried for these steps."""
MASS_LENGTHS = 10.0 ** np.arange(-9, 16, 2)
"""The possible lengths over which the energy bends when masses are compared."""
MASS_STARTS = 5
"""The number of starts used to compare ways of descending."""
MINIMA_STARTS = 32
"""The largest number of starts, of each way, below which minima are looked for."""
CHECKED = 10
"""The number of steps between decisions whether to continue a descent."""


class Quenched(NamedTuple):
    """Points during their descent, in units of the scale of each coordinate."""

    position: Float[Array, "points dim"]
    energy: Float[Array, " points"]
    grad: Float[Array, "points dim"]
    steps: Float[Array, "points history dim"]
    """The last steps, newest last."""
    changes: Float[Array, "points history dim"]
    """The changes of the gradient over these steps."""
    weight: Float[Array, "points history"]
    """1 / (step * change); 0 where there is no step."""
    length: Float[Array, " points"]
    """The share of the next step to try."""
    failures: Int[Array, " points"]
    """The number of consecutive failures."""
    at_rest: Bool[Array, " points"]
    seen: Float[Array, "points dim"]
    """The positions at the last decision whether to continue."""
    height: Float[Array, " points"]
    """The energies there."""


@compiled
def quench(
    energy_fn: TracedFunction,
    points: Float[Array, "points dim"],
    scale: Float[Array, " dim"],
    most: Int[Array, ""] | int,
    floor: Float[Array, ""] | float = -np.inf,
    worth: Float[Array, ""] | float = 0.0,
) -> tuple[Float[Array, "points dim"], Float[Array, " points"], Bool[Array, " points"], Int[Array, ""]]:
    """Let points descend for at most ``most`` steps of L-BFGS, in units of ``scale``.

    A point stops once its energy is at most ``floor``. If ``worth`` is positive, it ends where the next CHECKED steps
    would lower its energy by less than that.

    Return the final positions, their energies, which of them are at rest at a minimum, and the steps taken. Each step
    costs a gradient for every point. A step that would not lower the energy is undone and shortened.
    """

    def look(z: Float[Array, "points dim"]) -> tuple[Array, Array]:
        energy, grad = energies(energy_fn, z * scale)
        grad = grad * scale
        fine = jnp.isfinite(energy) & jnp.all(jnp.isfinite(grad), axis=1)
        return jnp.where(fine, energy, jnp.inf), jnp.where(fine[:, None], grad, 0.0)

    def body(carry: tuple[Int[Array, ""], Quenched]) -> tuple[Int[Array, ""], Quenched]:
        i, now = carry
        way = jax.vmap(_direction)(now.grad, now.steps, now.changes, now.weight)
        fall = -jnp.sum(way * now.grad, axis=1)
        uphill = ~(fall > 0)
        steep = now.grad / jnp.maximum(_norm(now.grad), 1e-30)[:, None]
        way, fall = jnp.where(uphill[:, None], -steep, way), jnp.where(uphill, _norm(now.grad), fall)
        position = now.position + now.length[:, None] * way
        energy, grad = look(position)
        moved = jnp.any(position != now.position, axis=1)
        better = (energy <= now.energy - SUFFICIENT * now.length * fall) & moved & ~now.at_rest
        step, change = position - now.position, grad - now.grad
        product = jnp.sum(step * change, axis=1)
        learns = better & (product > 1e-8 * _norm(step) * _norm(change))
        failures = jnp.where(better, 0, now.failures + 1)
        forget = failures >= MOST_FAILURES
        # Even a shortened step along the gradient does not change the position: the precision ends here.
        rounded = ~moved & (now.weight[:, -1] == 0) & (now.length < 1)
        weight = _push(now.weight, 1 / jnp.where(learns, product, 1.0), learns)
        after = Quenched(
            position=jnp.where(better[:, None], position, now.position),
            energy=jnp.where(better, energy, now.energy),
            grad=jnp.where(better[:, None], grad, now.grad),
            steps=_push(now.steps, step, learns),
            changes=_push(now.changes, change, learns),
            weight=jnp.where(forget[:, None], 0.0, weight),
            length=jnp.where(better, 1.0, now.length * SHRINK),
            failures=jnp.where(forget, 0, failures),
            at_rest=now.at_rest | rounded | ((fall < AT_REST) & ~uphill) | (_norm(now.grad) < 1e-2 * AT_REST),
            seen=now.seen,
            height=now.height,
        )
        return i + 1, decide(i + 1, after)

    def decide(i: Int[Array, ""], now: Quenched) -> Quenched:
        checked = i % CHECKED == 0
        stalled = checked & ~(now.height - now.energy >= worth)
        onwards = checked & ~stalled
        return now._replace(
            at_rest=now.at_rest | (now.energy <= floor) | stalled,
            seen=jnp.where(onwards[:, None], now.position, now.seen),
            height=jnp.where(onwards, now.energy, now.height),
        )

    def going(carry: tuple[Int[Array, ""], Quenched]) -> Bool[Array, ""]:
        i, now = carry
        return (i < most) & jnp.any(~now.at_rest & jnp.isfinite(now.energy))

    start = points / scale
    energy, grad = look(start)
    num, dim = points.shape
    none = jnp.zeros((num, HISTORY, dim), points.dtype)
    weight = jnp.zeros((num, HISTORY), points.dtype)
    slope, no = jnp.maximum(_norm(grad), 1e-30), jnp.zeros(num, jnp.int32)
    leap = jnp.isfinite(energy) & ((jnp.asarray(worth) > 0) | (jnp.asarray(floor) > -jnp.inf))
    length = jnp.where(leap, jnp.maximum(1.0, FIRST_FALL * jnp.abs(energy) / slope), 1.0)
    first = Quenched(start, energy, grad, none, none, weight, length, no, energy <= floor, start, energy)
    taken, end = jax.lax.while_loop(going, body, (jnp.int32(0), first))
    back = ~(end.height - end.energy >= worth)
    position, energy = jnp.where(back[:, None], end.seen, end.position), jnp.where(back, end.height, end.energy)
    return position * scale, energy, end.at_rest & jnp.isfinite(end.energy), taken + 1


def _norm(rows: Float[Array, "points dim"]) -> Float[Array, " points"]:
    return jnp.sqrt(jnp.sum(rows**2, axis=1))


def _push(
    all: Float[Array, "points history *dim"], new: Float[Array, "points *dim"], take: Bool[Array, " points"]
) -> Any:
    """Return the history with a new last entry, where ``take`` holds."""
    pushed = jnp.concatenate([all[:, 1:], new[:, None]], axis=1)
    return jnp.where(take.reshape(-1, *(1,) * (all.ndim - 1)), pushed, all)


def _direction(
    grad: Float[Array, " dim"],
    steps: Float[Array, "history dim"],
    changes: Float[Array, "history dim"],
    weight: Float[Array, " history"],
) -> Float[Array, " dim"]:
    """Return the L-BFGS step: minus the gradient times an inverse Hessian (Nocedal's two loops)."""

    def back(vector: Array, entry: Any) -> Any:
        step, change, weight = entry
        share = weight * jnp.dot(step, vector)
        return vector - share * change, share

    def forth(vector: Array, entry: Any) -> Any:
        step, change, weight, share = entry
        return vector + step * (share - weight * jnp.dot(change, vector)), None

    vector, share = jax.lax.scan(back, grad, (steps, changes, weight), reverse=True)
    newest = weight[-1] * jnp.sum(changes[-1] ** 2)
    first = 1 / jnp.maximum(jnp.sqrt(jnp.sum(grad**2)), 1e-30)  # a step of one unit
    vector = vector * jnp.where(weight[-1] > 0, 1 / jnp.maximum(newest, 1e-30), first)
    return -jax.lax.scan(forth, vector, (steps, changes, weight, share))[0]


def quench_all(
    energy_fn: TracedFunction,
    points: np.ndarray,
    scale: np.ndarray,
    most: int,
    floor: float = -np.inf,
    worth: float = 0.0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return the ends of descents from points (point, dim), the energies there, which are at rest, and the cost.

    There may be any number of points. The energy is infinite where it or the gradient is not finite. ``floor`` and
    ``worth`` are as for ``quench``.
    """
    ends, energy, rest, spent = np.array(points), np.full(len(points), np.inf), np.zeros(len(points), bool), 0
    for block, padded in in_blocks(points, DESCENTS_AT_ONCE):
        found = [np.asarray(part) for part in quench(energy_fn, padded, scale, most, floor, worth)]
        num = len(points[block])
        ends[block], energy[block], rest[block] = (part[:num] for part in found[:3])
        spent += num * int(found[3])
    return ends, energy, rest & np.isfinite(energy), spent


class Starts(NamedTuple):
    """The positions from which chains start, and what lies below them."""

    positions: Float[Array, "chains dim"]
    """The starts."""
    minima: np.ndarray
    """The minima (point, dim) below some ends of every way tried; none if no start was absurdly high."""
    gradients: int
    """The gradients spent."""


def come_down(
    energy_fn: TracedFunction,
    positions: Float[Array, "chains dim"],
    draw_prior: Callable[[], np.ndarray | None] | None = None,
    search: bool = True,
) -> Starts:
    """Return positions (chain, dim) from which chains can start.

    A position descends as long as CHECKED steps of L-BFGS lower its energy by far more than its spread in the
    posterior. A start that is not absurdly high does not move: HMC descends from there, and knows where to stop in a
    funnel. For absurdly high starts there may be two more ways, and ``best_way`` chooses:

    - Start from a draw of the prior, if ``draw_prior`` gives any: a prior knows the units of its variables.
    - Take steepest-descent steps first, as HMC would. If residuals are far too large, these raise the noise, where
      L-BFGS might fit all data with almost none. But noise that explains everything leaves other parameters where they
      were.

    No way is best for every model. So the minima below all of them are returned too, for the ``search`` to weigh, if
    there will be one.
    """
    start = np.asarray(positions)
    steep, spent = _steepest(energy_fn, start)
    ends, cost = _quenched(energy_fn, start)
    spent += cost
    high = (ends != start).any(axis=1) | (steep != start).any(axis=1)
    ways = [ends]
    if (steep != start).any():
        ways.append(steep)
    drawn = draw_prior() if draw_prior is not None and high.any() else None
    if drawn is not None:
        ways.append(drawn)
    for i in range(1, len(ways)):
        ways[i], cost = _quenched(energy_fn, ways[i])
        spent += cost
    if not high.any():
        return Starts(jnp.asarray(ends), start[:0], spent)
    minima, cost = _minima_below(energy_fn, ways) if search else (start[:0], 0)
    spent += cost
    if len(ways) == 1:
        return Starts(jnp.asarray(ends), minima, spent)
    best, cost = best_way(energy_fn, np.stack(ways), None if drawn is None else len(ways) - 1)
    taken = np.stack(ways)[np.where(high, best, 0), np.arange(len(start))]
    return Starts(jnp.asarray(taken), minima, spent + cost)


def _minima_below(energy_fn: TracedFunction, ways: list[np.ndarray]) -> tuple[np.ndarray, int]:
    """Return the minima (point, dim) to which some ends of each way descend, in lengths of that way, and the cost."""
    found, spent = list[np.ndarray](), 0
    for way in ways:
        ends = way[np.linspace(0, len(way) - 1, min(len(way), MINIMA_STARTS)).astype(int)]
        scale, cost = _lengths_amid(energy_fn, ends)
        low, _, at_rest, more = quench_all(energy_fn, ends, scale, START_STEPS)
        found.append(low[at_rest])
        spent += cost + more
    return np.concatenate(found), spent


def _quenched(energy_fn: TracedFunction, points: np.ndarray) -> tuple[np.ndarray, int]:
    """Return points (point, dim) after quenching those that are absurdly high, in any units, and the cost."""
    worth = absurd_height(points.shape[1])
    height = energies_and_gradients(energy_fn, points)[0]
    scale, spent = _lengths_amid(energy_fn, points)
    ends, low, _, cost = quench_all(energy_fn, points, scale, START_STEPS, worth=worth)
    with np.errstate(invalid="ignore"):  # both may be infinite
        moved = ~(height - low < worth)
    return np.where(moved[:, None], ends, points), spent + len(points) + cost


def _lengths_amid(energy_fn: TracedFunction, points: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the lengths (dim,) over which the energy bends at the point of median energy, and the cost.

    In more than MOST_SCALED dimensions they are 1.
    """
    if points.shape[1] > MOST_SCALED:
        return np.ones(points.shape[1], points.dtype), 0
    height = energies_and_gradients(energy_fn, points)[0]
    scale, spent = nat_lengths(energy_fn, points[np.argsort(height)[len(points) // 2]])
    return scale.astype(points.dtype), spent + len(points)


def best_way(energy_fn: TracedFunction, ways: np.ndarray, preferred: int | None) -> tuple[np.ndarray, int]:
    """Return for each start the best of ``ways`` (way, point, dim), and the cost.

    The best way ends with the most mass around the points, by the median over some starts. The ``preferred`` way wins
    if it is not absurdly worse, since what looks best halfway down may lead nowhere. A start that would end absurdly
    high takes its own lowest way instead.
    """
    num, starts, dim = ways.shape
    asked = np.linspace(0, starts - 1, MASS_STARTS).round().astype(int)
    height, spent = heights(energy_fn, ways[:, asked].reshape(-1, dim))
    typical, absurd = np.median(height.reshape(num, -1), axis=1), absurd_height(dim)
    best = int(typical.argmin())
    if preferred is not None and typical[preferred] <= typical[best] + absurd:
        best = preferred
    energy = np.stack([_finite(*energies_and_gradients(energy_fn, points)) for points in ways])
    lost = ~(energy[best] <= energy.min(axis=0) + absurd)
    return np.where(lost, energy.argmin(axis=0), best), spent + ways[..., 0].size


def heights(energy_fn: TracedFunction, points: np.ndarray) -> tuple[np.ndarray, int]:
    """Return -log of the mass around each of ``points`` (point, dim), and the cost.

    The mass is exp(-energy) times the lengths over which the energy bends, so that depth alone does not make a narrow
    place look good. It is zero where the energy or its gradient is not finite. Lengths are measured in up to
    MOST_SCALED dimensions.
    """
    height, spent = _finite(*energies_and_gradients(energy_fn, points)), len(points)
    for i in np.flatnonzero(np.isfinite(height) & (points.shape[1] <= MOST_SCALED)):
        lengths, cost = nat_lengths(energy_fn, points[i], MASS_LENGTHS)
        height[i] -= np.log(lengths).sum()
        spent += cost
    return height, spent


def _finite(energy: np.ndarray, grad: np.ndarray) -> np.ndarray:
    """Return the energies of points, infinite where they or their gradients (point, dim) are not finite."""
    return np.where(np.isfinite(energy) & np.isfinite(grad).all(axis=1), energy, np.inf)


def _steepest(energy_fn: TracedFunction, points: np.ndarray) -> tuple[np.ndarray, int]:
    """Return points (point, dim) after steps along their gradients, and the energies and gradients computed.

    Each step takes the best of several lengths. A point continues while a step lowers its energy by at least the share
    STEEP of it and by STEEP_NATS.
    """
    points, going, spent = points.copy(), np.arange(len(points)), 0
    for _ in range(STEEPEST_STEPS):
        energy, grad = energies_and_gradients(energy_fn, points[going])
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            way = grad / np.abs(grad).max(axis=1, keepdims=True)
            way = way / np.linalg.norm(way, axis=1, keepdims=True)
        tried = (points[going] - STEEPEST_LENGTHS[:, None, None] * way).astype(points.dtype)
        found = energies_and_gradients(energy_fn, tried.reshape(-1, points.shape[1]))[0].reshape(tried.shape[:2])
        spent += energy.size + found.size
        best = np.where(np.isnan(found), np.inf, found).argmin(axis=0)
        low = found[best, np.arange(len(going))]
        with np.errstate(invalid="ignore"):
            better = energy - low > np.maximum(STEEP_NATS, STEEP * np.abs(energy))
        points[going[better]] = tried[best, np.arange(len(going))][better]
        going = going[better]
        if not len(going):
            break
    return points, spent
