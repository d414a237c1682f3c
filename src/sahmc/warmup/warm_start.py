"""The warm start: the ladder, kernel, modes and theta of an earlier run are reused for a similar posterior."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sahmc._support.pytree import updated
from sahmc.engine.move import RunState, Setup
from sahmc.engine.plan import Plan
from sahmc.engine.start import evaluate_starts
from sahmc.kernels.around import plain
from sahmc.kernels.jump import Jump
from sahmc.models.evaluation import energies_and_gradients
from sahmc.modes.finder import FarLook, ModeFinder
from sahmc.modes.modes import Modes
from sahmc.modes.reference import refer
from sahmc.results.warmup_record import WarmupRecord
from sahmc.tilt.theta import desired_frequencies
from sahmc.tilt.tilts import TemperedTilt
from sahmc.warmup.adapt import POSTERIOR_SHARE, adapt, begin_adaptation, favour_posterior, freeze, with_small_steps
from sahmc.warmup.reference import Beside
from sahmc.warmup.tempered import WarmupContext
from sahmc.warmup.warmup import WarmedUp


class Known(NamedTuple):
    """The reusable part of an earlier run: arrays without its model, so that it can be stored."""

    has_prior: bool
    """Whether the model of that run kept the prior separate."""
    tilt: TemperedTilt
    """The tilt, with its ladder."""
    kernel: Jump
    """The tuned kernel."""
    desired: np.ndarray
    """The desired visiting frequencies."""
    theta: np.ndarray
    """The frozen theta."""
    steps: np.ndarray
    """The step size at each level, as a multiple of the kernel's."""
    scale: np.ndarray
    """The spread of each coordinate within a mode, (dim,)."""
    draws: np.ndarray
    """The draws (draw, dim) of the finder."""
    stage: np.ndarray
    """The number of the stage that made each draw."""
    modes: Modes
    """The known modes."""
    record: WarmupRecord
    """The record of the warm-up."""
    beside: Beside | None
    """A reference that was fitted but is not the top of the ladder, if any."""
    energy: np.ndarray
    """The energies on which the tilt acted, at the draws from which chains start, (chain,)."""


def known_from(earlier: WarmedUp, has_prior: bool, energy: np.ndarray) -> Known | None:
    """Return the reusable part of an earlier warm-up; None if nothing can be reused.

    Reuse requires a tempered tilt whose ladder was left to the warm-up. If modes have copies, or the mass of a prior
    had to be measured, the posterior must be examined anew. ``has_prior`` and ``energy`` are those of ``Known``.
    """
    tilt, kernel, theta = earlier.setup.tilt, earlier.setup.kernel, np.asarray(earlier.state.sahmc.theta.theta)
    if not isinstance(tilt, TemperedTilt) or not isinstance(kernel, Jump) or theta.ndim > 1:
        return None
    if earlier.record.climb is None or earlier.symmetries is not None or earlier.prior_mass is not None:
        return None
    if earlier.record.untravelled:  # there is no ladder to reuse
        return None
    return Known(
        has_prior=has_prior,
        tilt=tilt,
        kernel=kernel,
        desired=np.asarray(earlier.setup.desired),
        theta=theta,
        steps=np.exp(np.asarray(earlier.state.steps.log_average, float)),
        scale=earlier.finder.scale,
        draws=earlier.finder.draws,
        stage=earlier.finder.stage,
        modes=earlier.modes,
        record=earlier.record,
        beside=earlier.beside,
        energy=np.asarray(energy, float),
    )


def may_serve(known: Known, plan: Plan) -> bool:
    """Tell whether the plan would have found a ladder and a kernel like those of the earlier run.

    It would if it leaves the ladder of a tempered tilt to the warm-up as well and uses the same kind of kernel. The
    tilt must also act on the same part of the energy.
    """
    refers = known.kernel.reference is not None
    alike = plan.tilt is TemperedTilt and plan.jumps and plan.theta == "shared" and plan.symmetries is None
    alike = alike and plain(known.kernel).name == plan.kernel.name and plan.kernel.tunes_step_size
    return alike and (plan.reference if refers else known.has_prior == plan.has_prior)


def warm_start(context: WarmupContext, state: RunState, earlier: Known, save: bool) -> WarmedUp:
    """Look for modes and learn theta and step sizes, starting from an earlier warm-up.

    All else is taken from it, except the share of small steps. ``state`` holds the chains at their starts, and ``save``
    says whether to keep the draws of the adaptation.
    """
    tilt, kernel = earlier.tilt, earlier.kernel
    plan = replace(context.plan, moves=kernel.moves, has_prior=context.plan.has_prior or kernel.reference is not None)
    runner = replace(context.runner, progress_per_move=context.plan.moves / kernel.moves)
    finder = ModeFinder(context.energy_fn, earlier.scale, earlier.draws, earlier.stage)
    position = np.asarray(state.sahmc.chains.position)
    found = finder.find(position, earlier.modes, FarLook(position[:0], plan.search_batches, plan.probes, position))
    kernel = updated(kernel, kernel=kernel.kernel.with_small_steps(0.0), modes=found.jumps)

    energy_fn = context.energy_fn if kernel.reference is None else refer(context.energy_fn, kernel.reference)
    _, there = evaluate_starts(energy_fn, state.sahmc.chains.position)
    rise = np.asarray(there.chains.energy, float) - earlier.energy
    theta_0 = _theta(earlier, float(np.median(rise[np.isfinite(rise)])) if np.isfinite(rise).any() else 0.0)
    desired = desired_frequencies(None, tilt.num_regions, earlier.desired.dtype)
    setup = Setup(energy_fn, tilt, kernel, desired, plan.gain_used, plan.target_accept)
    state = state._replace(sahmc=state.sahmc._replace(chains=there.chains))
    state = begin_adaptation(state, setup, plan.theta, theta_0, earlier.steps)

    adapted = adapt(WarmupContext(runner, energy_fn, plan), state, setup, finder, found.jumps, save)
    state = freeze(adapted.state, adapted.visits, plan)
    record = replace(
        earlier.record,
        num_modes=max(1, int(adapted.modes.num)),
        still_new=found.still_new,
        power=found.power,
        theta_0=theta_0,
        theta=np.array(state.sahmc.theta.theta),
        lost=0,
        late=0,
        gradients={"pilot": 0, "climb": 0, "modes": found.spent + adapted.gradients_modes, "adapt": adapted.gradients},
    )
    easy = int(adapted.modes.num) == 1 and not record.still_new and float(earlier.desired[0]) > POSTERIOR_SHARE
    state, setup = favour_posterior(state, adapted.setup, plan, easy)
    return WarmedUp.after(
        adapted,
        runner=runner,
        setup=with_small_steps(setup, plan.kernel),
        state=state,
        record=record,
        beside=_looked_at(context, earlier.beside),
        prior_mass=None,
    )


def _theta(earlier: Known, rise: float) -> np.ndarray:
    """Return the theta of an earlier run, for equal frequencies and with all energies higher by ``rise``."""
    desired = earlier.desired.astype(float)
    theta = earlier.theta.astype(float) + np.log(desired * len(desired))
    theta -= rise * np.asarray(earlier.tilt.partition.betas, float)
    return theta - theta[0]


def _looked_at(context: WarmupContext, beside: Beside | None) -> Beside | None:
    """Return a reference that is not the top of the ladder, with the energies of this posterior."""
    if beside is None:
        return None
    energy = energies_and_gradients(context.energy_fn, beside.points)[0]
    return beside._replace(high=energy - beside.reference.energies(beside.points))
