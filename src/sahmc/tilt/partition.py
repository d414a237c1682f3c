"""The partition of the space: by energy (as in the paper) or by inverse temperature."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from sahmc._support.platform import placed
from sahmc._support.pytree import converted, strategy, updated
from sahmc._support.validate import as_numbers, is_number, require, require_count

MOST_EDGES = 100_000
"""The maximum number of edges or levels; more make no sense."""


def _energy_edges(edges: Any) -> Float[Array, " edges"]:
    must = "energy edges must be a vector of finite, strictly increasing numbers"
    todo = "sort them and drop repeats, or use EnergyPartition.uniform(low, high, width)"
    values = as_numbers(edges, must, todo)
    ok = values.ndim == 1 and np.all(np.isfinite(values)) and np.all(np.diff(values) > 0)
    require(ok, must, values.tolist(), todo)
    return placed(values)


@strategy
class EnergyPartition:
    """The subregions E_1 = {U <= u_1}, E_2 = {u_1 < U <= u_2}, ..., E_m = {U > u_{m-1}}.

    ``edges`` are u_1 < ... < u_{m-1}. Without edges there is one region. ``StepTilt`` uses the m subregions between
    the edges; ``LinearTilt`` uses the edges themselves as its nodes.
    """

    edges: Any = converted(_energy_edges)
    """The edges: any sequence of numbers, stored as an array."""

    @classmethod
    def uniform(cls, low: float | int, high: float | int, width: float | int) -> EnergyPartition:
        """Return the partition with edges low, low + width, ..., high: regions of equal width, as in the paper."""
        for name, value in {"low": low, "high": high, "width": width}.items():
            require(is_number(value), f"{name} must be a number", value, "use uniform(0, 20, 2), as the paper does")
        require(high > low, "high must lie above low", (low, high), "swap them")
        require(width > 0, "width must be positive", width, "use width=2, as the paper does")
        require((high - low) / width <= MOST_EDGES, f"there must be at most {MOST_EDGES} edges", width, "widen them")
        count = round((high - low) / width)
        require(
            count >= 1 and math.isclose(low + count * width, high, rel_tol=1e-6, abs_tol=1e-6 * width),
            "high - low must be a whole number of widths",
            (low, high, width),
            f"take high = {low + max(1, count) * width:g}",
        )
        return cls(np.linspace(low, high, count + 1))

    def region(self, energy: Float[Array, "*any"]) -> Int[Array, "*any"]:
        """Return J(U), the index of the region that contains an energy, from 0."""
        edges = jnp.asarray(self.edges, energy.dtype)
        return jnp.sum(energy[..., None] > edges, axis=-1, dtype=jnp.int32)


def _inverse_temperatures(betas: Any) -> Float[Array, " levels"]:
    must = "inverse temperatures must start at 1 and decrease strictly, to a last value of at least 0"
    todo = "use TemperatureLadder.geometric(t_max, levels), or list 1.0 first"
    values = as_numbers(betas, must, todo)
    falling = values.ndim == 1 and values.size >= 1 and np.all(np.diff(values) < 0)
    require(falling and values[0] == 1 and values[-1] >= 0, must, values.tolist(), todo)
    return _floats(values)


def _floats(values: Any) -> Float[Array, "*any"]:
    return placed(values, jnp.result_type(float))


def _energy(value: Any) -> Float[Array, ""]:
    require(is_number(value), "reference must be a finite energy", value, "leave it out, or pass the mean energy")
    return _floats(value)


def _share(value: Any) -> Float[Array, ""]:
    ok = is_number(value) and value >= 0
    require(ok, "prior_share must be a number of at least 0", value, "leave it out")
    return _floats(value)


@strategy
class TemperatureLadder:
    """The inverse temperatures 1 = beta_1 > ... > beta_m >= 0.

    ``reference`` is subtracted from every energy before it is multiplied by beta. This keeps theta small: theta_i
    tends to C + log Z(beta_i) + beta_i * reference - log pi_i.

    ``prior_share`` is r in the model of a Gaussian well under a Gaussian prior: the width at level beta is proportional
    to 1 / sqrt(beta + r). It is 0 if the base measure is flat.
    """

    betas: Any = converted(_inverse_temperatures)
    """The inverse temperatures: any sequence of numbers, stored as an array."""
    reference: Any = converted(_energy, default=0.0)
    """The energy that counts as 0."""
    prior_share: Any = converted(_share, default=0.0)
    """The curvature of the prior divided by that of the well."""

    @classmethod
    def single(cls, beta: float, reference: float = 0.0, copies: int = 1) -> TemperatureLadder:
        """Return a ladder with a single level at any beta, not only 1; or with ``copies`` of that level."""
        return updated(cls([1.0], reference), betas=_floats([beta] * copies))

    @classmethod
    def geometric(
        cls, t_max: float | int, levels: int, *, reference: float = 0.0, prior_share: float = 0.0
    ) -> TemperatureLadder:
        """Return a ladder of ``levels`` inverse temperatures from 1 to 1/t_max, with beta + prior_share geometric.

        ``t_max=math.inf`` extends the ladder to beta = 0, the prior.
        """
        hot = (isinstance(t_max, float) and t_max == math.inf) or (is_number(t_max) and t_max > 1)
        require(hot, "t_max must be a number above 1", t_max, "start with 30")
        require_count(levels, "levels", 2)
        require(levels <= MOST_EDGES, f"there must be at most {MOST_EDGES} levels", levels, "use 20")
        _share(prior_share)
        beta_min = 0.0 if math.isinf(t_max) else 1.0 / t_max
        require(
            beta_min + prior_share > 0,
            "a geometric ladder can reach beta = 0 only with prior_share > 0",
            prior_share,
            "give a finite t_max, or prior_share",
        )
        betas = np.geomspace(1.0 + prior_share, beta_min + prior_share, levels) - prior_share
        betas[0], betas[-1] = 1.0, beta_min
        return cls(betas, reference, prior_share)

    @property
    def step_scale(self) -> Float[Array, " regions"]:
        """The width of a Gaussian well at each level, relative to beta = 1; step sizes have the same ratio."""
        return _well_width(self.betas, self.prior_share)


@jax.jit
def _well_width(betas: Float[Array, " levels"], share: Float[Array, ""]) -> Float[Array, " levels"]:
    """Return sqrt((1 + r) / (beta + r))."""
    return jnp.sqrt((1.0 + share) / (betas + share))
