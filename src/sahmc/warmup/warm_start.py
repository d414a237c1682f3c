"""The warm start: ladder, kernel, modes and theta of an earlier run serve for another posterior like its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sahmc._support.pytree import updated
from sahmc.kernels.around import plain
from sahmc.kernels.jump import Jump
from sahmc.landscape.curvature import energies_and_gradients
from sahmc.landscape.mode_finder import FarLook
from sahmc.landscape.reference import refer
from sahmc.run.move import RunState, Setup
from sahmc.run.plan import Plan
from sahmc.run.start import evaluate_starts
from sahmc.tilt.theta import desired_frequencies
from sahmc.tilt.tilts import TemperedTilt
from sahmc.warmup.adapt import POSTERIOR_SHARE, adapt, begin_adaptation, favour_posterior, freeze
from sahmc.warmup.reference import Stay
from sahmc.warmup.tempered import WarmupContext
from sahmc.warmup.warmup import WarmedUp


def may_serve(earlier: WarmedUp, plan: Plan) -> bool:
    """Tell whether the ladder and the kernel of an earlier warm-up are such as the plan would have found.

    They are where both leave the ladder of a tempered tilt to the warm-up, with the same kind of kernel. Where modes
    have copies, or the mass of a prior had to be measured, the posterior itself must be looked at again.
    """
    tilt, kernel = earlier.setup.tilt, earlier.setup.kernel
    alike = plan.tilt is TemperedTilt and isinstance(tilt, TemperedTilt) and earlier.record.climb is not None
    alike = alike and plain(kernel).name == plan.kernel.name and plan.kernel.tunes_step_size
    alike = alike and isinstance(kernel, Jump) and plan.jumps and plan.theta == "shared"
    asks = kernel.reference is not None if isinstance(kernel, Jump) else False
    alike = alike and (plan.reference or not asks)
    return alike and earlier.symmetries is None and plan.symmetries is None and earlier.prior_mass is None


def warm_start(context: WarmupContext, state: RunState, earlier: WarmedUp, save: bool) -> WarmedUp:
    """Look for modes, and learn theta and step sizes, by what an earlier warm-up knows; all else is as it was there.

    ``state`` holds the chains at their starts, and ``save`` tells whether to keep the draws of the adaptation.
    """
    old, kernel = earlier.setup, earlier.setup.kernel
    assert isinstance(kernel, Jump)
    plan = replace(context.plan, moves=kernel.moves, has_prior=context.plan.has_prior or kernel.reference is not None)
    runner = replace(context.runner, progress_per_move=context.plan.moves / kernel.moves)
    finder = replace(earlier.finder, energy_fn=context.energy_fn)
    position = np.asarray(state.sahmc.chains.position)
    found = finder.find(position, earlier.modes, FarLook(position, plan.search_batches, plan.probes))
    kernel = updated(kernel, modes=found.jumps)

    energy_fn = context.energy_fn if kernel.reference is None else refer(context.energy_fn, kernel.reference)
    _, there = evaluate_starts(energy_fn, state.sahmc.chains.position)
    _, before = evaluate_starts(old.energy_fn, state.sahmc.chains.position)
    rise = np.asarray(there.chains.energy, float) - np.asarray(before.chains.energy, float)
    theta_0 = _theta(earlier, float(np.median(rise[np.isfinite(rise)])) if np.isfinite(rise).any() else 0.0)
    desired = desired_frequencies(None, old.tilt.num_regions).astype(old.desired.dtype)
    setup = Setup(energy_fn, old.tilt, kernel, desired, plan.gain_used, plan.target_accept)
    state = state._replace(sahmc=state.sahmc._replace(chains=there.chains))
    steps = np.exp(np.asarray(earlier.state.steps.log_average, float))
    state = begin_adaptation(state, setup, plan.theta, theta_0, steps)

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
    easy = int(adapted.modes.num) == 1 and not record.still_new and float(old.desired[0]) > POSTERIOR_SHARE
    state, setup = favour_posterior(state, adapted.setup, plan, easy)
    return WarmedUp.after(
        adapted,
        runner=runner,
        setup=setup,
        state=state,
        record=record,
        beside=_looked_at(context, earlier.beside),
        prior_mass=None,
    )


def _theta(earlier: WarmedUp, rise: float) -> np.ndarray:
    """Return the theta of an earlier run, for equal frequencies, where all energies are ``rise`` higher."""
    tilt, desired = earlier.setup.tilt, np.asarray(earlier.setup.desired, float)
    assert isinstance(tilt, TemperedTilt)
    theta = np.asarray(earlier.state.sahmc.theta.theta, float) + np.log(desired * len(desired))
    theta -= rise * np.asarray(tilt.partition.betas, float)
    return theta - theta[0]


def _looked_at(context: WarmupContext, beside: Stay | None) -> Stay | None:
    """Return a reference beside the ladder with the energies of this posterior."""
    if beside is None:
        return None
    energy = energies_and_gradients(context.energy_fn, beside.points)[0]
    return beside._replace(high=energy - beside.reference.energies(beside.points))
