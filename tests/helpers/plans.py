"""A plan with all arguments of ``sample`` at their defaults, but for a small budget, and a warm-up that follows it."""

import jax
import jax.numpy as jnp

from sahmc.checkpoint.journal import Journal
from sahmc.engine.glimpses import no_glimpses
from sahmc.engine.move import RunState
from sahmc.engine.plan import make_plan
from sahmc.engine.round_trips import init_round_trips
from sahmc.engine.settings import Settings
from sahmc.engine.stage import StageRunner
from sahmc.engine.start import evaluate_starts
from sahmc.engine.step_size import init_step_size
from sahmc.models.energy import trace_energy
from sahmc.warmup.tempered import WarmupContext


def plan_for(model, **changes):
    return make_plan(model, Settings(**{"draws": 1, "tune": 100, "chains": 8, **changes}))


def at_starts(model, starts, **changes):
    """The context of a warm-up, and its chains at ``starts``."""
    energy_fn = trace_energy(model, lambda flat: flat, jnp.asarray(starts[0]), True)
    zero, one = jnp.zeros((), jnp.int32), jnp.ones(1, starts.dtype)
    chains = evaluate_starts(energy_fn, jnp.asarray(starts))[1]
    glimpses = no_glimpses(jnp.asarray(starts))
    state = RunState(chains, init_step_size(one, eager=False), init_round_trips(len(starts)), glimpses, zero, zero)
    runner = StageRunner(jax.random.key(0), 64, lambda *progress: None, Journal())
    return WarmupContext(runner, energy_fn, plan_for(model, **changes)), state
