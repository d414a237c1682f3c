"""The pilot run: plain HMC from the starting points, which must come down first if they start absurdly high."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sahmc._support.traced import Program
from sahmc.hamiltonian.spread import Spread
from sahmc.kernels.base import Kernel
from sahmc.landscape.modes import roll_down, start_descent
from sahmc.run.loop import RunState
from sahmc.warmup.tempered import Bench

DESCENT_STEPS = 10
DESCENT_LIMIT = 300
ABSURD = 1000.0
"""Nats, and at least twenty for each dimension, that ten steps of descent must be worth."""
LARGE = 500
"""Dimensions beyond which correlations are not looked at."""


@dataclass(frozen=True)
class Pilot:
    """What plain HMC from the starting points has shown: the picture of a Gaussian well of dimension ``dim``.

    At inverse temperature beta its energy is u_min + (d/2)/(beta + r) in the mean (equipartition), where r, the
    ``prior_share``, is 0 for a flat base measure. ``dim`` is twice the variance of the energy where that is far from
    the dimension of the position, as it is where U is nothing like a Gaussian's.
    """

    dim: float
    mean_energy: float
    u_min: float
    prior_share: float
    step_size: float
    step_size_prior: float | None = None
    quarter: float = 1.0
    """A quarter of the slowest period within a mode, in steps."""
    stranded: int = 0
    """Chains that could not come down from where they started, and were put where others are."""

    def log_z(self, betas: np.ndarray) -> np.ndarray:
        """log Z(beta) up to a constant: the integral of the mean energy."""
        return -betas * self.u_min - 0.5 * self.dim * np.log(betas + self.prior_share)

    def above(self, energy: np.ndarray) -> np.ndarray:
        """Energy above the bottom of the well, and at least ``flat_below``."""
        return np.maximum(energy - self.u_min, self.flat_below)

    @property
    def flat_below(self) -> float:
        """Flattening below the typical set only wastes draws."""
        half = 0.5 * self.dim
        return max(half - math.sqrt(half), half / 4)

    def highest(self, t_max: float) -> float:
        """Mean energy above the bottom at the top temperature."""
        return 0.5 * self.dim * min(t_max, (1 + self.prior_share) / max(self.prior_share, 1e-12))


def fit_pilot(dim: float, mean_energy: float, prior_energy: float | None, **fields: Any) -> Pilot:
    """u_min and r from the mean energy at beta = 1 and, where there is a prior, at beta = 0.

    mean(0) - mean(1) = (d/2) (1/r - 1/(1+r)) gives r(1+r) = (d/2) / difference.
    """
    half = 0.5 * dim
    share = 0.0
    if prior_energy is not None:
        ratio = half / max(prior_energy - mean_energy, 1e-3 * half)
        share = 0.5 * (math.sqrt(1.0 + 4.0 * ratio) - 1.0)
    return Pilot(dim, mean_energy, mean_energy - half / (1.0 + share), share, **fields)


def effective_dim(dim: int, energy: np.ndarray) -> float:
    """2 Var U within chains, which is ``dim`` for a Gaussian well; taken only where it is far from that."""
    measured = 2.0 * float(energy.var(axis=0, dtype=float).mean())
    return measured if math.isfinite(measured) and measured > 0 and not dim / 2 <= measured <= 2 * dim else float(dim)


def quarter_period(draws: np.ndarray) -> float:
    """pi/2 sqrt(l), l the largest eigenvalue of the correlation of draws (draw, chain, dim) within chains."""
    centred = (draws - draws.mean(axis=0)).reshape(-1, draws.shape[-1]).astype(float)
    spread = centred.std(axis=0)
    if draws.shape[-1] > LARGE or not (spread > 0).all():
        return 0.5 * math.pi
    largest = np.linalg.eigvalsh(np.cov((centred / spread).T, bias=True).reshape(2 * (draws.shape[-1],)))[-1]
    return 0.5 * math.pi * math.sqrt(float(largest))


def come_down(program: Program, positions: jax.Array) -> tuple[jax.Array, int]:
    """Positions from which chains can start, and the gradients spent.

    Each rolls down, ten steps at a time, for as long as that lowers its energy by far more than a well holds. A start
    that is not absurdly high stays where it is: HMC comes down by itself, and knows where to stop in a funnel.
    """
    dim = positions.shape[1]
    worth = absurd(dim)
    now = start_descent(program, positions)
    best, gradients = now.position, len(positions)
    for _ in range(DESCENT_LIMIT):
        after = roll_down(program, now, jnp.ones(dim, positions.dtype), DESCENT_STEPS)
        gradients += len(positions) * DESCENT_STEPS
        falling = now.energy - after.energy > worth
        if not falling.any():
            break
        best = jnp.where(falling[:, None], after.position, best)
        now = after
    return best, gradients


def run_pilot(bench: Bench, state: RunState) -> tuple[Pilot | None, Kernel, RunState, np.ndarray, int]:
    """Plain moves at beta = 1 and, where there is a prior, at beta = 0.

    Returns the pilot, the kernel tuned, the chains, their draws at beta = 1 (draw, chain, dim), and gradients spent.
    Half of the moves at beta = 1 find the step size and how draws spread, the other half the step size under the metric
    made from it, and the mean energy.
    """
    plan, spec = bench.plan, bench.plan.kernel
    dim, num = state.sahmc.chains.position.shape[1], plan.pilot_moves
    if not plan.needs_pilot:
        return None, spec, state, np.empty((0, plan.chains, dim)), 0
    kernel = spec.tuned(1.0, Spread.unknown(dim))
    first = bench.plain("pilot", state, kernel, 1.0, 0.1, num // 2, eager=True)
    late, step, spent = _late(first.draws), first.step_size, first.gradients
    state, stranded = _rescued(first.state)
    if spec.uses_spread:
        kernel, step = spec.tuned(1.0, Spread.of(late.position[:, ~stranded])), dim**-0.25
    second = bench.plain("pilot", state, kernel, 1.0, step, num - num // 2)
    late, step, spent = _late(second.draws), second.step_size, spent + second.gradients
    size, mean_energy = effective_dim(dim, late.energy), float(late.energy.mean(dtype=float))
    fields = {"quarter": quarter_period(late.position) / step, "stranded": int(stranded.sum())}
    if not plan.has_prior:
        pilot = fit_pilot(size, mean_energy, None, step_size=step, **fields)
        return pilot, kernel, second.state, late.position, spent

    third = bench.plain("pilot", second.state, kernel, 0.0, step, num // 2)
    prior_energy = float(np.median(_late(third.draws).energy))
    pilot = fit_pilot(size, mean_energy, prior_energy, step_size=step, step_size_prior=third.step_size, **fields)
    return pilot, kernel, third.state, late.position, spent + third.gradients


def _rescued(state: RunState) -> tuple[RunState, np.ndarray]:
    """The chains, those still absurdly high put where others are, in turn; and which they were.

    A start may be where the density has overflowed to a plateau, from which no gradient leads down.
    """
    chains = state.sahmc.chains
    energy = np.asarray(chains.total_energy, float)
    stranded = ~(energy <= np.median(energy) + absurd(chains.position.shape[1]))
    well = np.flatnonzero(~stranded)
    index = np.arange(len(energy))
    index[stranded] = well[np.arange(stranded.sum()) % len(well)]
    moved = jax.tree.map(lambda x: x[index], chains) if stranded.any() else chains
    return state._replace(sahmc=state.sahmc._replace(chains=moved)), stranded


def absurd(dim: int) -> float:
    """Nats above others of which the posterior knows nothing."""
    return max(ABSURD, 20.0 * dim)


def _late(draws: Any) -> Any:
    return jax.tree.map(lambda x: x[len(x) // 2 :], draws)
