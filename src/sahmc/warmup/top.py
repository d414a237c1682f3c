"""The choice of the top of the ladder, from measurements: the prior, a fitted reference, or a high temperature."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr, ndtri

from sahmc._support.traced import TracedFunction
from sahmc.engine.start import evaluate_starts
from sahmc.kernels.base import Kernel
from sahmc.models.evaluation import energies_and_gradients
from sahmc.modes.basins import INNER_NATS
from sahmc.modes.curvature import correlated_covariance
from sahmc.modes.finder import Found
from sahmc.modes.parts import Parts
from sahmc.modes.reference import Reference, around_all
from sahmc.modes.shifts import Shifts
from sahmc.results.warmup_record import MASS_ERROR, Climb, LearntReference, Pilot
from sahmc.tilt.bridge import bridge_to_reference
from sahmc.tilt.importance import Expectation
from sahmc.warmup.curve import LEAST_INSIDE, fit_curve
from sahmc.warmup.explore import Landscape
from sahmc.warmup.pilot import PilotOutcome
from sahmc.warmup.reference import Beside, Referred, Stay, come_down, stay_in_modes
from sahmc.warmup.tempered import WarmupContext

LEAST_OVERLAP = 0.25
"""The minimum acceptance probability of a draw of q proposed from a posterior draw. Below it a high temperature is the
better top, provided it joins the modes: where modes are curved, q misses them."""
HEAT_DIM = 20
"""The largest dimension in which a high temperature can be the better top; in more dimensions hot chains have too much
space."""
LEAST_COVERED = 0.9
"""The minimum share of the mass that is in modes reached after the climb, for heat to count as joining the modes."""
LONG_WAY = 4.0
"""The barrier between prior and posterior above which a reference may be a better top."""
PRIOR_OVERLAP, LEAST_PRIOR_OVERLAP = 0.3, 0.1
"""The minimum overlap for choosing the reference: at the shortest barrier that counts as long, and in the limit of a
long one."""
MOST_LOST = 0.5
"""The largest share of chains lost on the descent from the prior for which the prior can be the top."""
MOST_RHAT = 1.1
"""The largest R-hat of draws of the prior with which its mass can be measured."""
CORE_NATS = 1.0
"""A narrow core counts if its mass is at most this many nats below that of the draws. In the neck of a funnel, the
Laplace approximation at the minimum is some three nats below."""
PRIOR_DRAWS = 2048
"""The number of draws of a Gaussian similar to the prior, for measuring the mass of the prior."""
PRIOR_INFLATION = 1.2
"""The factor by which that Gaussian is wider than the prior."""


@dataclass(frozen=True)
class Top:
    """The chosen top, and everything the ladder is made of."""

    context: WarmupContext
    """The context of the stages, with the energy and the plan for this top."""
    kernel: Kernel
    """The kernel, with the metric for this top."""
    quarter: float
    """The number of steps of that kernel in a quarter of the slowest period."""
    pilot: Pilot | None
    """The description of a well, in the energy on which the tilt acts."""
    found: Landscape
    """The findings about the posterior; their climb is the path to this top."""
    stay: Stay | None = None
    """The stay in which a reference was fitted, if there was one."""
    referred: Referred | None = None
    """The descent from the reference, if it is the top."""
    prior_mass: tuple[float, float] | None = None
    """The log mass of the prior and its error, where measured."""

    @property
    def reference(self) -> Reference | None:
        """The reference, if it is the top of the ladder."""
        return None if self.stay is None or self.referred is None else self.stay.reference

    @property
    def shifts(self) -> Shifts | None:
        """The displacements by which chains jump, where there are too many modes to keep."""
        return None if self.stay is None else self.stay.shifts

    @property
    def record(self) -> LearntReference | None:
        """The record of the reference, if it is the top."""
        return None if self.referred is None else self.referred.record

    @property
    def beside(self) -> Beside | None:
        """The reference that was fitted but is not the top of the ladder, if any."""
        return None if self.referred is not None else self.fitted

    @property
    def fitted(self) -> Beside | None:
        """The fitted reference in the form that a bridge needs, if one was fitted."""
        return None if self.stay is None else Beside(self.stay.reference, self.stay.points, self.stay.high)


def choose_top(context: WarmupContext, piloted: PilotOutcome, found: Landscape) -> Top:
    """Choose the top of the ladder and, if it is a reference, bring the chains down from there.

    ``found`` is what the chains saw on their descent from the prior, or on their climb to high temperatures and back.
    """
    plan, pilot, heat, searched = context.plan, piloted.pilot, found.climb, found.found
    beside = piloted.plain if plan.has_prior else piloted.kernel
    quarter = piloted.quarter_of(beside)
    length = math.inf
    if plan.has_prior and not (plan.learns_reference and has_core(context, found)):
        length = _length(piloted, found)
    if not plan.learns_reference or length <= 1:
        return Top(_without(context), beside, quarter, pilot, found)
    assert pilot is not None and searched is not None and heat is not None
    kernel = _for_all_modes(piloted, searched)
    stay = stay_in_modes(context, found.state, kernel, pilot, found.finder, searched, heat.ran_away)
    found = found._replace(
        state=stay.state,
        finder=stay.finder,
        modes=stay.found.jumps,
        gradients=found.gradients + stay.gradients,
        gradients_modes=found.gradients_modes + stay.gradients_modes,
    )
    mass = None
    if plan.has_prior and piloted.prior is not None and not plan.prior_normalised:
        position, base = (np.asarray(part) for part in (piloted.prior.position, piloted.prior.base_energy))
        mass = prior_mass(context.energy_fn, position, base)
    if prior_is_better(stay, searched, mass, length) if plan.has_prior else heat_is_better(stay, searched, heat):
        return Top(_without(context, spent=plan.stay_moves), beside, quarter, pilot, found, stay, prior_mass=mass)
    referred = come_down(context, kernel, pilot, stay)
    found = found._replace(
        state=referred.state,
        climb=referred.climb,
        finder=found.finder.with_draws(referred.draws),
        gradients=found.gradients + referred.gradients,
    )
    quarter = piloted.quarter_of(kernel)
    return Top(referred.context, kernel, quarter, referred.pilot, found, stay, referred, mass)


def _for_all_modes(piloted: PilotOutcome, found: Found) -> Kernel:
    """Return the kernel with a metric for all modes in ``found``, where the metric of the first mode is dense."""
    if piloted.kernel is piloted.plain or found.by_curvature is found.modes:
        return piloted.kernel
    factor = Parts.of(found.by_curvature).factor
    scale = np.sqrt((factor**2).sum(axis=2).mean(axis=0))
    root = np.linalg.inv(factor / scale[:, None])
    covariance = correlated_covariance(np.swapaxes(root, 1, 2) @ root, scale)
    return piloted.plain if covariance is None else piloted.plain.with_covariance(covariance)


def _without(context: WarmupContext, spent: int = 0) -> WarmupContext:
    """Return the context of a run without a reference, on which ``spent`` moves were spent."""
    return replace(context, plan=replace(context.plan, reference=False, spent=spent))


def has_core(context: WarmupContext, found: Landscape) -> bool:
    """Tell whether a narrow core in the middle of a wide mode may hold much of the mass.

    Chains that come down from the prior do not find it, since its volume is too small. A reference holds it.
    """
    searched, bulk = found.found, found.finder.bulk
    if searched is None or bulk is None or searched.by_curvature is searched.modes:
        return False
    num = int(searched.modes.num)
    minima = np.asarray(searched.by_curvature.minimum)[:num]
    same = (minima[:, None] == np.asarray(searched.modes.minimum)[:num]).all(axis=2)  # each has an order of its own
    narrow, wide = (np.asarray(modes.log_det, float)[:num] for modes in (searched.by_curvature, searched.modes))
    wide = np.where(same.any(axis=1), wide[same.argmax(axis=1)], -math.inf)
    energy = energies_and_gradients(context.energy_fn, minima)[0]
    return bool(((narrow < wide - INNER_NATS) & (narrow - energy > bulk.log_mass - CORE_NATS)).any())


def _length(piloted: PilotOutcome, found: Landscape) -> float:
    """Return the length of the path from the prior, in units of LONG_WAY; above 1 another top may be better.

    The path is the climb of ``found``. The length is infinite if most chains got lost on it, or if the likelihood is
    zero almost everywhere under the prior.
    """
    pilot, climb = piloted.pilot, found.climb
    if pilot is None or climb is None:
        return 0.0
    if found.astray > MOST_LOST * len(found.state.sahmc.chains.energy) or climb.down[0].inside < LEAST_INSIDE:
        return math.inf
    return fit_curve(climb, pilot.prior_share, pilot.u_min, pilot.dim).barrier(0.0) / LONG_WAY


def prior_is_better(stay: Stay, found: Found, mass: tuple[float, float] | None, length: float) -> bool:
    """Tell whether the prior is a better top for the ladder than the fitted reference.

    It is if there are too many modes to keep, or if the search in ``found`` ended while it still brought new modes. It
    is if ``mass``, the log mass of the prior and its error, is too uncertain: without it there is no evidence. None
    means that the mass is known. It is also if the overlap of the reference is too small for ``length``: the barrier
    from the prior in units of LONG_WAY, infinite where chains cannot cross it.
    """
    if math.isinf(length):
        return False
    unknown = mass is not None and not mass[1] < MASS_ERROR
    return unknown or stay.broad or found.still_new or stay.overlap < _overlap_that_pays(length)


def _overlap_that_pays(length: float) -> float:
    """Return the overlap at which a reference shortens the path as much as PRIOR_OVERLAP does at a barrier of LONG_WAY.

    Suppose the energies of two densities differ by a Gaussian of standard deviation s. Draws are then exchanged with
    probability 2 Phi(-s / sqrt(2)), and the path between them has length s / sqrt(pi). ``length`` is in units of
    LONG_WAY.
    """
    return max(LEAST_PRIOR_OVERLAP, 2 * float(ndtr(length * ndtri(PRIOR_OVERLAP / 2))))


def heat_is_better(stay: Stay, found: Found, heat: Climb) -> bool:
    """Tell whether a high temperature is a better top for the ladder than the reference.

    ``found`` are the modes known after the climb to high temperatures, ``heat``.
    """
    joins = (
        stay.points.shape[1] <= HEAT_DIM
        and not heat.ran_away
        and math.isfinite(heat.melting)
        and found.covered > LEAST_COVERED
    )
    return joins and not stay.broad and stay.overlap < LEAST_OVERLAP


def prior_mass(energy_fn: TracedFunction, position: np.ndarray, base: np.ndarray) -> tuple[float, float]:
    """Return the log mass of the prior and its error, from bridges between its draws and a Gaussian.

    ``position`` and ``base`` are the positions (draw, chain, dim) of the draws, and -log prior there. The Gaussian is
    fitted to half of the chains and bridged to the other half, then the halves swap. If it were bridged to the draws it
    was fitted to, it would seem closer than it is. The error is infinite if chains disagree about the prior.
    """
    if position.shape[1] == 1:  # with one chain, split it into an earlier and a later half
        rows = len(position) // 2
        position, base = (np.stack([part[:rows, 0], part[rows : 2 * rows, 0]], axis=1) for part in (position, base))
    half = np.arange(position.shape[1]) % 2
    found = [_mass_by(energy_fn, position, base, half == k) for k in (0, 1)]
    mean, gap = 0.5 * (found[0].mean + found[1].mean), 0.5 * abs(float(found[0].mean - found[1].mean))
    error = max(0.5 * math.hypot(*(float(one.mcse) for one in found)), gap)
    return float(mean), error if _agree(position) else math.inf


def _mass_by(energy_fn: TracedFunction, position: np.ndarray, base: np.ndarray, fitted: np.ndarray) -> Expectation:
    """Return the log mass of the prior, by a Gaussian ``fitted`` to the draws of some chains (chain,)."""
    flat = position[:, fitted].reshape(-1, position.shape[-1])
    gaussian = around_all(flat, PRIOR_INFLATION, flat.dtype)
    points = gaussian.draws(PRIOR_DRAWS, seed=len(flat))
    there = evaluate_starts(energy_fn, jnp.asarray(points))[1].chains.base
    assert there is not None
    low = (base.astype(float) - gaussian.energies(position))[:, ~fitted].T
    high = np.asarray(there.energy, float) - gaussian.energies(points)
    return bridge_to_reference(low, np.full(low.shape, 1 / low.size), high)


def _agree(position: np.ndarray) -> bool:
    """Tell whether chains agree on positions (draw, chain, dim), by R-hat of each coordinate and of its square."""
    z = (position - position.mean(axis=(0, 1))) / np.maximum(position.std(axis=(0, 1)), 1e-300)
    for values in (z, z**2):
        within, between = values.var(axis=0).mean(axis=0), values.mean(axis=0).var(axis=0)
        if not (between < (MOST_RHAT**2 - 1) * within).all():
            return False
    return True
