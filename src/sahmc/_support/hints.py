"""Hints for users of other libraries, where arguments have other names."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

from sahmc._support.validate import nearest

P = ParamSpec("P")
R = TypeVar("R")

NAMES: Mapping[str, tuple[str, ...]] = {
    "random_seed": ("seed", "rng_key", "key", "rng", "random_state"),
    "draws": ("num_samples", "n_samples", "samples", "num_draws", "n_draws", "iter_sampling", "niter", "num_steps"),
    "tune": ("num_warmup", "n_warmup", "warmup", "burnin", "burn_in", "n_burn", "num_tune", "n_tune", "iter_warmup"),
    "chains": ("num_chains", "n_chains", "nchains", "nwalkers"),
    "initvals": ("init", "inits", "init_params", "initial_position", "initial_positions", "start", "x0", "p0"),
    "target_accept": ("target_accept_prob", "adapt_delta", "target_acceptance_rate"),
    "thin": ("thinning",),
    "progressbar": ("progress_bar", "show_progress", "progress", "show_progressbar"),
    "model_args": ("args", "data"),
    "model_kwargs": ("kwargs",),
    "kernel": ("step", "sampler", "nuts_sampler"),
}
"""The names of each argument in other libraries, by its name here."""
NEEDLESS = ("cores", "num_cores", "parallel_chains", "chain_method", "njobs", "n_jobs", "threads")
"""The arguments that are not needed here: all chains run at once."""


def with_hints(fn: Callable[P, R]) -> Callable[P, R]:
    """Return a function that suggests the right name for an unknown argument, if it can be guessed."""
    known = inspect.signature(fn).parameters

    @functools.wraps(fn)
    def hinting(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in known:
                raise TypeError(f"{fn.__name__}() has no argument {name!r}{_hint(name, known)}")
        return fn(*args, **kwargs)

    return hinting


def _hint(name: str, known: Mapping[str, object]) -> str:
    if name in NEEDLESS:
        return ": all chains run at once, on all cores. Leave it out."
    here = next((own for own, others in NAMES.items() if name in others and own in known), None)
    here = here or nearest(name, known)
    return f"; it has {', '.join(known)}." if here is None else f": it is called {here!r} here."
