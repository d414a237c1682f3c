"""The pilot run: plain HMC from the starting points."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import numpy as np

from sahmc.hamiltonian.spread import Spread
from sahmc.kernels.base import Kernel
from sahmc.landscape.descent import absurd_height
from sahmc.results.warmup_record import Pilot
from sahmc.run.loop import Draw, RunState
from sahmc.warmup.tempered import WarmupContext, run_at_temperature, take_places

STRANDED_NATS, STRANDED_SPREADS = 20.0, 8.0
"""The nats, and the spreads sqrt(d/2) of the energy in a Gaussian well, by which a chain that comes from the prior may
be higher than the lowest quarter of them."""
CORRELATED_DIM = 500
"""The largest dimension in which correlations are looked at."""


class PilotOutcome(NamedTuple):
    """The outcome of the pilot run."""

    pilot: Pilot | None
    """The findings; None where nothing was left to find."""
    kernel: Kernel
    """The kernel, tuned."""
    state: RunState
    """The chains at the end."""
    draws: np.ndarray
    """The draws at beta = 1, (draw, chain, dim)."""
    gradients: int
    """The gradients spent."""


def fit_pilot(dim: float, mean_energy: float, prior_energy: float | None, **fields: Any) -> Pilot:
    """Return the pilot with u_min and r from the mean energy at beta = 1 and, where there is a prior, at beta = 0.

    mean(0) - mean(1) = (d/2) (1/r - 1/(1+r)) gives r(1+r) = (d/2) / difference. ``dim`` is d, ``prior_energy`` is
    mean(0), None without a prior, and ``fields`` are other fields of the pilot.
    """
    half = 0.5 * dim
    share = 0.0
    if prior_energy is not None:
        ratio = half / max(prior_energy - mean_energy, 1e-3 * half)
        share = 0.5 * (math.sqrt(1.0 + 4.0 * ratio) - 1.0)
    return Pilot(dim, mean_energy, mean_energy - half / (1.0 + share), share, **fields)


def effective_dim(dim: int, energy: np.ndarray) -> float:
    """Return the dimension of the position or, where it is far from that, 2 Var U, which is d for a Gaussian well.

    The variance is that of ``energy`` (draw, chain) within a typical chain: those still coming down must not count.
    """
    measured = 2.0 * float(np.median(energy.var(axis=0, dtype=float)))
    return measured if math.isfinite(measured) and measured > 0 and not dim / 2 <= measured <= 2 * dim else float(dim)


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
    """Make plain moves at beta = 1 and, where there is a prior, at beta = 0.

    Half of the moves at beta = 1 find the step size and how draws spread, the other half the step size under the metric
    made from it, and the mean energy. Chains that start from a prior come from far, so the first half is cut in three.
    """
    plan, given = context.plan, context.plan.kernel
    dim, num = state.sahmc.chains.position.shape[1], plan.pilot_moves
    if not plan.needs_pilot:
        return PilotOutcome(None, given, state, np.empty((0, plan.chains, dim), state.sahmc.chains.position.dtype), 0)
    kernel, step, spent, stranded = given.tuned(1.0, Spread.unknown(dim)), 0.1, 0, 0
    first = (num // 8, num // 8, num // 4) if plan.has_prior else (num // 2,)
    for i, moves in enumerate(first):
        made = run_at_temperature(context, "pilot", state, kernel, 1.0, step, moves, eager=i == 0)
        step, spent = made.step_size, spent + made.gradients
        state, high = _rescued(made.state, plan.has_prior)
        stranded = max(stranded, int(high.sum()))
        if given.uses_spread:
            kernel, step = given.tuned(1.0, Spread.of(_late(made.draws).position[:, ~high])), dim**-0.25
    second = run_at_temperature(context, "pilot", state, kernel, 1.0, step, num - sum(first))
    late, step, spent = _late(second.draws), second.step_size, spent + second.gradients
    energy = np.asarray(late.energy)
    size, mean_energy = effective_dim(dim, energy), float(energy.mean(dtype=float))
    quarter = quarter_period(late.position) / step if step > 0 else 1.0  # no step is accepted where a density is flat
    fields = {"quarter": quarter, "stranded": stranded}
    if not plan.has_prior:
        pilot = fit_pilot(size, mean_energy, None, step_size=step, **fields)
        return PilotOutcome(pilot, kernel, second.state, late.position, spent)

    third = run_at_temperature(context, "pilot", second.state, kernel, 0.0, step, num // 2)
    prior_energy = _late(third.draws).energy
    inside = prior_energy[np.isfinite(prior_energy)]  # elsewhere the likelihood is zero
    median = float(np.median(inside)) if inside.size else mean_energy
    pilot = fit_pilot(size, mean_energy, median, step_size=step, step_size_prior=third.step_size, **fields)
    return PilotOutcome(pilot, kernel, third.state, late.position, spent + third.gradients)


def _rescued(state: RunState, has_prior: bool) -> tuple[RunState, np.ndarray]:
    """Return the chains, those still too high put where others are, and which these were.

    A start may be where the density has overflowed to a plateau, from which no gradient leads down: that is absurdly
    high. Where there is a prior, chains will come down from it anew, to every mode, so that none is lost by a stricter
    rule: they are too high if the typical draws of a well as deep as the lower quarter of them are far below.
    """
    chains = state.sahmc.chains
    dim, energy = chains.position.shape[1], np.asarray(chains.total_energy, float)
    bound = np.median(energy) + absurd_height(dim)
    if has_prior:
        bound = min(bound, np.quantile(energy, 0.25) + STRANDED_NATS + STRANDED_SPREADS * math.sqrt(0.5 * dim))
    stranded = ~(energy <= bound)
    moved = take_places(chains, stranded) if stranded.any() else chains
    return state._replace(sahmc=state.sahmc._replace(chains=moved)), stranded


def _late(draws: Draw) -> Draw:
    """Return the second half of draws (draw, ...)."""
    return jax.tree.map(lambda x: x[len(x) // 2 :], draws)
