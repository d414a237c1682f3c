"""The mode finder, which searches the draws of a run for modes."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from sahmc._support.thinning import some_chains
from sahmc._support.traced import TracedFunction
from sahmc.modes.basins import BARRIER_NATS, BasinMap
from sahmc.modes.bulk import Bulk
from sahmc.modes.descent import DESCENTS_AT_ONCE
from sahmc.modes.discovery import NEGLIGIBLE_NATS, Discovery, masses
from sahmc.modes.gaussians import sort_and_fit
from sahmc.modes.modes import MOST_MODES, Modes, carry_to_others, fit_modes, laplace_modes
from sahmc.modes.power import measure_power
from sahmc.modes.probes import Look, look_around
from sahmc.modes.rounding import rounded_by
from sahmc.modes.sorting import SORT_BYTES, assign_draws, far_away, sort_draws
from sahmc.results.records import ModeAssignment
from sahmc.results.warmup_record import FEWEST_ARRIVALS, SearchPower
from sahmc.symmetry.fold import Fold
from sahmc.tilt.importance import log_normalise, systematic_resample

DESCENTS, CHOSEN_DESCENTS, DESCENT_STEPS = DESCENTS_AT_ONCE, 32, 100
"""The number of points in the first batch of descents, the largest number of them that are chosen, and the most steps
they take."""
HOT_BATCHES = 2
"""The number of batches of points from anywhere that descend before it is asked whether they reach known modes."""
FEWEST_OTHERS = 16
"""The minimum number of randomly chosen draws that descend."""
FEW_INNER = 8
"""The number of those draws that show whether a known minimum is a narrow mode inside a wide one."""
MORE_PROBES, HOPELESS, ENOUGH_POWER = 2, 0.2, 0.7
"""How often as many probes again are made at the place where the search is weakest, and the range of probabilities of
finding a needle there in which this helps."""
SEARCHES = 16
"""The largest number of rounds of descents when searching the draws of a run."""
HIGH_DESCENTS = 3
"""The number of additional descents from a mode whose mean lies outside it."""
SAMPLE = 6000
"""The number of draws to which the search fits Gaussians, or fifty for each dimension if that is more."""
DOUBTED = 0.02
"""The minimum expected mass of a mode with few draws for its energy to be recomputed in 64 bits."""
TRIED_JUMPS = 256
"""The number of jumps used to choose between descriptions of the modes."""
REMEMBERED_DRAWS = 20_000
"""The largest number of draws remembered of each stage."""


class Found(NamedTuple):
    """The outcome of a search for modes."""

    modes: Modes
    """The modes, each described by a Gaussian fitted to its draws."""
    by_curvature: Modes
    """The same modes, described by the Hessian at their minima alone, where it was measured."""
    jumps: Modes
    """The same modes, in the description with the highest acceptance probability for jumps between them."""
    minima: np.ndarray
    """The lowest points of all modes with non-negligible mass, (mode, dim), in order of decreasing mass."""
    covered: float
    """The share of their mass, by the Laplace approximation, in modes that draws belong to."""
    still_new: bool
    """Whether the last batch of points far from all modes still found a new one."""
    power: SearchPower | None
    """The power of the search to find other modes; None if it did not look far from the known ones."""
    spent: int
    """The gradients spent."""
    displaced: bool
    """Whether the draws of the pilot hold far more mass than the surroundings of any minimum, as in a funnel."""
    elsewhere: bool
    """Whether they seem to hold far less mass than the surroundings of some minimum. Then they are not posterior draws,
    unless the density is unbounded there."""
    unlike: np.ndarray
    """The points (point, dim) at the bottom of basins whose energy the fold seems to change."""


class FarLook(NamedTuple):
    """The settings of the search for modes far from the known ones."""

    hot: np.ndarray
    """Points (point, dim), from anywhere. Some of them descend first, and more if hardly any of these reach a mode."""
    batches: int
    """The largest number of batches of points that are drawn far from all modes and descend."""
    probes: int
    """The number of points that are examined with one gradient each."""
    shown: np.ndarray | None = None
    """Points (point, dim) that are known to be at minima."""


@dataclass(frozen=True)
class ModeFinder:
    """Draws that show where the posterior is, and the search for modes among them."""

    energy_fn: TracedFunction
    """The traced energy of the model, a function of a flat position."""
    scale: np.ndarray
    """The spread of each coordinate within a mode, (dim,)."""
    draws: np.ndarray
    """Draws (draw, dim) near the posterior, from all modes seen, in the order in which they were made."""
    stage: np.ndarray
    """The number of the stage that made each draw."""
    fold: Fold | None = None
    """The fold, where modes have copies: draws are kept in its domain."""
    bulk: Bulk | None = None
    """The region where the chains of the pilot were; None if unknown, or if modes have copies."""

    @classmethod
    def of(cls, energy_fn: TracedFunction, draws: np.ndarray) -> ModeFinder:
        """Return a finder for draws (draw, chain, dim) made at beta = 1."""
        kept = _remembered(draws)
        return cls(energy_fn, spread_within(draws), kept, np.zeros(len(kept), int))

    def anew(self, draws: np.ndarray) -> ModeFinder:
        """Return a finder for these draws (draw, chain, dim) alone; earlier ones were not from the posterior."""
        draws = draws if self.fold is None else self.fold(draws)
        return replace(ModeFinder.of(self.energy_fn, draws), fold=self.fold)

    def folded(self, fold: Fold | None) -> ModeFinder:
        """Return a finder that identifies copies by a fold; itself if there is none."""
        return self if fold is None else replace(self, draws=fold(self.draws), fold=fold, bulk=None)

    def with_draws(self, draws: np.ndarray) -> ModeFinder:
        """Return a finder extended by draws (draw, chain, dim) of the posterior."""
        kept = _remembered(draws) if self.fold is None else self.fold(_remembered(draws))
        stage = np.append(self.stage, np.full(len(kept), self.stage.max(initial=-1) + 1))
        return replace(self, draws=np.concatenate([self.draws, kept]), stage=stage)

    def find(
        self, first: np.ndarray, known: Modes, far: FarLook | None = None, glimpses: np.ndarray | None = None
    ) -> Found:
        """Return the modes between which to jump, and what is known of them.

        ``first`` are points (point, dim) that descend before any others; ``known`` are modes found earlier. ``far``
        says how to search far from all modes; None means not at all. ``glimpses`` are rejected proposals (point, dim).
        """
        basins, _ = self._first_look(first, known)
        early = len(basins.anchor)
        self._look_below(basins, glimpses)
        search, power = Discovery(basins, self._seed), None
        if far is not None and basins.has_gradient and len(basins.anchor):
            power = self._look_far(basins, search, far)
        lowest, log_mass = masses(basins)
        kept = np.argsort(-log_mass, kind="stable")
        kept = kept[log_mass[kept] > log_mass.max(initial=-np.inf) - NEGLIGIBLE_NATS]
        displaced = basins.has_gradient and self.bulk is not None and self.bulk.outweighs(log_mass)
        if displaced and power is not None:
            power = power.without_descents()
        if displaced and self.bulk is not None and self.bulk.together:
            kept = kept[:1]
        elsewhere = basins.has_gradient and self.bulk is not None and self.bulk.is_outweighed(log_mass)
        found = [basins.laplace(int(k)) for k in lowest[kept]]
        laplace = None
        if found and found[0] is not None:
            laplace = np.stack([cov for cov in found if cov is not None]) * self.scale[:, None] * self.scale
        minima = basins.anchor[lowest[kept]].astype(self.draws.dtype)
        narrow = np.isin(basins.basin[lowest[kept]], list(basins.narrow)) & (len(kept) > 1)
        modes = fit_modes(self.draws, minima, self.scale, self.draws.dtype, self.stage, laplace, narrow)
        jumps = by_curvature = modes
        if laplace is not None and len(minima) and not displaced:
            by_curvature = laplace_modes(self.draws, minima, laplace, self.draws.dtype, self.stage)
        if laplace is not None and len(minima) > 1 and not displaced:
            jumps = max((modes, by_curvature), key=lambda modes: self._acceptance(modes, basins))
        mass = np.exp(log_mass[kept] - log_mass.max(initial=-np.inf))
        visited = np.isin(basins.basin[lowest[kept]], basins.basin[:early])
        covered = float(mass[visited].sum() / max(mass.sum(), 1e-300))
        return Found(
            modes,
            by_curvature,
            jumps,
            minima,
            covered,
            search.still_new,
            power,
            basins.spent,
            displaced,
            elsewhere,
            basins.unlike,
        )

    def _look_far(self, basins: BasinMap, search: Discovery, far: FarLook) -> SearchPower:
        """Search far from all modes, add the findings to ``basins``, and return the power of the search."""
        if far.shown is not None:
            search.look(far.shown.astype(self.draws.dtype), at_minima=True)
        for i in range(0, len(far.hot), HOT_BATCHES * DESCENTS):
            search.look(far.hot[i : i + HOT_BATCHES * DESCENTS])
            if search.reached()[1] >= FEWEST_ARRIVALS:
                break
        search.search(far.batches)
        looks, place = list[Look](), None
        for more in range(1 + MORE_PROBES):
            new = look_around(basins, far.probes, self._seed + more, place)
            if any(look.found for look in new):
                search.search(far.batches)
            looks += new
            tried = np.concatenate(search.tried).astype(self.draws.dtype)
            descended = Look.of_descents(tried / self.scale, basins.energies(tried))
            power = measure_power(basins, [*looks, descended], self._seed)
            place, found = power.weakest
            if not HOPELESS < found < ENOUGH_POWER:
                break
        descents, arrivals = search.reached()
        return replace(power, descents=descents, arrivals=arrivals)

    @property
    def _seed(self) -> int:
        """The seed for random numbers, which depends on the draws."""
        return zlib.crc32(self.draws[-DESCENTS:].tobytes())

    def _acceptance(self, modes: Modes, basins: BasinMap) -> float:
        """Return the acceptance probability of jumps between ``modes`` from late draws."""
        late = np.flatnonzero(self.stage == self.stage.max())
        points = self.draws[late[np.linspace(0, len(late) - 1, TRIED_JUMPS).astype(int)]]
        ends, volume = carry_to_others(modes, points, np.arange(TRIED_JUMPS))
        gain = basins.energies(points) - basins.energies(np.asarray(ends)) + np.asarray(volume, float)
        gain = gain if self.fold is None else np.where(self.fold.inside(np.asarray(ends)), gain, -np.inf)
        return float(np.exp(np.minimum(np.where(np.isnan(gain), -np.inf, gain), 0.0)).mean())

    def assign(
        self,
        draws: np.ndarray,
        first: np.ndarray,
        known: Modes,
        log_weight: np.ndarray | None = None,
        glimpses: np.ndarray | None = None,
    ) -> tuple[ModeAssignment, int]:
        """Return the modes in draws (chain, draw, dim) with the mode of each draw, and the gradients spent.

        ``first`` are points (point, dim) that descend before any others; ``known`` are modes found earlier. Modes are
        numbered by decreasing mass, from the ``log_weight`` of each draw (chain, draw). If that is None, all draws have
        equal weight. ``glimpses`` are as for ``find``.
        """
        basins, was_known = self._first_look(first, known)
        self._look_below(basins, glimpses)
        log_weight = np.zeros(draws.shape[:2]) if log_weight is None else log_weight
        weight = np.exp(log_normalise(log_weight.astype(float))).ravel()
        sample = _equal_weight(weight, draws)
        sample = sample[np.linspace(0, len(sample) - 1, min(len(sample), max(SAMPLE, 50 * draws.shape[2]))).astype(int)]
        picks, ends, complete = self._search(basins, np.asarray(draws[np.unravel_index(sample, draws.shape[:2])]))
        assigned = assign_draws(basins, draws, weight, sample, sample[picks], ends)
        minimum, energy = basins.minima()
        inside = assigned.label >= 0
        mass = np.bincount(assigned.label[inside], weight[inside], len(energy))
        order = np.argsort(-mass, kind="stable")
        rank = np.append(np.argsort(order), -1).astype(np.int16 if len(order) < 2**15 else np.int32)
        expected = _expected(basins, assigned.found.log_det, mass)
        old = np.isin(np.arange(len(energy)), basins.number()[was_known[was_known >= 0]])
        if int(known.num) == MOST_MODES and len(self.draws):  # other modes, without jumps, may be known too
            seen = sort_draws(assigned.found, self.draws[None][:, self.stage < self.stage.max()])
            old |= np.isin(np.arange(len(energy)), seen.label[~far_away(assigned.found, seen.square)])
        return ModeAssignment(
            minimum=minimum[order].astype(draws.dtype),
            energy=energy[order],
            known=old[order],
            expected=expected[order],
            label=rank[assigned.label].reshape(draws.shape[:2]),
            complete=complete,
            doubt=assigned.doubt[order],
            copies=None if self.fold is None else np.array([self.fold.copies(x, self.scale) for x in minimum[order]]),
        ), basins.spent

    def _first_look(self, first: np.ndarray, known: Modes) -> tuple[BasinMap, np.ndarray]:
        """Return the basins that points descend to, and the anchors that the minima known earlier lead to.

        The points are the known minima, some of ``first``, and randomly chosen draws.
        """
        rng = np.random.default_rng(len(self.draws))
        old = np.asarray(known.minimum)[: int(known.num)]
        first = rng.permutation(first)[:CHOSEN_DESCENTS]
        others = self.draws[rng.integers(len(self.draws), size=max(DESCENTS - len(first) - len(old), FEWEST_OTHERS))]
        basins = BasinMap(self.energy_fn, self.scale, self.draws.dtype, self.fold)
        basins.add(np.concatenate([old, first, others]), steps=DESCENT_STEPS)
        some = np.concatenate([old, others[:FEW_INNER]])
        return basins, basins.add(some, steps=DESCENT_STEPS, inner=True)[: len(old)]

    def _look_below(self, basins: BasinMap, glimpses: np.ndarray | None) -> None:
        """Add the basins below some ``glimpses`` (point, dim), where no chain was."""
        if glimpses is not None and len(glimpses):
            some = np.random.default_rng(len(glimpses)).permutation(glimpses)[:DESCENTS]
            basins.add(some.astype(self.draws.dtype), steps=DESCENT_STEPS, inner=True)

    def _search(self, basins: BasinMap, sample: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
        """Let draws descend, a batch at a time, until a batch finds no new basin.

        ``sample`` are draws (draw, dim) of the posterior. Half of a batch are the most extreme draws of each mode. If
        the mean of a mode lies outside it, it may really be two modes, so several more of its draws are included. The
        others are chosen at random. Return the indices of the draws that descended, the anchors at which they ended,
        and whether the last batch found nothing new.
        """
        rng = np.random.default_rng(len(sample))
        picked, ends, complete = [np.zeros(0, int)], [np.zeros(0, int)], not basins.has_gradient
        for _ in range(SEARCHES if basins.has_gradient and len(basins.anchor) else 0):
            minima, energy = basins.minima()
            label, found = sort_and_fit(sample, minima, self.scale)
            high = basins.energies(found.mean) > energy + BARRIER_NATS
            first = []
            for k in rng.permutation(np.unique(label)):
                mine = np.flatnonzero(label == k)
                first.append(mine[np.argmax(found.squared_distance(sample[mine], int(k)))])
                first += list(rng.choice(mine, HIGH_DESCENTS)) if high[k] else []
            first = first[: DESCENTS // 2]
            others = rng.integers(len(sample), size=DESCENTS - len(first))
            before = len(set(basins.basin))
            picked.append(np.append(first, others).astype(int))
            ends.append(basins.add(sample[picked[-1]]))
            complete = len(set(basins.basin)) <= before
            if complete:
                break
        return np.concatenate(picked), np.concatenate(ends), complete


def _expected(basins: BasinMap, log_width: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Return the mass that each basin would have if it were Gaussian, from its depth and its ``log_width``.

    If that is far above its actual ``mass``, the basin has few draws, and its width is taken from the Hessian at its
    minimum instead. Energies are then computed in 64 bits, since rounding can create a pit.
    """
    lowest = basins.lowest()
    energy = basins.energy[lowest]
    height = log_width - energy

    def shares() -> np.ndarray:
        share = np.exp(height - height.max(initial=-np.inf))
        return share / max(share.sum(), 1e-300)

    for k in np.argsort(-shares(), kind="stable")[:MOST_MODES] if basins.has_gradient else []:
        if mass[k] < shares()[k] / 10 and shares()[k] > 1e-3:
            height[k] = basins.log_width(int(lowest[k]), widest=1.0) - energy[k]
    if ((mass < shares() / 10) & (shares() > DOUBTED)).any():
        height -= rounded_by(basins.energy_fn, basins.anchor[lowest].astype(basins.dtype))
    return shares()


def _remembered(draws: np.ndarray) -> np.ndarray:
    """Return draws (draw, chain, dim) as (draw, dim), chain after chain, thinned evenly if there is no room for all."""
    flat, most = np.swapaxes(some_chains(draws), 0, 1).reshape(-1, draws.shape[-1]), _room(draws)
    return flat[np.linspace(0, len(flat) - 1, most).astype(int)] if len(flat) > most else flat


def _room(draws: np.ndarray) -> int:
    """Return the number of draws (..., dim) that a finder has room for."""
    return max(DESCENTS, min(REMEMBERED_DRAWS, SORT_BYTES // (draws.shape[-1] * draws.itemsize)))


def spread_within(draws: np.ndarray) -> np.ndarray:
    """Return the standard deviation of each coordinate within chains of draws (draw, chain, dim); 1 if none moved."""
    if not len(draws):
        return np.ones(draws.shape[-1])
    spread = np.sqrt(some_chains(draws).astype(float).var(axis=0).mean(axis=0))
    return np.where(spread > 0, spread, 1.0)


def posterior_draws(position: np.ndarray, log_weight: np.ndarray) -> np.ndarray:
    """Return equal-weight draws (draw, 1, dim), resampled from positions (chain, draw, dim) by their weights.

    Their number is half that of the positions, or less if a finder has no room for that.
    """
    weight = np.exp(log_normalise(log_weight.astype(float))).ravel()
    return position[np.unravel_index(_equal_weight(weight, position), position.shape[:2])][:, None]


def _equal_weight(weight: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Return the indices of draws resampled by their ``weight`` (draw,): half as many, or as many as there is room for.

    ``position`` are the draws, (chain, draw, dim).
    """
    return systematic_resample(weight, min(_room(position), max(1, weight.size // 2)), np.random.default_rng(0))


def lowest_draws(position: np.ndarray, energy: np.ndarray) -> np.ndarray:
    """Return the draw of lowest energy of each chain, (chain, dim), from positions (chain, draw, dim).

    Chains without a finite ``energy`` (chain, draw) are left out.
    """
    finite = np.isfinite(energy)
    lowest = np.where(finite, energy, np.inf).argmin(axis=1)
    return position[np.arange(len(energy)), lowest][finite.any(axis=1)]
