"""A plan with all arguments of ``sample`` at their defaults, but for a small budget."""

from sahmc.run.plan import make_plan

DEFAULTS = dict(
    draws=1, tune=100, chains=8, thin=1, target_accept=0.8, kernel="hmc", tilt="tempered", partition=None, gain=None,
    desired=None, theta="shared", adapt="tune", jumps=True, reference=True,
)  # fmt: skip


def plan_for(model, **changes):
    return make_plan(model, **{**DEFAULTS, **changes})
