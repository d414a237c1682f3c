"""The ladder: the tilt and its partition, a first theta, and first step sizes, all made from earlier findings."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import gammainc, gammaln

from sahmc.engine.plan import Plan
from sahmc.kernels.base import Kernel
from sahmc.results.warmup_record import FEWEST_CHAINS, Climb, Pilot, temperature
from sahmc.tilt.partition import EnergyPartition, TemperatureLadder
from sahmc.tilt.tilts import LinearTilt, StepTilt, TemperedTilt, Tilt
from sahmc.warmup.curve import LadderCurve, fit_curve

TOP_OVER_MELTING = 4.0
"""The temperature of the top relative to the one at which chains forget where they were."""
LOWEST_TOP = 10.0
"""The lowest temperature of the top. With one known mode, the top only serves to look for others."""
BLIND_TOP = 30.0
"""The temperature of the top where the one at which chains forget their places cannot be measured."""
LEVEL_SPACING = 2 / 3
"""The distance between levels in sd(U) d beta, at which neighbours overlap well in energy."""
FEWEST_LEVELS = 4
"""The minimum number of levels."""
LOOK_OUT_LENGTH = 6.0
"""The largest length of a ladder, in sd(U) d beta, with one known mode."""
SUBREGION_NATS = 2.0
"""The energy width of a subregion, as the paper advises."""


class Ladder(NamedTuple):
    """The tilt, and what is known about the ladder it represents."""

    tilt: Tilt
    """The tilt with its partition."""
    curve: LadderCurve | None
    """The curves measured along the ladder; None where the partition was given."""
    top: float | None
    """The temperature of the top: inf for the prior, None where the tilt has no temperatures."""

    @property
    def barrier(self) -> float | None:
        """The barrier Lambda between the ends of the ladder; None where it was not measured."""
        if self.curve is None or self.top is None:
            return None
        return self.curve.barrier(0.0 if math.isinf(self.top) else 1 / self.top)


def build_ladder(plan: Plan, pilot: Pilot | None, climb: Climb | None, many: bool) -> Ladder:
    """Return the tilt, with a partition made from the findings unless it was given.

    ``pilot`` and ``climb`` are None where they were not needed. ``many`` says that several modes are known, or that the
    plan does not look for modes.
    """
    if climb is None:
        tilt = plan.tilt
        assert isinstance(tilt, Tilt)
        given_top = temperature(float(tilt.partition.betas[-1])) if isinstance(tilt, TemperedTilt) else None
        return Ladder(tilt, None, given_top)
    assert pilot is not None
    curve = fit_curve(climb, pilot.prior_share, pilot.u_min, pilot.dim)
    top = find_top(climb, plan.chains, many, plan.has_prior)
    if not many and not plan.has_prior:
        top = min(top, curve.hottest_within(LOOK_OUT_LENGTH))
    if plan.tilt is TemperedTilt:
        betas = curve.levels(0.0 if math.isinf(top) else 1 / top, LEVEL_SPACING, FEWEST_LEVELS)
        return Ladder(TemperedTilt(TemperatureLadder(betas, pilot.u_min, pilot.prior_share)), curve, top)
    highest = pilot.highest(top)
    if plan.tilt is LinearTilt:
        count = num_nodes(pilot.dim, math.log(pilot.reach(top)))
        nodes = np.geomspace(pilot.flat_below, max(highest, 2 * pilot.flat_below), count)
        return Ladder(LinearTilt(EnergyPartition(pilot.u_min + nodes)), curve, top)
    if plan.tilt is not StepTilt:
        raise ValueError(f"no rule makes a partition for {plan.tilt}; pass the tilt as an object that has one")
    count = max(2, math.ceil((highest - pilot.flat_below) / SUBREGION_NATS) + 1)
    edges = pilot.u_min + pilot.flat_below + SUBREGION_NATS * np.arange(count)
    return Ladder(StepTilt(EnergyPartition(edges)), curve, top)


def num_nodes(dim: float, log_range: float) -> int:
    """Return the number of nodes m = 1.5 sqrt(d/2) log(T_max) + 1, at least 4, so that neighbours overlap in energy.

    ``dim`` is d, and ``log_range`` is log(T_max).
    """
    return max(FEWEST_LEVELS, round(1.5 * math.sqrt(dim / 2) * log_range) + 1)


def find_top(climb: Climb, chains: int, many: bool, has_prior: bool) -> float:
    """Return the temperature of the top: inf for a prior, otherwise well above where chains forget their mode.

    ``chains`` is the number of chains. ``many`` says that several modes are known, or that the plan does not look for
    modes.
    """
    if has_prior:
        return math.inf
    wanted = LOWEST_TOP
    if chains < FEWEST_CHAINS or (many and climb.slow and math.isinf(climb.melting)):
        wanted = BLIND_TOP
    elif many:
        wanted = max(LOWEST_TOP, TOP_OVER_MELTING * climb.melting)
    return min(wanted, climb.hottest)


def starting_theta(ladder: Ladder, pilot: Pilot | None, desired: Float[Array, " regions"]) -> np.ndarray:
    """Return theta_0: zero without a pilot, as in the paper; otherwise an estimate from the measurements.

    An estimate leaves only the error to be learnt. Where the climb measured nothing, it comes from equipartition.
    ``desired`` are the desired visiting frequencies.
    """
    tilt, curve = ladder.tilt, ladder.curve
    if pilot is None:
        return np.zeros(tilt.num_regions)
    if isinstance(tilt, TemperedTilt):
        betas, reference = np.asarray(tilt.partition.betas, float), float(jnp.asarray(tilt.partition.reference))
        theta = pilot.log_z(betas) + betas * reference if curve is None else curve.at(betas)[0]
    elif isinstance(tilt, LinearTilt):
        s = pilot.above(np.asarray(tilt.partition.edges, float))
        theta = 0.5 * pilot.dim * np.log(s) - (1.0 + pilot.prior_share) * s
    elif isinstance(tilt, StepTilt):
        theta = _log_masses(pilot, np.asarray(tilt.partition.edges, float))
    else:
        return np.zeros(tilt.num_regions)
    theta = theta - np.log(np.asarray(desired, float))
    return theta - theta[0]


def _log_masses(pilot: Pilot, edges: np.ndarray) -> np.ndarray:
    """Return log masses of the subregions between ``edges`` for a Gaussian well, with Gamma-distributed energies."""
    if not len(edges):
        return np.zeros(1)
    half, steep = 0.5 * pilot.dim, 1.0 + pilot.prior_share
    s = pilot.above(edges)
    middle = 0.5 * (s[1:] + s[:-1])
    inner = half * np.log(steep) + (half - 1) * np.log(middle) - steep * middle - gammaln(half) + np.log(np.diff(edges))
    below = np.log(gammainc(half, steep * s[0]))
    above = half * np.log(steep) + (half - 1) * np.log(s[-1]) - steep * s[-1] - gammaln(half)
    return np.concatenate([[below], inner, [above]])


def level_steps(ladder: Ladder, kernel: Kernel, pilot: Pilot | None) -> np.ndarray:
    """Return the first step sizes of the levels, as multiples of the kernel's: measured, or from the tilt.

    ``kernel`` is the kernel as the user built it.
    """
    tilt, curve = ladder.tilt, ladder.curve
    scale = np.asarray(tilt.step_scale, float)
    if pilot is None or not kernel.tunes_step_size:
        return scale
    if curve is not None and isinstance(tilt, TemperedTilt):
        return curve.at(np.asarray(tilt.partition.betas, float))[1]
    if pilot.step_size_prior is not None and len(scale) > 1:
        ratio = math.log(pilot.step_size_prior / pilot.step_size)
        scale = np.exp(ratio * np.log(scale) / np.log(scale[-1]))
    return pilot.step_size * scale
