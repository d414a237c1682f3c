"""The fold: the map of each position to the copy in which parts are in order and have the right sign.

Copies of a mode then become one mode. Parts are ordered by a score: a linear combination of their numbers, the same for
all of them. The sign of a part is that of another combination. The sign of a third decides whether an involution, a map
that is its own inverse, is applied. All combinations are chosen to separate the parts of the posterior as clearly as
possible. The domain is the part of space that the fold leaves unchanged; all other positions are copies of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TypeVar

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import ndtr

from sahmc._support.pytree import strategy
from sahmc.symmetry.group import Exchange, Group, exchanged, flipped
from sahmc.symmetry.maps import Flat, Move, Numbers, numpy_of

Thing = TypeVar("Thing")

CANDIDATES = 256
"""The number of random combinations that are tried as scores."""
APART = 2.0
"""The minimum distance of two parts, in units of the width of their difference, for their exchange to make a copy."""
CHECKED = 16
"""The number of random positions used to check that all copies fold to the same point."""


@strategy
class Fold:
    """The map of each position to its copy in the domain."""

    group: Group
    """The group whose copies are folded."""
    scores: tuple[Numbers, ...]
    """The score of the parts of each exchange, as factors (number,) of their numbers, then of the diagonal of their
    matrix."""
    signs: tuple[Numbers, ...]
    """The combination that determines the sign of each part of each flip, as factors (part, number)."""
    halves: tuple[Numbers, ...] = ()
    """The combination that is positive in one half of each involution, as factors (dim,)."""

    def move(self, position: Flat) -> Move:
        """Return the element of the group that carries a position, or each of several, into the domain."""
        move = Move.identity(position)
        for involution, factors in zip(self.group.involutions, self.halves, strict=True):
            value = (move(position) * factors).sum(axis=-1)
            move = move.then(involution.where(value < 0, position))
        for flip, factors in zip(self.group.flips, self.signs, strict=True):
            value = (move(position)[..., flip] * factors).sum(axis=-1)
            move = move.then(flipped(position, flip, 1.0 - 2.0 * (value < 0).astype(position.dtype)))
        for exchange, factors in zip(self.group.exchanges, self.scores, strict=True):
            score = (features(move(position), exchange) * factors).sum(axis=-1)
            move = move.then(exchanged(position, exchange, score.argsort(axis=-1)))
        return move

    def __call__(self, position: Flat) -> Flat:
        """Return the copy of a position, or of each of several, in the domain."""
        return self.move(position)(position).astype(position.dtype)

    def inside(self, position: Flat) -> Numbers | np.bool_:
        """Tell whether positions are in the domain."""
        move = self.move(position)
        return ((move.places == np.arange(position.shape[-1])) & (move.sign > 0)).all(axis=-1)

    def copies(self, position: np.ndarray, width: np.ndarray) -> int:
        """Return the number of copies of a position (dim,), including itself; parts within ``width`` count as equal."""
        number, scaled = 1, position / width
        for involution in self.group.involutions:
            number *= 2 if (np.abs(scaled - involution(scaled)) > 1).any() else 1
        for flip in self.group.flips:
            number *= 2 ** int((np.abs(scaled[flip]) > 1).any(axis=1).sum())
        for exchange in self.group.exchanges:
            parts = features(scaled, exchange)
            same = (np.abs(parts[:, None] - parts) < 1).all(axis=-1)
            alike = np.bincount(connected_components(csr_array(same), directed=False)[1])
            number *= math.factorial(len(parts)) // math.prod(map(math.factorial, alike.tolist()))
        return number


def features(position: Flat, exchange: Exchange) -> Flat:
    """Return the numbers that distinguish parts, (..., parts, numbers): their own, and the diagonal of a matrix."""
    own = np.arange(exchange.num_parts)
    return position[..., numpy_of(exchange.single).concatenate([exchange.single, exchange.double[own, own]], axis=-1)]


def choose_fold(group: Group, draws: np.ndarray) -> Fold | None:
    """Return the fold that separates parts best, by those symmetries of a group that make copies of a mode.

    ``draws`` (draw, dim) are from one copy of the mode. A symmetry makes no copies if all its parts are the same there.
    The result is None if no symmetry is left.
    """
    tied = _orbits(group, draws.shape[1])
    every = np.concatenate([np.zeros(0, int), *map(np.ravel, group.flips)])
    chosen = [_choose_signs(draws, np.asarray(flip), tied, every) for flip in group.flips]
    signs, flips = _those_apart(chosen, group.flips)
    halved = [_choose_half(draws, k, group) for k in range(len(group.involutions))]
    halves, involutions = _those_apart(halved, group.involutions)
    draws = Fold(Group((), flips, involutions), (), signs, halves)(draws)
    chosen = [_choose_score(draws, exchange, tied) for exchange in group.exchanges]
    scores, exchanges = _those_apart(chosen, group.exchanges)
    fold = Fold(Group(exchanges, flips, involutions), scores, signs, halves)
    return fold if (scores or signs or halves) and folds_alike(fold, draws[:CHECKED]) else None


def _those_apart(
    found: list[tuple[np.ndarray, float]], things: Sequence[Thing]
) -> tuple[tuple[np.ndarray, ...], tuple[Thing, ...]]:
    """Return the factors and the exchanges, flips or involutions that separate something by more than APART."""
    kept = [k for k, (_, far) in enumerate(found) if far > APART]
    return tuple(found[k][0] for k in kept), tuple(things[k] for k in kept)


def folds_alike(fold: Fold, positions: np.ndarray) -> bool:
    """Tell whether all copies of positions (position, dim) are folded to the same point."""
    move = fold.group.random_copies(positions, np.random.default_rng(0))
    return bool((fold(positions) == fold(move(positions))).all())


def _orbits(group: Group, dim: int) -> np.ndarray:
    """Return a number for each place; places that exchanges may swap have the same number."""
    ends = [np.zeros((2, 0), int)]
    for exchange in group.exchanges:
        single, double = np.asarray(exchange.single), np.asarray(exchange.double)
        ends += [np.stack([single[0].ravel(), row.ravel()]) for row in single[1:]]
        for k in range(1, exchange.num_parts):
            order = np.arange(exchange.num_parts)
            order[[0, k]] = k, 0
            ends.append(np.stack([double.ravel(), double[order][:, order].ravel()]))
    one, two = np.concatenate(ends, axis=1)
    graph = csr_array((np.ones(len(one)), (one, two)), shape=(dim, dim))
    return connected_components(graph, directed=False)[1]


def _tied(classes: np.ndarray) -> np.ndarray:
    """Return a matrix (class, number) that averages over numbers of the same class."""
    names, inverse = np.unique(classes, return_inverse=True)
    ties = np.zeros((len(names), len(classes)))
    ties[inverse, np.arange(len(classes))] = 1.0
    return ties / ties.sum(axis=1, keepdims=True)


def _choose_score(draws: np.ndarray, exchange: Exchange, tied: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the factors (number,) of the score that best separates parts in ``draws`` (draw, dim) of one copy.

    The second result is the largest distance between two parts, in units of their width. ``tied`` are the orbits of
    places: numbers that other exchanges may mix have the same factor.
    """
    ties = _tied(features(tied, exchange)[0])
    values = features(draws, exchange) @ ties.T
    sd = values.std(axis=0).mean(axis=0)
    mean = values.mean(axis=0)
    one, two = np.array(list(combinations(range(len(mean)), 2))).T
    tried = _candidates(sd, mean[one] - mean[two])
    along = values @ tried.T
    gap = along.mean(axis=0)[one] - along.mean(axis=0)[two]
    spread = np.hypot(along.std(axis=0)[one], along.std(axis=0)[two])
    apart = np.abs(gap) / np.maximum(spread, 1e-300)
    best = int(np.argmin(ndtr(-apart).sum(axis=0)))
    return tried[best] @ ties, float(apart[:, best].max())


def _choose_signs(draws: np.ndarray, flip: np.ndarray, tied: np.ndarray, flips: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the factors (part, number) with the most stable sign in ``draws`` (draw, dim) of one copy.

    The second result is the largest distance of a part from zero, in units of its width. Parts that may be exchanged
    have the same factors. ``flips`` are the places of all flips; numbers that other flips change too have no factor.
    """
    factors, furthest = np.zeros(flip.shape), 0.0
    alone = np.bincount(flips, minlength=len(tied)) == 1
    families = {tuple(sorted(tied[row])) for row in flip}
    for family in sorted(families):
        mine = [k for k, row in enumerate(flip) if tuple(sorted(tied[row])) == family]
        ties = [_tied(tied[flip[k]]) * alone[flip[k]] for k in mine]
        values = np.stack([draws[:, flip[k]] @ tie.T for k, tie in zip(mine, ties, strict=True)], axis=1)
        sd = values.std(axis=0).mean(axis=0)
        tried = _candidates(sd, values.mean(axis=0))
        along = values @ tried.T
        with np.errstate(over="ignore"):  # numbers that never changed are certain
            certain = np.abs(along.mean(axis=0)) / np.maximum(along.std(axis=0), 1e-300)
        best = int(np.argmin(ndtr(-certain).sum(axis=0)))
        furthest = max(furthest, float(certain[:, best].max()))
        for k, tie in zip(mine, ties, strict=True):
            factors[k] = tried[best] @ tie
    return factors, furthest


def _choose_half(draws: np.ndarray, which: int, group: Group) -> tuple[np.ndarray, float]:
    """Return the factors (dim,) of the most stable combination in ``draws`` that an involution of a group reverses.

    The second result is its distance from zero, in units of its width. Numbers that other symmetries change have no
    factor, if there are any others.
    """
    mine, others = group.involutions[which], [m for k, m in enumerate(group.involutions) if k != which]
    tables = [*group.flips, *(t for e in group.exchanges for t in (e.single, e.double))]
    shared = np.isin(np.arange(draws.shape[1]), np.concatenate([np.zeros(0, int), *map(np.ravel, tables)]))
    still = np.arange(draws.shape[1])
    shared |= np.any([(np.asarray(m.places) != still) | (np.asarray(m.sign) < 0) for m in others], axis=0)
    difference = 0.5 * (draws - mine.where(True, draws)(draws))
    sd, mean = difference.std(axis=0), difference.mean(axis=0)
    moved = sd > 0
    used = moved & ~shared if (moved & ~shared).any() else moved
    factors = np.where(used, mean / np.where(used, sd, 1.0) ** 2, 0.0)
    factors = 0.5 * (factors - mine(factors))
    along = draws @ factors
    return factors, float(np.abs(along.mean()) / max(along.std(), 1e-300))


def _candidates(sd: np.ndarray, gaps: np.ndarray) -> np.ndarray:
    """Return combinations (candidate, number) to try: single numbers, those that ``gaps`` suggest, and random ones.

    ``gaps`` (gap, number) should be large relative to the widths ``sd`` (number,); numbers that never move are ignored.
    """
    width = np.where(sd > 0, sd, 1.0)
    random = np.random.default_rng(0).normal(size=(CANDIDATES, len(sd)))
    return np.concatenate([np.eye(len(sd)) / width, np.where(sd > 0, gaps / width**2, 0.0), random / width])
