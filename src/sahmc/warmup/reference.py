"""The reference stage: chains stay in every known mode, a reference q is fitted, and chains come down from it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from sahmc.engine.move import RunState
from sahmc.engine.start import evaluate_starts
from sahmc.kernels.base import Kernel
from sahmc.kernels.jump import Jump
from sahmc.models.evaluation import energies_and_gradients
from sahmc.modes.finder import Found, ModeFinder
from sahmc.modes.modes import MOST_MODES
from sahmc.modes.parts import Parts, fit_reference
from sahmc.modes.reference import Reference, around_all, refer
from sahmc.modes.shifts import Shifts, find_shifts
from sahmc.results.warmup_record import Climb, LearntReference, Pilot
from sahmc.warmup.climb import run_climb
from sahmc.warmup.ladder import FEWEST_LEVELS
from sahmc.warmup.pilot import effective_dim, fit_pilot
from sahmc.warmup.rescue import stranded_height
from sahmc.warmup.tempered import WarmupContext, run_at_temperature, take_places

REFERENCE_DRAWS = 512
"""The minimum number of draws of q; their energies show how far q is from the posterior."""
DRAWS_PER_PART = 32
"""The minimum number of draws of each Gaussian for estimating its weight."""
BROAD_INFLATION = 1.5
"""The factor by which one Gaussian over all modes is wider than the modes."""
FAIR_NATS = 10.0
"""The largest height of a starting draw above the minimum of its mode, in nats, plus two for each dimension."""
MOST_INSIDE = 0.9
"""The quantile over chains of the mean energy E with which chains are compared, to detect those outside all known
modes."""
SETTLING = 4
"""The first 1/SETTLING of each stay is discarded as burn-in."""


class Stay(NamedTuple):
    """The outcome of a stay of the chains in every known mode, and the reference fitted to it."""

    state: RunState
    """The chains at the end of the stay."""
    step_size: float
    """The tuned step size."""
    finder: ModeFinder
    """The finder, with the draws made in every mode."""
    found: Found
    """The modes, with Gaussians fitted to these draws."""
    ran_away: bool
    """Whether chains ran away when they were heated."""
    reference: Reference
    """The reference, q."""
    broad: bool
    """Whether q is one Gaussian over all modes, because there are too many modes to keep."""
    shifts: Shifts | None
    """The displacements by which chains then jump, if any lead from mode to mode."""
    points: np.ndarray
    """Draws of q, (draw, dim)."""
    high: np.ndarray
    """The energies E = -log density + log q of the draws of q."""
    low: np.ndarray
    """The energies E of draws of the posterior, (draw, chain)."""
    overlap: float
    """The acceptance probability of a draw of q proposed from a draw of the posterior, with all modes visited
    equally."""
    gradients: int
    """The gradients spent on moves."""
    gradients_modes: int
    """The gradients spent on the search for modes and on the reference."""


class Beside(NamedTuple):
    """A reference that was fitted but is not the top of the ladder; it serves for a bridge."""

    reference: Reference
    """The reference, q."""
    points: np.ndarray
    """Draws of q, (draw, dim)."""
    high: np.ndarray
    """The energies E = -log density + log q of the draws of q."""


class Referred(NamedTuple):
    """The outcome of cooling the chains from the reference to the posterior."""

    context: WarmupContext
    """The context of the stages, with the reference in the role of the prior in the energy."""
    record: LearntReference
    """The record of the reference."""
    pilot: Pilot
    """The description of a well whose energy is -log density + log q."""
    climb: Climb
    """The record of the descent."""
    state: RunState
    """The chains after the descent."""
    draws: np.ndarray
    """The draws at beta = 1 after the descent, (draw, chain, dim)."""
    gradients: int
    """The gradients spent."""


def stay_in_modes(
    context: WarmupContext,
    state: RunState,
    kernel: Kernel,
    pilot: Pilot,
    finder: ModeFinder,
    found: Found,
    ran_away: bool = False,
) -> Stay:
    """Put chains into every mode of ``found``, let them stay there, and fit the reference to their draws.

    ``state`` holds the chains wherever they are. ``ran_away`` says whether they ran away when heated, in which case the
    reference may need heavy tails.
    """
    plan = context.plan
    state = in_known_modes(context, state, found)
    made = run_at_temperature(context, "climb", state, kernel, 1.0, pilot.step_size, plan.stay_moves, thin=4)
    late = np.asarray(made.draws.position)[len(made.draws.energy) // SETTLING :]
    finder = finder.anew(late) if found.elsewhere else finder.with_draws(late)
    again = finder.find(late[-1], found.modes)
    broad, shifts = len(found.minima) > MOST_MODES, None
    if broad:
        flat = late.reshape(-1, late.shape[-1])
        flat = flat if context.fold is None else context.fold(flat)
        seen = np.concatenate([found.minima, again.minima, flat])
        reference = around_all(seen, BROAD_INFLATION, late.dtype).folded(context.fold)
        shifts, looked = find_shifts(context.energy_fn, found.minima, finder.scale, flat)
    else:
        reference, looked = _around_modes(context, again, len(finder.draws), ran_away)
    points = reference.draws(max(REFERENCE_DRAWS, plan.chains), seed=len(finder.draws))
    high = energies_and_gradients(context.energy_fn, points)[0] - reference.energies(points)
    low = np.asarray(made.draws.total_energy, float)[-len(late) :] - reference.energies(late)
    stray = strays(low, late.shape[-1])
    state, low = made.state, low[:, ~stray]
    if stray.any():
        state = state._replace(sahmc=state.sahmc._replace(chains=take_places(state.sahmc.chains, stray)))
    return Stay(
        state=state,
        step_size=made.step_size,
        finder=finder,
        found=again,
        ran_away=ran_away,
        reference=reference,
        broad=broad,
        shifts=shifts,
        points=points,
        high=high,
        low=low,
        overlap=overlap(low, high),
        gradients=made.gradients,
        gradients_modes=again.spent + looked + len(points),
    )


def strays(low: np.ndarray, dim: int) -> np.ndarray:
    """Tell for each chain whether it stayed outside all known modes, where q has almost no mass.

    ``low`` are the energies -log density + log q of its draws, (draw, chain). The search has examined such places and
    found negligible mass. Counted as draws of the posterior, they would bias the mean energy.
    """
    mean = low.mean(axis=0)
    return ~(mean > np.quantile(mean, MOST_INSIDE) - stranded_height(dim))


def overlap(low: np.ndarray, high: np.ndarray) -> float:
    """Return the acceptance probability of a draw of q proposed from a draw of the posterior.

    ``low`` and ``high`` are the energies -log density + log q of draws of the posterior and of q.
    """
    some = np.random.default_rng(0).choice(low.ravel(), len(high))
    gain = np.where(np.isfinite(high), some - np.where(np.isfinite(high), high, 0.0), -np.inf)
    return float(np.exp(np.minimum(gain, 0.0)).mean())


def come_down(context: WarmupContext, kernel: Kernel, pilot: Pilot, stay: Stay) -> Referred:
    """Cool the chains from draws of the reference, which takes the role of the prior from here on."""
    plan, reference = context.plan, stay.reference
    energy_fn = refer(context.energy_fn, reference)
    inner = WarmupContext(context.runner, energy_fn, replace(plan, has_prior=True), FEWEST_LEVELS, context.fold)
    inside = stay.high[np.isfinite(stay.high)]
    mean_energy = float(stay.low.mean())
    well = fit_pilot(
        effective_dim(stay.points.shape[1], stay.low),
        mean_energy,
        float(np.median(inside)) if inside.size else mean_energy,
        step_size=stay.step_size,
        step_size_prior=stay.step_size,
        quarter=pilot.quarter,
        stranded=pilot.stranded,
    )
    _, there = evaluate_starts(energy_fn, jnp.asarray(stay.points[: plan.chains]))
    home = np.asarray(stay.state.sahmc.chains.position)
    begun = stay.state._replace(sahmc=stay.state.sahmc._replace(chains=there.chains))
    moves = max(12, plan.reference_moves - plan.stay_moves)
    done = run_climb(
        inner,
        begun,
        Jump(kernel, stay.found.jumps, reference, shifts=stay.shifts),
        well,
        stay.finder.scale,
        home,
        moves,
    )
    shifts = 0 if stay.shifts is None else stay.shifts.num
    record = LearntReference(
        reference.num_parts, stay.broad, stay.overlap, done.climb.down, shifts, reference.num_heavy, stay.ran_away
    )
    return Referred(inner, record, well, done.climb, done.state, done.draws, done.gradients)


def in_known_modes(context: WarmupContext, state: RunState, found: Found) -> RunState:
    """Return the chains distributed evenly over all known modes; with a single mode, leave them where they are.

    They also stay where most of the mass is far from any minimum, since the chains already show where it is. But they
    do move if the search found a mode with far more mass than where they are. Where modes have copies, chains are moved
    even for one mode: each copy is a small part of space, and chains may have been in none. A chain starts at a draw of
    the Gaussian that describes its mode, or at the minimum if that draw is far too high.
    """
    num, chains = int(found.modes.num), state.sahmc.chains
    alone = num < 2 and context.fold is None and not found.elsewhere
    if num == 0 or found.displaced or alone:
        return state
    which = np.arange(len(chains.energy)) % num
    picture = found.by_curvature if found.elsewhere else found.modes
    minimum = np.asarray(picture.minimum)[:num]
    points = Parts.of(picture).weighed(np.ones(num), minimum.dtype).draws_of(which, seed=num)
    points = points if context.fold is None else context.fold(points)
    energy = energies_and_gradients(context.energy_fn, points)[0]
    lowest = energies_and_gradients(context.energy_fn, minimum)[0][which]
    fair = energy < lowest + FAIR_NATS + 2.0 * points.shape[1]
    _, there = evaluate_starts(context.energy_fn, jnp.asarray(np.where(fair[:, None], points, minimum[which])))
    return state._replace(sahmc=state.sahmc._replace(chains=there.chains))


def _around_modes(context: WarmupContext, found: Found, seed: int, ran_away: bool) -> tuple[Reference, int]:
    """Return a reference around all modes in ``found``, and the number of energies computed.

    Each mode is described by its draws, by its Hessian, or by both. If a mode is narrow in the middle and wide outside,
    each description sees what the other misses. If chains ``ran_away`` when heated, a t distribution is added.
    """
    pictures = [Parts.of(found.modes)]
    if found.by_curvature is not found.modes and 2 * len(pictures[0].mode) <= MOST_MODES:
        pictures.append(Parts.of(found.by_curvature))
        if ran_away and 3 * len(pictures[0].mode) <= MOST_MODES:
            pictures.append(pictures[-1].with_heavy_tails())
    num = max(REFERENCE_DRAWS, DRAWS_PER_PART * len(pictures) * len(pictures[0].mode))

    def energy(points: np.ndarray) -> np.ndarray:
        found = energies_and_gradients(context.energy_fn, points)[0]
        return found if context.fold is None else np.where(context.fold.inside(points), found, np.inf)

    reference, looked = fit_reference(pictures, energy, num, seed, found.minima.dtype)
    return reference.folded(context.fold), looked
