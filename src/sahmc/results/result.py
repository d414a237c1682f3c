"""What a run returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from sahmc._support.validate import require, require_count
from sahmc.models.model import Labels
from sahmc.results.datatree import to_datatree, to_inferencedata
from sahmc.results.files import load, save
from sahmc.results.findings import Finding
from sahmc.results.mode_table import ModeTable, find_modes
from sahmc.results.summary import Summary, summarise
from sahmc.tilt.importance import (
    BLOCK,
    Expectation,
    by_columns,
    error_of_mean,
    kish_efficiency,
    systematic_resample,
    weighted_ess,
    weighted_mean,
)
from sahmc.tilt.partition import EnergyPartition, TemperatureLadder
from sahmc.tilt.theta import expected_frequency
from sahmc.tilt.tilts import TemperedTilt, Tilt

if TYPE_CHECKING:
    from sahmc.landscape.mode_finder import Sightings
    from sahmc.run.live import Source
    from sahmc.run.loop import Draw
    from sahmc.run.stage import Path


@dataclass(frozen=True, repr=False)
class Result:
    """Draws of the tilted density, and the weights that give the posterior back. Arrays lead with (chain, draw).

    ``draws``
        positions in the user's structure, or the variables of a model that names them: raw and tilted; use
        ``expectation`` or ``resample`` for the posterior.
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
    ``path``
        theta and round trips at fixed moments of adaptation and drawing.
    ``sightings``
        the modes in the draws as vectors, and the mode of each draw; ``modes()`` tells more.
    ``labels``
        dims, coords and data, for ``to_datatree``.
    ``warmup_draws``
        of the adaptation, raw, if asked for.
    ``source``
        what made the draws, while the process lives; None in a result that was loaded.
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
    path: Path | None = None
    sightings: Sightings | None = None
    warmup_draws: Draw | None = None
    labels: Labels = field(default_factory=Labels)
    source: Source | None = None

    def __post_init__(self) -> None:
        left = ("tilt", "settings", "warmup", "findings", "source", "labels")
        for array in jax.tree.leaves([v for k, v in vars(self).items() if k not in left]):
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
        values, tree = jax.tree.flatten(self.values(fn))
        parts = [by_columns(lambda columns: weighted_mean(columns, self.weight), leaf) for leaf in values]
        return Expectation(*(jax.tree.unflatten(tree, part) for part in zip(*parts, strict=True)))

    def ess(self, fn: Callable[[Any], Any] | None = None) -> Any:
        """Effective sample size of ``expectation(fn)``: posterior variance over squared standard error.

        Autocorrelation and weights both count.
        """
        return jax.tree.map(
            lambda leaf: by_columns(lambda columns: (weighted_ess(columns, self.weight),), leaf)[0], self.values(fn)
        )

    def resample(self, n: int | None = None, seed: int = 0) -> Any:
        """``n`` equal-weight draws of the posterior (as many as were made if None), chain by chain in time order."""
        n = self.log_weight.size if n is None else n
        require_count(n, "n")
        chosen = self.resample_index(n, seed)
        return jax.tree.map(lambda x: np.asarray(x[chosen]), self.draws)

    def resample_index(self, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Which chain and which draw each of ``n`` equal-weight draws is."""
        index = systematic_resample(self.weight.ravel(), n, np.random.default_rng(seed))
        return np.unravel_index(index, self.log_weight.shape)  # type: ignore[return-value]

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

    def membership(self, every: tuple[int, int] = (1, 1)) -> np.ndarray:
        """Of every draw in every region, under the frozen theta; of every so many-th chain and draw."""
        member = jax.vmap(self.tilt.membership, (None, 0))
        energy = jnp.asarray(self.energy[:: every[0], :: every[1]])
        return np.asarray(jax.vmap(member, (None, 0))(jnp.asarray(self.theta), energy), dtype=float)

    def values(self, fn: Callable[[Any], Any] | None = None) -> Any:
        """``fn`` of every draw, arrays (chain, draw, ...); the draws themselves if None."""
        if fn is None:
            return self.draws
        each = sum(leaf[0].nbytes for leaf in jax.tree.leaves(self.draws))
        step = max(1, BLOCK // each)
        mapped = jax.vmap(jax.vmap(fn))
        parts = [
            jax.tree.map(np.asarray, mapped(jax.tree.map(lambda x: x[i : i + step], self.draws)))  # noqa: B023
            for i in range(0, len(self.energy), step)
        ]
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)

    def modes(self) -> ModeTable:
        """The modes of the posterior, heaviest first, without being told how many: mass, place, who saw them."""
        return find_modes(self)

    def summary(self, fn: Callable[[Any], Any] | None = None, prob: float = 0.94) -> Summary:
        """A table of every quantity, and the findings in words: print it, show it in a notebook, ``.table``.

        Mean, standard deviation and highest-density interval of probability ``prob`` of the posterior, Monte Carlo
        standard error, effective sample size and R-hat with weights; of the position, or of ``fn`` of it.
        """
        return summarise(self, fn, prob)

    def to_datatree(
        self,
        *,
        coords: Mapping[str, Any] | None = None,
        dims: Mapping[str, Any] | None = None,
        rejuvenate: int = 0,
        seed: int = 0,
    ) -> Any:
        """An ``xarray.DataTree`` in ArviZ's schema: see ``sahmc.datatree.to_datatree``."""
        return to_datatree(self, coords=coords, dims=dims, rejuvenate=rejuvenate, seed=seed)

    def to_inferencedata(
        self,
        *,
        coords: Mapping[str, Any] | None = None,
        dims: Mapping[str, Any] | None = None,
        rejuvenate: int = 0,
        seed: int = 0,
    ) -> Any:
        """The same as an ``arviz.InferenceData``, for ArviZ before 1.0."""
        return to_inferencedata(self.to_datatree(coords=coords, dims=dims, rejuvenate=rejuvenate, seed=seed))

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write a NetCDF file (or, if ``path`` ends in ".zarr", a Zarr store) that ArviZ and ``load`` read."""
        save(self, path, overwrite)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Result:
        """What ``save`` wrote. The model is not in it: there is no ``rejuvenate``, nor a new search for modes; draws of
        the warm-up are in the file, for ArviZ, and not in the result.
        """
        return load(path)

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
