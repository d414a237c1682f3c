"""The parts of a run that its result can still use, for as long as the process lives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from sahmc._support.compiled import compiled
from sahmc._support.platform import placed
from sahmc._support.types import Position
from sahmc.engine.move import Setup
from sahmc.kernels.around import plain
from sahmc.kernels.base import Kernel
from sahmc.models.energy import FURTHEST
from sahmc.models.lines import improper_along
from sahmc.models.model import Labels
from sahmc.models.positions import Unpacker, labels, named, split
from sahmc.models.predictor import Predictor
from sahmc.modes.finder import ModeFinder, lowest_draws, posterior_draws, spread_within
from sahmc.modes.modes import Modes
from sahmc.modes.rounding import off_by
from sahmc.results.records import DrawRecord, ModeAssignment, Rejuvenated
from sahmc.symmetry.alike import unlike
from sahmc.tilt.target import ChainState, TiltedTarget
from sahmc.tilt.tilts import NoTilt

DRAWS_AT_ONCE = 4096
"""The number of draws moved at once."""
CHECKED_DRAWS = 128
"""The number of draws whose energies are recomputed with twice the digits."""
AT_THE_WALL = 0.1
"""The share of the largest possible coordinate that draws reach only if nothing else holds them."""
LINES = 4
"""The number of draws from which lines go far out along each coordinate."""
COPIED_DRAWS = 512
"""The number of draws whose copies are compared in energy."""


@dataclass(frozen=True)
class Live:
    """The model, the kernel and the modes at the end of a run."""

    setup: Setup
    """The model, the tilt and the kernel."""
    step_scale: Float[Array, " levels"]
    """The step size at each level, as a multiple of the kernel's."""
    finder: ModeFinder
    """The mode finder, with the draws it had at the end of the warm-up."""
    modes: Modes
    """The modes known at that time."""
    unpack: Unpacker
    """The map from vectors to positions or named variables."""
    positions: np.ndarray | None
    """The positions as vectors (chain, draw, dim); None if only a function of them was kept."""
    warm: object = None
    """The outcome of the warm-up, from which another run may start."""
    further: Callable[[int, bool], Any] | None = None
    """A function (draws, progressbar) that adds this many draws to each chain and returns a new result."""
    predictor: Predictor | None = None
    """The object that computes the likelihood of each observation and simulates data; None if the model has none."""
    glimpses: np.ndarray | None = None
    """Rejected proposals (point, dim) with a large fall in energy, from which the search for modes descends too."""
    _assigned: list[ModeAssignment] = field(default_factory=list, repr=False)
    """The answer of ``assign_modes``, once computed."""

    @property
    def has_positions(self) -> bool:
        """Whether whole positions were kept."""
        return self.positions is not None

    def folded_positions(self) -> np.ndarray:
        """Return the positions as vectors (chain, draw, dim), each carried to one copy if modes have copies."""
        assert self.positions is not None
        return self.positions if self.finder.fold is None else self.finder.fold(np.asarray(self.positions))

    def structured_positions(self) -> Position:
        """Return these positions in the structure of the start, arrays (chain, draw, ...)."""
        return split(self.folded_positions(), self.unpack.unravel)

    def extend(self, draws: int, progressbar: bool) -> Any:
        """Return a result with ``draws`` more draws of each chain."""
        assert self.further is not None
        return self.further(draws, progressbar)

    def assign_modes(self, draws: DrawRecord) -> ModeAssignment:
        """Return the modes in the draws of this run; the search is made only once."""
        if not self._assigned:
            self._assigned.append(self.find_modes(draws)[0])
        return self._assigned[0]

    def find_modes(self, draws: DrawRecord) -> tuple[ModeAssignment, int]:
        """Return the modes in the draws of this run, and the gradients spent on the search."""
        assert self.positions is not None
        positions, finder = self.folded_positions(), self.finder
        late = posterior_draws(positions, draws.log_weight)
        if not len(finder.draws):
            finder = replace(finder, scale=spread_within(late))
        lowest = lowest_draws(positions, -draws.log_density)
        found, spent = finder.with_draws(late).assign(positions, lowest, self.modes, draws.log_weight, self.glimpses)
        minimum = np.asarray(found.minimum, positions.dtype)
        return found._replace(lowest=tuple(jax.tree.leaves(self.unpack.all(minimum)))), spent

    def rounding(self, minima: np.ndarray) -> tuple[float, PyTree]:
        """Return the largest rounding error of the log density, in nats, and the variables where it occurs.

        It is evaluated at some draws and at the ``minima`` (mode, dim) of modes.
        """
        assert self.positions is not None
        some = _some(self.positions, CHECKED_DRAWS)
        points = np.concatenate([some, minima.astype(some.dtype)])
        off = off_by(self.finder.energy_fn, points)
        worst = int(np.argmax(off))
        return float(off[worst]), jax.tree.map(lambda x: x[0], self.unpack.all(points[worst : worst + 1]))

    def endless(self, known: Labels) -> list[str]:
        """Return the names of the numbers along which the density falls off so slowly that its integral is infinite.

        ``known`` are the labels of the variables.
        """
        assert self.positions is not None
        if not self.positions.size:
            return []
        slow = improper_along(self.finder.energy_fn, _some(self.positions, LINES), self.finder.scale)
        highest, lowest = self.positions.max(axis=1), self.positions.min(axis=1)
        ends = np.maximum(highest.max(axis=0), -lowest.min(axis=0))
        found = np.union1d(slow, np.flatnonzero(ends > AT_THE_WALL * FURTHEST))
        if not len(found):
            return []
        steps = np.concatenate([np.zeros((1, len(ends))), np.eye(len(ends))[found]]).astype(self.positions.dtype)
        variables = self.unpack.all(steps)  # from the origin, where a step of 1 can be told from none
        values = np.concatenate([np.reshape(leaf, (len(steps), -1)) for leaf in named(variables).values()], axis=1)
        moved = (values != values[:1]) & ~np.isnan(values)
        names = labels(variables, 1, known)
        return [names[int(np.argmax(row))] for row in moved[1:]]

    def asymmetry(self, log_weight: np.ndarray) -> tuple[int, int]:
        """Return the number of posterior draws whose random copy has a different energy, and the number checked."""
        fold = self.finder.fold
        if fold is None or self.positions is None:
            return 0, 0
        points = _some(posterior_draws(self.positions, log_weight), COPIED_DRAWS)
        move = fold.group.random_copies(points, np.random.default_rng(len(points)))
        return int(unlike(self.finder.energy_fn, points, move).sum()), len(points)

    def rejuvenate(self, index: tuple[np.ndarray, ...], moves: int, seed: int) -> Rejuvenated:
        """Return some draws after ``moves`` plain kernel moves each, without the tilt.

        ``index`` holds the chain and the number of each draw, and ``seed`` seeds the moves.
        """
        assert self.positions is not None
        kernel = plain(self.setup.kernel)
        start = np.asarray(self.positions[index])
        zero, step = placed([0.0], start.dtype), placed(np.asarray(self.step_scale)[:1], start.dtype)
        target = TiltedTarget(self.setup.energy_fn, NoTilt(), zero, step)
        key, parts = jax.random.key(seed), []
        for first in range(0, len(start), DRAWS_AT_ONCE):
            block = start[first : first + DRAWS_AT_ONCE]
            padded = np.concatenate([block, np.repeat(block[-1:], DRAWS_AT_ONCE - len(block), axis=0)])
            states = _moved(jax.random.fold_in(key, first), jnp.asarray(padded), kernel, target, moves)
            parts.append((np.asarray(states.position)[: len(block)], np.asarray(states.total_energy)[: len(block)]))
        end, energy = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Rejuvenated(self.unpack.all(end), (end != start).any(axis=1), -energy)


def _some(positions: np.ndarray, num: int) -> np.ndarray:
    """Return about ``num`` of the positions (chain, draw, dim), evenly spaced, as (draw, dim)."""
    chains, draws = positions.shape[:2]
    return np.asarray(positions[np.unravel_index(np.linspace(0, chains * draws - 1, num).astype(int), (chains, draws))])


@compiled
def _moved(
    rng_key: Key[Array, ""],
    positions: Float[Array, "draws dim"],
    kernel: Kernel,
    target: TiltedTarget,
    moves: Int[Array, ""] | int,
) -> ChainState:
    """Return chains started from ``positions`` after ``moves`` moves."""
    step = jax.vmap(lambda key, state: kernel.step(key, state, target)[0])

    def body(i: Int[Array, ""], states: ChainState) -> ChainState:
        return step(jax.random.split(jax.random.fold_in(rng_key, i), len(positions)), states)

    return jax.lax.fori_loop(0, moves, body, jax.vmap(target.evaluate)(positions))
