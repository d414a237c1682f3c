"""The pilot run: plain HMC from the starting points."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import numpy as np

from sahmc._support.thinning import some_chains
from sahmc.engine.move import Draw, RunState
from sahmc.hamiltonian.spread import LadderSpread, Spread
from sahmc.kernels.base import Kernel
from sahmc.models.evaluation import energies_and_gradients
from sahmc.modes.bulk import DISPLACED_NATS, DISPLACED_PER_DIM
from sahmc.modes.curvature import LAPLACE_DIM, WIDEST, correlated_covariance, curvature, nat_lengths
from sahmc.results.warmup_record import Pilot
from sahmc.tilt.importance import weighted_ess
from sahmc.warmup.rescue import LOW_CHAINS, rescue, stranded_height
from sahmc.warmup.tempered import TemperedMoves, WarmupContext, run_at_temperature

WINDOWS = (1, 1, 2, 4)
"""The relative lengths of the windows in which the metric is found; it is updated after each."""
PRIOR_WINDOWS = (1, 1, 2)
"""The relative lengths of the windows in which the variances at beta = 0 are found."""
GUESSED_DIM = 400
"""The largest dimension in which the scale of each coordinate is measured before the first move."""
LEAST_SHARE = 1e-12
"""The smallest r, that of a prior a million times as wide as the posterior; a ladder is geometric in beta + r."""
SOME_DRAWS, SOME_CHAINS = 256, 32
"""The number of draws of a window whose gradients are computed, and the largest number of chains they come from."""
CURVED_POINTS = 8
"""The number of chains at which the Hessian is evaluated."""
CURVED_COPIES = 16
"""The number of copies of each such place that are used, under label switching."""
FEWEST_MIXING = 20
"""The minimum number of draws of a chain for judging how fast it mixes."""
MOST_REPEATS = 3
"""The largest number of times that the moves at beta = 1 are repeated while chains still drift."""
SURE_DRIFT, FAR_DRIFT, FEWEST_DRIFTING = 5.0, 0.5, 8
"""The thresholds for drifting chains. The difference of the means of their earlier and later draws, averaged over
chains, must exceed this number of standard errors and this multiple of the spread within a chain. The third is the
minimum number of chains for the test."""
CORRELATED_DIM = 500
"""The largest dimension in which correlations are examined."""


class PilotOutcome(NamedTuple):
    """The outcome of the pilot run."""

    pilot: Pilot | None
    """The findings; None where nothing was left to find."""
    kernel: Kernel
    """The tuned kernel."""
    plain: Kernel
    """The same kernel with a diagonal metric; it differs where coordinates are so correlated that ``kernel`` has a
    dense one."""
    plain_quarter: float
    """The number of steps of the plain kernel in a quarter of the slowest period."""
    state: RunState
    """The chains at the end of the moves at beta = 1."""
    draws: np.ndarray
    """The draws at beta = 1, (draw, chain, dim), of some of the chains."""
    gradients: int
    """The gradients spent."""
    at_prior: RunState | None = None
    """The chains at the end of the moves at beta = 0, where there is a prior."""
    prior: Draw | None = None
    """The draws at beta = 0, arrays (draw, chain, ...), where there is a prior."""
    spreads: LadderSpread | None = None
    """The variances at both ends of the ladder, where there is a prior and the metric is not given."""

    def quarter_of(self, kernel: Kernel) -> float:
        """Return the number of steps of this kernel, dense or plain, in a quarter of the slowest period."""
        return self.plain_quarter if kernel is self.plain or self.pilot is None else self.pilot.quarter


def fit_pilot(dim: float, mean_energy: float, prior_energy: float | None, **fields: Any) -> Pilot:
    """Return the pilot with u_min and r from the mean energy at beta = 1 and, where there is a prior, at beta = 0.

    mean(0) - mean(1) = (d/2) (1/r - 1/(1+r)) gives r(1+r) = (d/2) / difference. ``dim`` is d, and ``prior_energy`` is
    mean(0), None without a prior. ``fields`` are other fields of the pilot.
    """
    half = 0.5 * dim
    share = 0.0
    if prior_energy is not None:
        ratio = half / max(prior_energy - mean_energy, 1e-3 * half)
        share = max(LEAST_SHARE, 2.0 * ratio / (math.sqrt(1.0 + 4.0 * ratio) + 1.0))
    return Pilot(dim, mean_energy, mean_energy - half / (1.0 + share), share, **fields)


def effective_dim(dim: int, energy: np.ndarray) -> float:
    """Return the dimension or, where far from it, 2 Var U, which is d for a Gaussian well.

    The variance is that of ``energy`` (draw, chain) within a typical chain, so that chains still descending do not
    count.
    """
    measured = 2.0 * float(np.median(energy.var(axis=0, dtype=float)))
    return measured if math.isfinite(measured) and measured > 0 and not dim / 2 <= measured <= 2 * dim else float(dim)


def are_on_their_way(draws: np.ndarray) -> bool:
    """Tell whether chains still drift in a common direction, so that their draws are not from the posterior.

    The means of the earlier and the later half of each chain in draws (draw, chain, dim) are compared. In stationary
    chains their difference is noise, equally often of either sign.
    """
    half = len(draws) // 2
    if half < 2 or draws.shape[1] < FEWEST_DRIFTING:
        return False
    early, late = draws[:half].astype(float), draws[half:].astype(float)
    drift = late.mean(axis=0) - early.mean(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        surely = np.abs(drift.mean(axis=0)) / (drift.std(axis=0, ddof=1) / math.sqrt(drift.shape[0]))
        far = np.abs(drift.mean(axis=0)) / np.sqrt(0.5 * (early.var(axis=0) + late.var(axis=0)).mean(axis=0))
    return bool(((surely > SURE_DRIFT) & (far > FAR_DRIFT)).any())


def quarter_period(draws: np.ndarray) -> float:
    """Return a quarter of the slowest period of the dynamics within a mode, where every coordinate has unit variance.

    It is pi/2 sqrt(l), with l the largest eigenvalue of the correlation of draws (draw, chain, dim) within chains.
    """
    centred = (draws - draws.mean(axis=0)).reshape(-1, draws.shape[-1]).astype(float)
    spread = centred.std(axis=0)
    if draws.shape[-1] > CORRELATED_DIM or not (spread > 0).all():
        return 0.5 * math.pi
    largest = np.linalg.eigvalsh(np.cov((centred / spread).T, bias=True).reshape(2 * (draws.shape[-1],)))[-1]
    return 0.5 * math.pi * math.sqrt(float(largest))


def run_pilot(context: WarmupContext, state: RunState) -> PilotOutcome:
    """Make plain moves at beta = 1 and, where the ladder ends in a prior, at beta = 0.

    What is learnt at beta = 1 is in ``Settled``.
    """
    plan, given = context.plan, context.plan.kernel
    dim, num = state.sahmc.chains.position.shape[1], plan.pilot_moves
    if not plan.needs_pilot:
        nothing = np.empty((0, plan.chains, dim), state.sahmc.chains.position.dtype)
        return PilotOutcome(None, given, given, 1.0, state, nothing, 0)
    settled = _settle(context, state, num)
    learnt, kernel, second, spent = settled.learnt, settled.kernel, settled.moves, settled.gradients
    step = second.step_size
    late = jax.tree.map(lambda x: some_chains(x[:, ~settled.high]), _late(second.draws))
    energy = np.asarray(late.energy)[:, _in_low_modes(late)]
    size, mean_energy = effective_dim(dim, energy), float(energy.mean(dtype=float))
    # no step is accepted where a density is flat
    plain_step = step if kernel is learnt.kernel else learnt.plain_step
    plain_quarter = quarter_period(late.position) / plain_step if plain_step > 0 else 1.0
    quarter = plain_quarter if kernel is learnt.kernel else 0.5 * math.pi / max(step, 1e-30)
    fields = {"step_size": step, "quarter": quarter, "stranded": settled.stranded}
    if not plan.visits_prior:
        pilot = fit_pilot(size, mean_energy, None, **fields)
        return PilotOutcome(pilot, kernel, learnt.kernel, plain_quarter, settled.state, late.position, spent)

    there = _at_prior(context, settled.state, learnt.kernel, learnt.variance, step, num // 2)
    prior = _late(there.moves.draws)
    inside = prior.energy[np.isfinite(prior.energy)]  # elsewhere the likelihood is zero
    median = float(np.median(inside)) if inside.size else mean_energy
    pilot = fit_pilot(size, mean_energy, median, step_size_prior=there.moves.step_size, **fields)
    spreads = None
    if given.uses_spread and _by_level(learnt.kernel, learnt.variance):
        spreads = LadderSpread(_spread(context, late.position, learnt.variance).variance(), there.variance)
    return PilotOutcome(
        pilot,
        kernel,
        learnt.kernel,
        plain_quarter,
        settled.state._replace(t_key=there.moves.state.t_key),  # use no random number twice
        late.position,
        spent + there.gradients,
        there.moves.state,
        prior,
        spreads,
    )


class Settled(NamedTuple):
    """The outcome of the moves at beta = 1."""

    learnt: Learnt
    """The outcome of the first half of the moves."""
    kernel: Kernel
    """The kernel of the second half: that of the first half, or one with a dense metric."""
    moves: TemperedMoves
    """The second half of the moves."""
    state: RunState
    """The chains, none of them far too high."""
    high: np.ndarray
    """Whether each chain was too high at the end of the second half, (chain,)."""
    stranded: int
    """The number of chains moved to the places of others."""
    gradients: int
    """The gradients spent."""


def _settle(context: WarmupContext, state: RunState, num: int) -> Settled:
    """Make ``num`` moves at beta = 1, and repeat them while chains still drift.

    The first half of the moves finds the step size and the spread of the draws. The second half finds the step size
    under the resulting metric, and the mean energy. Drifting chains show the lengths of another place, so everything
    starts afresh.
    """
    given, dim = context.plan.kernel, state.sahmc.chains.position.shape[1]
    stranded, spent = 0, 0
    for repeat in range(1 + MOST_REPEATS):
        learnt = _learn_spread(context, state, num // 2)
        kernel = learnt.kernel
        if given.may_be_dense and dim <= LAPLACE_DIM:
            covariance, cost = _correlations(context, learnt.state, learnt.variance)
            spent += cost
            kernel = kernel if covariance is None else kernel.with_covariance(covariance)
        made = run_at_temperature(context, "pilot", learnt.state, kernel, 1.0, learnt.step_size, num - learnt.moves)
        energies = np.asarray(made.draws.total_energy, float)
        rescued = rescue(context, made.state, learnt.variance, energies, may_fall=False)
        state, stranded = rescued.state, max(stranded, learnt.stranded, rescued.stranded)
        spent += learnt.gradients + made.gradients + rescued.gradients
        if repeat == MOST_REPEATS or not are_on_their_way(some_chains(made.draws.position[:, ~rescued.high])):
            break
    return Settled(learnt, kernel, made, state, rescued.high, stranded, spent)


class Learnt(NamedTuple):
    """The outcome of the first half of the moves at beta = 1."""

    kernel: Kernel
    """The kernel with the metric that was found."""
    variance: np.ndarray
    """The variance of each coordinate, (dim,)."""
    step_size: float
    """An initial step size for that metric."""
    plain_step: float
    """The step size found in the last window."""
    state: RunState
    """The chains, none of them far too high."""
    stranded: int
    """The number of chains moved to the places of others."""
    moves: int
    """The number of moves made."""
    gradients: int
    """The gradients spent."""


def _learn_spread(context: WarmupContext, state: RunState, num: int) -> Learnt:
    """Make about ``num`` moves at beta = 1 in WINDOWS of growing length, each with the metric of the one before."""
    given, dim = context.plan.kernel, state.sahmc.chains.position.shape[1]
    variance, spent = first_variances(context, state)
    kernel, step, stranded = given.tuned(1.0, Spread(np.empty((0, dim)), 0, variance)), 0.1, 0
    windows = [max(1, num * share // sum(WINDOWS)) for share in WINDOWS] if given.uses_spread else [num]
    for i, moves in enumerate(windows):
        made = run_at_temperature(context, "pilot", state, kernel, 1.0, step, moves, eager=i == 0)
        rescued = rescue(context, made.state, variance, np.asarray(made.draws.total_energy, float))
        state, stranded, step = rescued.state, max(stranded, rescued.stranded), made.step_size
        spent += made.gradients + rescued.gradients
        if given.uses_spread:
            late, grads = some_chains(_late(made.draws).position[:, ~rescued.high]), None
            if given.uses_gradient and i + 1 < len(windows):
                grads, cost = some_gradients(context, late)
                spent += cost
            spread = _spread(context, late, variance, grads)
            kernel, step, variance = given.tuned(1.0, spread), dim**-0.25, spread.variance()
    return Learnt(kernel, variance, step, made.step_size, state, stranded, sum(windows), spent)


class AtPrior(NamedTuple):
    """The outcome of moves at beta = 0."""

    moves: TemperedMoves
    """The moves of the last window."""
    variance: np.ndarray
    """The variance of each coordinate used for these moves."""
    gradients: int
    """The gradients spent."""


def _at_prior(
    context: WarmupContext, state: RunState, kernel: Kernel, variance: np.ndarray, step: float, moves: int
) -> AtPrior:
    """Make ``moves`` moves at beta = 0 in PRIOR_WINDOWS, each with the variances learnt in the one before.

    ``variance`` and ``step`` are those at beta = 1. The prior may be wider by any factor, different for each
    coordinate.
    """
    spent, by_level = 0, context.plan.kernel.uses_spread and _by_level(kernel, variance)
    windows = [max(1, moves * share // sum(PRIOR_WINDOWS)) for share in PRIOR_WINDOWS] if by_level else [moves]
    for i, num in enumerate(windows):
        made = run_at_temperature(context, "pilot", state, kernel, 0.0, step, num, eager=i == 0)
        state, step, spent = made.state, made.step_size, spent + made.gradients
        if by_level and i + 1 < len(windows):
            variance = _spread(context, some_chains(_late(made.draws).position), variance).variance()
            kernel, step = kernel.with_variances(variance), len(variance) ** -0.25
    return AtPrior(made, variance, spent)


def _by_level(kernel: Kernel, variance: np.ndarray) -> bool:
    """Tell whether a tuned kernel can have different variances at each level: whether its metric is diagonal."""
    return kernel.with_variances(variance) is not kernel


def have_mass(curves: np.ndarray, energy: np.ndarray) -> np.ndarray:
    """Tell around which points there is mass, by the Hessians (point, dim, dim) and energies there.

    A chain may be stuck where the posterior is far narrower than elsewhere and no deeper, as high up in a funnel. The
    Hessian there would make the steps of all chains too short.
    """
    value = np.clip(np.linalg.eigvalsh(curves), WIDEST**-2, None)
    height = energy + 0.5 * np.log(value).sum(axis=1)
    return height <= np.median(height) + DISPLACED_NATS + DISPLACED_PER_DIM * curves.shape[1]


def _correlations(context: WarmupContext, state: RunState, variance: np.ndarray) -> tuple[np.ndarray | None, int]:
    """Return the covariance of the coordinates from the Hessian at some chains, and the cost.

    It is None where a diagonal metric is enough. ``variance`` is that of each coordinate, as far as it is known.
    """
    position = np.asarray(state.sahmc.chains.position)
    chosen = np.linspace(0, len(position) - 1, CURVED_POINTS).astype(int)
    points = position[chosen]
    scale = np.sqrt(variance)
    curves = np.stack([curvature(context.energy_fn, point, scale) for point in points])
    if np.isfinite(curves).all():
        curves = curves[have_mass(curves, np.asarray(state.sahmc.chains.total_energy, float)[chosen])]
    if context.plan.symmetries is not None:
        curves = np.repeat(curves, CURVED_COPIES, axis=0)
        move = context.plan.symmetries.group.random_copies(curves[:, 0], np.random.default_rng(len(curves)))
        curves = np.stack([s[:, None] * c[p][:, p] * s for c, p, s in zip(curves, move.places, move.sign, strict=True)])
    return correlated_covariance(curves, scale), 2 * len(points) * len(scale)


def _spread(context: WarmupContext, draws: np.ndarray, believed: np.ndarray, grads: np.ndarray | None = None) -> Spread:
    """Return the spread of draws (draw, chain, dim), the same for all parts under label switching.

    ``believed`` and ``grads`` are as in ``Spread``.
    """
    spread = Spread.of(draws, believed, grads)
    if context.plan.symmetries is None:
        return spread
    rng = np.random.default_rng(len(draws))
    rows = context.plan.symmetries.group.random_copies(spread.rows, rng)(spread.rows)
    if grads is not None:
        grads = context.plan.symmetries.group.random_copies(grads, rng)(grads)
    return spread._replace(rows=rows, grads=grads)


def first_variances(context: WarmupContext, state: RunState) -> tuple[np.ndarray, int]:
    """Return a first guess of the variance of each coordinate, and the gradients spent.

    It is that of a Gaussian with the energy's curvature at the chain of median energy; 1 where that is not measured.
    """
    chains, kernel = state.sahmc.chains, context.plan.kernel
    dim = chains.position.shape[1]
    if not (kernel.uses_gradient and kernel.uses_spread and kernel.tunes_step_size) or dim > GUESSED_DIM:
        return np.ones(dim), 0
    middle = int(np.argsort(np.asarray(chains.total_energy))[len(chains.energy) // 2])
    lengths, spent = nat_lengths(context.energy_fn, np.asarray(chains.position[middle]))
    return lengths**2, spent


def some_gradients(context: WarmupContext, draws: np.ndarray) -> tuple[np.ndarray, int]:
    """Return gradients at SOME_DRAWS of draws (draw, chain, dim), minus the mean of each chain, and their number."""
    chains = min(draws.shape[1], SOME_CHAINS)
    times = np.unique(np.linspace(0, len(draws) - 1, SOME_DRAWS // chains).astype(int))
    some = draws[times][:, np.linspace(0, draws.shape[1] - 1, chains).astype(int)]
    found = energies_and_gradients(context.energy_fn, some.reshape(-1, draws.shape[-1]))[1].reshape(some.shape)
    away = (found - found.mean(axis=0)).reshape(-1, draws.shape[-1])
    return away[np.isfinite(away).all(axis=1)] * np.sqrt(len(times) / max(1, len(times) - 1)), len(away)


def _in_low_modes(draws: Draw) -> np.ndarray:
    """Tell for each chain of draws (draw, chain, ...) whether it may be in the same well as the lower chains."""
    mean = np.asarray(draws.total_energy, float).mean(axis=0)
    return mean <= np.quantile(mean, LOW_CHAINS) + stranded_height(draws.position.shape[-1])


def _late(draws: Draw) -> Draw:
    """Return the second half of draws (draw, ...)."""
    return jax.tree.map(lambda x: x[len(x) // 2 :], draws)


def mixing(draws: np.ndarray) -> float:
    """Return the effective sample size per draw, from the later half of a pilot's draws (draw, chain, dim).

    It is the smallest over all coordinates and their squares; 0 if there are too few draws to measure it.
    """
    late = np.swapaxes(draws[len(draws) // 2 :], 0, 1).astype(float)
    if late.shape[1] < FEWEST_MIXING:
        return 0.0
    z = (late - late.mean(axis=(0, 1))) / np.maximum(late.std(axis=(0, 1)), 1e-300)
    even = np.full(z.shape[:2], 1 / z[..., 0].size)
    sizes = np.concatenate([weighted_ess(z, even), weighted_ess(z**2, even)])
    return float(np.min(np.nan_to_num(sizes))) / even.size
