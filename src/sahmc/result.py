"""What a run returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sahmc.findings import Finding
from sahmc.importance import (
    Expectation,
    error_of_mean,
    kish_efficiency,
    systematic_resample,
    weighted_mean,
    weighted_variance,
)
from sahmc.partition import EnergyPartition, TemperatureLadder
from sahmc.theta import expected_frequency
from sahmc.tilt import TemperedTilt, Tilt
from sahmc.validate import require, require_count


@dataclass(frozen=True, repr=False)
class Result:
    """Draws of the tilted density, and the weights that give the posterior back. Arrays lead with (chain, draw).

    ``draws``
        positions in the user's structure: raw and tilted; use ``expectation`` or ``resample`` for the posterior.
    ``energy``, ``log_density``
        what the tilt acts on, U = -log density (-log likelihood for a ``Model``); and the log density itself.
    ``region``
        subregion, nearest node, or level at which the draw was made.
    ``log_weight``
        log importance weights, which sum to 1 over all chains and draws.
    ``theta``, ``visits``, ``desired``
        for each region, with a leading chain axis if every chain has its own theta.
    ``round_trips``
        trips from the bottom to the top and back, for each chain, while draws were made.
    ``step_size``
        for each level.
    ``jumps``
        between known modes: tried, and accepted.
    ``findings``
        what is wrong with the run, errors first; empty if nothing is.
    ``warmup``
        what the warm-up found and chose; print it.
    ``diverging``, ``num_diverging``
        for each draw kept; and in all moves while draws were made, those between the draws included.
    ``tree_depth``, ``num_deepest``
        of NUTS: doublings of the trajectory of each draw kept; and in all moves, how many reached the largest depth.
    ``num_failed``
        of RMHMC: moves rejected because an implicit step did not converge or does not reverse.
    """

    draws: Any
    energy: np.ndarray
    log_density: np.ndarray
    region: np.ndarray
    log_weight: np.ndarray
    acceptance: np.ndarray
    diverging: np.ndarray
    tree_depth: np.ndarray | None
    theta: np.ndarray
    visits: np.ndarray
    desired: np.ndarray
    round_trips: np.ndarray
    step_size: np.ndarray
    num_gradients: int
    num_diverging: int
    num_failed: int
    num_deepest: int
    num_trajectories: int
    jumps: tuple[int, int]
    warmup: Any
    tilt: Tilt
    settings: Mapping[str, Any]
    findings: tuple[Finding, ...] = ()

    def __post_init__(self) -> None:
        for array in jax.tree.leaves(
            [v for k, v in vars(self).items() if k not in ("tilt", "settings", "warmup", "findings")]
        ):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False

    @property
    def partition(self) -> EnergyPartition | TemperatureLadder | None:
        return getattr(self.tilt, "partition", None)

    @property
    def weight(self) -> np.ndarray:
        """Importance weights, summing to 1 over all chains and draws."""
        return np.exp(self.log_weight.astype(float))

    @property
    def acceptance_rate(self) -> float:
        return float(self.acceptance.mean())

    def expectation(self, fn: Callable[[Any], Any] | None = None) -> Expectation:
        """Posterior mean of ``fn`` of a position (the position itself if None) and its Monte Carlo standard error."""
        weight = self.weight
        parts = jax.tree.map(lambda f: weighted_mean(f, weight), self._values(fn))
        return Expectation(*(_pick(parts, i) for i in range(2)))

    def ess(self, fn: Callable[[Any], Any] | None = None) -> Any:
        """Effective sample size of ``expectation(fn)``: posterior variance over squared standard error.

        Autocorrelation and weights both count.
        """
        weight = self.weight

        def one(values: np.ndarray) -> np.ndarray:
            error = weighted_mean(values, weight).mcse
            spread = weighted_variance(values, weight)
            return np.where(error > 0, spread / np.where(error > 0, error, 1.0) ** 2, np.nan)

        return jax.tree.map(one, self._values(fn))

    def resample(self, n: int | None = None, seed: int = 0) -> Any:
        """``n`` equal-weight draws of the posterior (as many as were made if None), chain by chain in time order."""
        n = self.log_weight.size if n is None else n
        require_count(n, "n")
        index = systematic_resample(self.weight.ravel(), n, np.random.default_rng(seed))
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[index], self.draws)

    def log_omega(self, log_total: float = 0.0) -> np.ndarray:
        """log omega_i of every region; for a tempered tilt log Z(beta_i), level 0 being the posterior.

        theta alone leaves a constant C open: ``log_total`` is the known log of the total (the default 0 makes
        omega posterior probabilities, and Z relative to the posterior's). Regions never visited have -inf. While
        theta is frozen the frequencies are those observed, otherwise pi_i + nu of the paper.
        """
        frequency = expected_frequency(jnp.asarray(self.desired), jnp.asarray(self.visits > 0))
        if self.settings["adapt"] == "tune":
            counts = self.visits if self.theta.ndim == 2 else self.membership().mean(axis=(0, 1))
            frequency = counts / counts.sum(axis=-1, keepdims=True)
        log_omega = np.asarray(self.tilt.log_omega(jnp.asarray(self.theta), jnp.asarray(frequency, self.theta.dtype)))
        if isinstance(self.tilt, TemperedTilt):
            total = log_omega[..., :1]
        else:
            high = log_omega.max(axis=-1, keepdims=True)
            total = high + np.log(np.exp(log_omega - high).sum(axis=-1, keepdims=True))
        return log_omega - total + log_total

    def log_evidence(self) -> Expectation:
        """log of the integral of prior times likelihood over that of the prior, and its standard error.

        Needs a ``Model`` and a tempered tilt whose last level is the prior, beta = 0, with one theta for all chains,
        frozen while the draws were made.
        """
        top = float(self.partition.betas[-1]) if isinstance(self.partition, TemperatureLadder) else None
        require(
            top == 0.0 and self.settings["prior"] and self.settings["adapt"] == "tune" and self.theta.ndim == 1,
            "log_evidence needs draws at the prior, beta = 0, under one frozen theta",
            {"last beta": top, "prior": self.settings["prior"], "adapt": self.settings["adapt"]},
            "sample a sahmc.Model(log_likelihood=..., log_prior=...) with the default tilt, theta and adapt",
        )
        member = self.membership()
        bottom, last = member[..., 0], member[..., -1]
        value = self.log_omega()[0] - self.log_omega()[-1]
        return Expectation(value, error_of_mean(bottom / bottom.mean() - last / last.mean()))

    def membership(self, every: int = 1) -> np.ndarray:
        """Of every draw in every region, under the frozen theta; of every ``every``-th chain."""
        member = jax.vmap(self.tilt.membership, (None, 0))
        return np.asarray(
            jax.vmap(member, (None, 0))(jnp.asarray(self.theta), jnp.asarray(self.energy[::every])), dtype=float
        )

    def _values(self, fn: Callable[[Any], Any] | None) -> Any:
        values = self.draws if fn is None else jax.vmap(jax.vmap(fn))(self.draws)
        return jax.tree.map(lambda x: np.asarray(x, dtype=float), values)

    def __repr__(self) -> str:
        chains, draws = self.log_weight.shape
        regions = self.theta.shape[-1]
        trips = f"{int(self.round_trips.sum())} round trips" if regions > 1 else "no tilt"
        return (
            f"<sahmc.Result: {chains} chains x {draws} draws, tilt {self.tilt.name!r} with {regions} regions, {trips}, "
            f"{self.num_gradients:,} gradients, acceptance {self.acceptance_rate:.2f}, "
            f"{self.num_diverging} divergences, weight efficiency {kish_efficiency(self.weight):.2f}, "
            f"seed {self.settings['random_seed']}, {len(self.findings) or 'no'} findings>"
        )


def _pick(parts: Any, index: int) -> Any:
    return jax.tree.map(lambda e: e[index], parts, is_leaf=lambda e: isinstance(e, Expectation))
