"""Pointwise log likelihoods and simulated data of NumPyro models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import jax
import numpy as np

from sahmc._support.validate import require
from sahmc.models.predictor import Predictor, PriorDraws, Variables, require_observed

NumPyroModel = Callable[..., object]
"""A function with NumPyro's sample statements."""
Args = tuple[object, ...]
"""The positional arguments of a model, including data."""
Kwargs = Mapping[str, object]
"""The keyword arguments of a model."""
Block = Mapping[str, jax.Array]
"""Variables of some draws, by name."""

NUMBERS_AT_ONCE, DRAWS_AT_ONCE = 2**23, 2048
"""The maximum number of data values computed at once, and the maximum number of draws."""


@dataclass(frozen=True)
class NumPyroPredictor(Predictor):
    """The predictive functions of a NumPyro model with given arguments."""

    model: NumPyroModel
    """The model."""
    args: Args
    """Its positional arguments, including data."""
    kwargs: Kwargs
    """Its keyword arguments."""
    latent: tuple[str, ...]
    """The names of the latent sites in the draws."""
    observed: Mapping[str, int]
    """The number of values at each observed site; factors do not count."""
    summed_out: bool
    """Whether there are discrete sites, which draws lack."""
    improper: bool
    """Whether the prior of some site is improper, so that it cannot be sampled."""

    def log_likelihood(self, draws: Variables) -> dict[str, np.ndarray]:
        """Return the log likelihood of every observation under each draw, by name of its site."""
        from numpyro.infer import log_likelihood

        self._check()

        def under(_: jax.Array, block: Block) -> Block:
            found = log_likelihood(self.model, block, *self.args, parallel=True, **self.kwargs)
            return {name: found[name] for name in self.observed}

        return self._in_blocks(under, draws, 0)

    def posterior_predictive(self, draws: Variables, seed: int) -> dict[str, np.ndarray]:
        """Return data simulated by the model under each draw, by name of the observed site."""
        from numpyro.handlers import uncondition
        from numpyro.infer import Predictive

        self._check()
        free, names = uncondition(self.model), list(self.observed)

        def under(rng_key: jax.Array, block: Block) -> Block:
            return Predictive(free, block, return_sites=names, parallel=True)(rng_key, *self.args, **self.kwargs)

        return self._in_blocks(under, draws, seed)

    def prior(self, size: int, seed: int) -> PriorDraws:
        """Return draws from the prior, including deterministics, and data simulated from each."""
        from numpyro import distributions as dist
        from numpyro.handlers import seed as seeded
        from numpyro.handlers import trace, uncondition
        from numpyro.infer import Predictive

        must = "prior=True needs a prior that can be drawn from"
        require(not self.improper, must, "an improper one", "give every latent site a proper prior")
        free = uncondition(self.model)
        sites = trace(seeded(free, jax.random.key(0))).get_trace(*self.args, **self.kwargs)
        kinds = ("sample", "deterministic")
        names = [k for k, x in sites.items() if x["type"] in kinds and not isinstance(x.get("fn"), dist.Unit)]
        draw = Predictive(free, num_samples=size, return_sites=names, parallel=True)
        simulated = jax.jit(lambda rng_key: draw(rng_key, *self.args, **self.kwargs))(jax.random.key(seed))
        found = {name: np.asarray(x) for name, x in simulated.items()}
        return PriorDraws(
            {name: x for name, x in found.items() if name not in self.observed},
            {name: x for name, x in found.items() if name in self.observed},
        )

    def _check(self) -> None:
        """Raise ``ValueError`` if the likelihoods of single observations are unavailable."""
        require_observed(self.observed)
        require(
            not self.summed_out,
            "log_likelihood and posterior_predictive need all latent sites in the draws",
            "discrete sites that were summed out",
            "sum them out in the model: for a mixture, numpyro.distributions.MixtureSameFamily",
        )

    def _in_blocks(self, fn: Callable[[jax.Array, Block], Block], draws: Variables, seed: int) -> dict[str, np.ndarray]:
        """Return ``fn`` of a key and draws, compiled once and computed in blocks of draws to limit memory."""
        at_once = int(np.clip(NUMBERS_AT_ONCE // max(1, sum(self.observed.values())), 1, DRAWS_AT_ONCE))
        values = {name: np.asarray(draws[name]) for name in self.latent}
        number = len(next(iter(values.values())))
        compiled, key, parts = jax.jit(fn), jax.random.key(seed), []
        for first in range(0, number, at_once):
            rows = np.minimum(np.arange(first, first + at_once), number - 1)
            found = compiled(jax.random.fold_in(key, first), {name: x[rows] for name, x in values.items()})
            parts.append({name: np.asarray(x)[: number - first] for name, x in found.items()})
        return {name: np.concatenate([part[name] for part in parts]) for name in self.observed}
