"""The second pilot: where far more mass is known than the first pilot saw, everything is learnt anew."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from sahmc.engine.move import RunState
from sahmc.engine.start import evaluate_starts
from sahmc.models.evaluation import energies_and_gradients
from sahmc.modes.basins import BasinMap
from sahmc.modes.bulk import Bulk
from sahmc.modes.curvature import nat_lengths
from sahmc.modes.discovery import NEGLIGIBLE_NATS, masses
from sahmc.modes.quench import MOST_SCALED, START_STEPS
from sahmc.warmup.pilot import PilotOutcome, run_pilot
from sahmc.warmup.reference import FAIR_NATS
from sahmc.warmup.tempered import WarmupContext

MOST_MINIMA, LOW_CHAINS = 96, 32
"""The largest number of minima that are compared, lowest first, and that of the lowest chains of the first pilot."""


class SecondPilot(NamedTuple):
    """The outcome of the question whether the pilot must be run again."""

    piloted: PilotOutcome
    """The pilot to go on with; all costs are counted in it."""
    again: bool
    """Whether it is a second one."""
    heavier: bool
    """Whether some minimum may be heavier than the draws; True where that could not be measured.

    A place where the density is unbounded is no minimum.
    """


def pilot_again(
    context: WarmupContext, piloted: PilotOutcome, minima: np.ndarray, t_key: Any = None, may_run: bool = True
) -> SecondPilot:
    """Return a second pilot run, if one of ``minima`` (point, dim) has far more mass than the first pilot saw.

    The minima below its lowest chains count too: a single chain may have come further down than all others. The
    lengths, step size and energies that the first one learnt then belong to another place. If no minimum is heavier, or
    several are, return the first pilot. Among many modes a second one would settle in a few of them, and no longer show
    that others are missing. The first one is also returned if the second finds less mass. ``t_key`` is the number of
    moves made since the first pilot began, if there were more. ``may_run`` says whether there may be a second pilot, or
    only an answer.
    """
    if not (context.plan.looks_for_modes and len(minima)) or minima.shape[1] > MOST_SCALED:
        return SecondPilot(piloted, False, True)
    bulk = Bulk.of(context.energy_fn, piloted.draws)
    if bulk is None:
        return SecondPilot(piloted, False, True)
    chains = piloted.state.sahmc.chains
    low = np.argsort(np.asarray(chains.total_energy), kind="stable")[:LOW_CHAINS]
    energy, _ = energies_and_gradients(context.energy_fn, minima)
    cost = len(energy)
    minima = minima[np.argsort(energy, kind="stable")[: MOST_MINIMA - len(low)]]
    minima = np.concatenate([minima, np.asarray(chains.position)[low].astype(minima.dtype)])
    energy, _ = energies_and_gradients(context.energy_fn, minima)
    minima = minima[np.argsort(energy, kind="stable")]
    scale, spent = nat_lengths(context.energy_fn, minima[0])  # the pilot's lengths may be far too long here
    basins = BasinMap(context.energy_fn, scale, minima.dtype, context.fold)
    basins.settle(minima, START_STEPS)
    lowest, log_mass = masses(basins)
    while bulk.is_outweighed(log_mass):
        rivals = np.flatnonzero(log_mass > log_mass.max() - NEGLIGIBLE_NATS)
        slopes = [k for k in rivals if not basins.is_bottom(int(lowest[k]))]
        if not slopes:
            break
        log_mass[slopes] = -np.inf
    heavier = bulk.is_outweighed(log_mass)
    spent += basins.spent + cost + len(energy)
    if not heavier or not may_run or (log_mass > log_mass.max() - NEGLIGIBLE_NATS).sum() > 1:
        return SecondPilot(piloted._replace(gradients=piloted.gradients + spent), False, heavier)
    anchor = int(lowest[np.argmax(log_mass)])
    home = piloted.state if t_key is None else piloted.state._replace(t_key=t_key)  # use no random number twice
    second = run_pilot(context, _around(context, home, basins.anchor[anchor], basins.laplace(anchor), scale))
    spent += piloted.gradients + second.gradients
    there = Bulk.of(context.energy_fn, second.draws)
    if there is None or there.log_mass <= bulk.log_mass:
        return SecondPilot(piloted._replace(gradients=spent), False, there is None)
    return SecondPilot(second._replace(gradients=spent), True, True)


def _around(
    context: WarmupContext, state: RunState, minimum: np.ndarray, covariance: np.ndarray | None, scale: np.ndarray
) -> RunState:
    """Return the chains at draws of a Gaussian around a minimum, or at the minimum if a draw is far too high.

    ``covariance`` is in units of ``scale``; None is the identity.
    """
    chains, dim = state.sahmc.chains, len(minimum)
    noise = np.random.default_rng(dim).normal(size=(len(chains.energy), dim))
    root = np.eye(dim) if covariance is None else np.linalg.cholesky(covariance)
    points = (minimum + scale * (noise @ root.T)).astype(chains.position.dtype)
    lowest = minimum.astype(points.dtype)
    energy, _ = energies_and_gradients(context.energy_fn, np.concatenate([lowest[None], points]))
    fair = energy[1:] < energy[0] + FAIR_NATS + 2.0 * dim
    _, there = evaluate_starts(context.energy_fn, jnp.asarray(np.where(fair[:, None], points, lowest)))
    return state._replace(sahmc=state.sahmc._replace(chains=there.chains))
