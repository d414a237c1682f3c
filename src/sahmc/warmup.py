"""What is found out before draws are made: a pilot run, the ladder built from its energies, and where theta starts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammainc, gammaln

from sahmc.algorithm import SAHMCState
from sahmc.gain import Gain
from sahmc.kernels.base import Kernel
from sahmc.partition import EnergyPartition, TemperatureLadder, ladder_size
from sahmc.plan import Plan
from sahmc.program import Program
from sahmc.round_trips import init_round_trips
from sahmc.run import Draw, Runner, RunState, Schedule, Setup
from sahmc.step_size import StepSizeState, init_step_size
from sahmc.tilt import LinearTilt, StepTilt, TemperedTilt, Tilt

T_MAX = 30.0
"""Temperature of the top of a ladder built for a density whose prior is not known apart."""
WIDTH = 2.0
"""Energy width of a subregion, as the paper advises."""


@dataclass(frozen=True)
class Pilot:
    """What plain HMC from the starting points has shown: the picture of a Gaussian well of dimension ``dim``.

    At inverse temperature beta its energy is u_min + (d/2)/(beta + r) in the mean (equipartition), where r, the
    ``prior_share``, is 0 for a flat base measure.
    """

    dim: int
    u_min: float
    prior_share: float
    step_size: float
    step_size_prior: float | None = None

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

    @property
    def highest(self) -> float:
        """Mean energy above the bottom at the top temperature."""
        return 0.5 * self.dim * min(T_MAX, (1 + self.prior_share) / max(self.prior_share, 1e-12))


def fit_pilot(dim: int, mean_energy: float, prior_energy: float | None, **steps: Any) -> Pilot:
    """u_min and r from the mean energy at beta = 1 and, where there is a prior, at beta = 0.

    mean(0) - mean(1) = (d/2) (1/r - 1/(1+r)) gives r(1+r) = (d/2) / difference.
    """
    half = 0.5 * dim
    share = 0.0
    if prior_energy is not None:
        ratio = half / max(prior_energy - mean_energy, 1e-3 * half)
        share = 0.5 * (math.sqrt(1.0 + 4.0 * ratio) - 1.0)
    return Pilot(dim, mean_energy - half / (1.0 + share), share, **steps)


def covariance(draws: np.ndarray, rank: int) -> np.ndarray:
    """Mean over chains of the within-chain (co)variance of draws (draw, chain, dim), shrunk a little.

    Within chains, because between chains it would be the distance of the modes.
    """
    num, chains, dim = draws.shape
    centred = (draws - draws.mean(axis=0)).reshape(-1, dim).astype(float)
    count = max(1, (num - 1) * chains)
    variance = (centred**2).sum(axis=0) / count
    moved = np.isfinite(variance) & (variance > 0)
    typical = np.exp(np.log(variance[moved]).mean()) if moved.any() else 1.0
    variance = np.where(moved, variance, typical)
    share = count / (count + 5.0)
    if rank < 2:
        return share * variance + (1 - share) * typical
    share = count / (count + 5.0 + dim)
    full = np.nan_to_num(centred.T @ centred / count)
    return share * full + (1 - share) * np.diag(variance)


def run_pilot(
    runner: Runner, program: Program, state: RunState, plan: Plan
) -> tuple[Pilot | None, Kernel, RunState, int]:
    """Plain moves at beta = 1 and, where there is a prior, at beta = 0; the kernel tuned, and the gradients spent.

    Half of the moves at beta = 1 find the step size and the covariance, the other half the step size under the metric
    made from it, and the mean energy.
    """
    spec, num = plan.kernel, plan.pilot_moves
    if not plan.needs_pilot:
        return None, spec, state, 0
    dim, dtype = state.sahmc.chains.position.shape[1], state.sahmc.chains.position.dtype
    rank, gradients = spec.covariance_rank, 0

    def stage(state: RunState, kernel: Kernel, beta: float, num: int) -> tuple[RunState, Draw]:
        nonlocal gradients
        tilt = TemperedTilt(TemperatureLadder.single(beta))
        setup = Setup(program, tilt, kernel, jnp.ones(1, dtype), Gain(1.0), plan.target_accept)
        outcome = runner.stage("pilot", state, setup, Schedule(learn_step=spec.tunes_step_size), num, keep=True)
        if outcome.interrupted:
            raise KeyboardInterrupt
        gradients += outcome.gradients
        return outcome.state, jax.tree.map(lambda x: x[len(x) // 2 :], outcome.draws)

    def from_step(state: RunState, step: float, eager: bool) -> RunState:
        first = step if spec.tunes_step_size else 1.0
        return state._replace(steps=init_step_size(jnp.full(1, first, dtype), eager=eager))

    def step_size(state: RunState) -> float:
        return float(jnp.exp(state.steps.log_average[0]))

    kernel = spec.tuned(1.0, np.eye(dim) if rank == 2 else np.ones(dim))
    state, draws = stage(from_step(state, 0.1, eager=True), kernel, 1.0, num // 2)
    if rank:
        kernel = spec.tuned(1.0, covariance(draws.position, rank))
        state = from_step(state, dim**-0.25, eager=False)
    state, draws = stage(state, kernel, 1.0, num - num // 2)
    mean_energy, step = float(draws.energy.mean(dtype=float)), step_size(state)
    if not plan.has_prior:
        return fit_pilot(dim, mean_energy, None, step_size=step), kernel, state, gradients

    state, draws = stage(from_step(state, step, eager=False), kernel, 0.0, num)
    prior_energy = float(np.median(draws.energy))
    pilot = fit_pilot(dim, mean_energy, prior_energy, step_size=step, step_size_prior=step_size(state))
    return pilot, kernel, state, gradients


def start_run(sahmc: SAHMCState, steps: StepSizeState) -> RunState:
    zero = jnp.zeros((), jnp.int32)
    return RunState(sahmc, steps, init_round_trips(sahmc.chains.energy.shape[0]), zero, zero)


def build_tilt(kind: type[Tilt], pilot: Pilot | None) -> Tilt:
    """The tilt with a partition made from the pilot."""
    assert pilot is not None
    partition: Any = {TemperedTilt: _ladder, LinearTilt: _nodes, StepTilt: _edges}[kind](pilot)
    return kind(partition)  # type: ignore[call-arg]


def _ladder(pilot: Pilot) -> TemperatureLadder:
    share = pilot.prior_share
    t_max = math.inf if share > 0 else T_MAX
    log_range = math.log((1 + share) / share) if share > 0 else math.log(T_MAX)
    return TemperatureLadder.geometric(
        t_max, ladder_size(pilot.dim, log_range), reference=pilot.u_min, prior_share=share
    )


def _nodes(pilot: Pilot) -> EnergyPartition:
    size = ladder_size(pilot.dim, math.log(T_MAX))
    return EnergyPartition(pilot.u_min + np.geomspace(pilot.flat_below, pilot.highest, size))


def _edges(pilot: Pilot) -> EnergyPartition:
    low, high = pilot.flat_below, pilot.highest
    return EnergyPartition(pilot.u_min + low + WIDTH * np.arange(max(2, math.ceil((high - low) / WIDTH) + 1)))


def starting_theta(tilt: Tilt, pilot: Pilot | None, desired: Any) -> np.ndarray:
    """theta_0: zero (the paper) without a pilot, else what equipartition says, so that only the rest is learnt."""
    if pilot is None or not isinstance(tilt, (TemperedTilt, LinearTilt, StepTilt)):
        return np.zeros(tilt.num_regions)
    half, steep = 0.5 * pilot.dim, 1.0 + pilot.prior_share
    if isinstance(tilt, TemperedTilt):
        betas, reference = np.asarray(tilt.partition.betas, float), float(jnp.asarray(tilt.partition.reference))
        theta = pilot.log_z(betas) + betas * reference
    elif isinstance(tilt, LinearTilt):
        s = pilot.above(np.asarray(tilt.partition.edges, float))
        theta = half * np.log(s) - steep * s
    else:
        edges = np.asarray(tilt.partition.edges, float)
        s = pilot.above(edges)
        middle = 0.5 * (s[1:] + s[:-1])
        inner = (
            half * np.log(steep) + (half - 1) * np.log(middle) - steep * middle - gammaln(half) + np.log(np.diff(edges))
        )
        below = np.log(gammainc(half, steep * s[0]))
        above = half * np.log(steep) + (half - 1) * np.log(s[-1]) - steep * s[-1] - gammaln(half)
        theta = np.concatenate([[below], inner, [above]])
    theta = theta - np.log(np.asarray(desired, float))
    return theta - theta[0]


def level_steps(tilt: Tilt, kernel: Kernel, pilot: Pilot | None) -> np.ndarray:
    """First step sizes of the levels, as multiples of the kernel's: from what the pilot measured, or the tilt's own."""
    scale = np.asarray(tilt.step_scale, float)
    if pilot is None or not kernel.tunes_step_size:
        return scale
    if pilot.step_size_prior is not None and len(scale) > 1:
        ratio = math.log(pilot.step_size_prior / pilot.step_size)
        scale = np.exp(ratio * np.log(scale) / np.log(scale[-1]))
    return pilot.step_size * scale
