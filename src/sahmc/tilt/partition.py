"""How the space is cut: by energy (the paper) or by inverse temperature."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from sahmc._support.pytree import converted, strategy, updated
from sahmc._support.validate import require


def _energy_edges(edges: Any) -> Float[Array, " edges"]:
    values = np.asarray(edges, dtype=float)
    require(
        values.ndim == 1 and np.all(np.isfinite(values)) and np.all(np.diff(values) > 0),
        "energy edges must be a vector of finite, strictly increasing numbers",
        values.tolist(),
        "sort them and drop repeats, or use EnergyPartition.uniform(low, high, width)",
    )
    return jnp.asarray(values)


@strategy
class EnergyPartition:
    """The subregions E_1 = {U <= u_1}, E_2 = {u_1 < U <= u_2}, ..., E_m = {U > u_{m-1}}.

    ``edges`` are u_1 < ... < u_{m-1}; m is derived, and without edges there is one region. ``StepTilt`` owns the m
    subregions between the edges, ``LinearTilt`` uses the edges themselves as its nodes.
    """

    edges: Any = converted(_energy_edges)
    """Any sequence of numbers, held as one array."""

    @classmethod
    def uniform(cls, low: float | int, high: float | int, width: float | int) -> EnergyPartition:
        """Return the partition with edges low, low + width, ..., high, the paper's equal energy bandwidth."""
        require(high > low, "high must lie above low", (low, high), "swap them")
        require(width > 0, "width must be positive", width, "use width=2, as the paper does")
        count = round((high - low) / width)
        require(
            count >= 1 and math.isclose(low + count * width, high, rel_tol=1e-6, abs_tol=1e-6 * width),
            "high - low must be a whole number of widths",
            (low, high, width),
            f"take high = {low + max(1, count) * width:g}",
        )
        return cls(np.linspace(low, high, count + 1))

    def region(self, energy: Float[Array, "*any"]) -> Int[Array, "*any"]:
        """Return J(U), the number of the region in which an energy lies, counted from 0."""
        edges = jnp.asarray(self.edges, energy.dtype)
        return jnp.sum(energy[..., None] > edges, axis=-1, dtype=jnp.int32)


def _inverse_temperatures(betas: Any) -> Float[Array, " levels"]:
    values = np.asarray(betas, dtype=float)
    falling = values.ndim == 1 and values.size >= 1 and np.all(np.diff(values) < 0)
    require(
        falling and values[0] == 1 and values[-1] >= 0,
        "inverse temperatures must start at 1 and decrease strictly, to a last value of at least 0",
        values.tolist(),
        "use TemperatureLadder.geometric(t_max, levels), or list 1.0 first",
    )
    return _floats(values)


def _floats(values: Any) -> Float[Array, "*any"]:
    return jnp.asarray(values, jnp.result_type(float))


@strategy
class TemperatureLadder:
    """The inverse temperatures 1 = beta_1 > ... > beta_m >= 0.

    ``reference`` is taken off every energy before it is multiplied by beta, which keeps theta small: theta_i tends
    to C + log Z(beta_i) + beta_i * reference - log pi_i.

    ``prior_share`` is r in the picture of a Gaussian well under a Gaussian prior, whose width at level beta goes as
    1 / sqrt(beta + r). It is 0 where the base measure is flat.
    """

    betas: Any = converted(_inverse_temperatures)
    """Any sequence of numbers, held as one array."""
    reference: Any = converted(_floats, default=0.0)
    """The energy that counts as 0."""
    prior_share: Any = converted(_floats, default=0.0)
    """The curvature of the prior over that of the well."""

    @classmethod
    def single(cls, beta: float, reference: float = 0.0) -> TemperatureLadder:
        """Return a ladder of one level at any beta, 1 or not."""
        return updated(cls([1.0], reference), betas=_floats([beta]))

    @classmethod
    def geometric(
        cls, t_max: float | int, levels: int, *, reference: float = 0.0, prior_share: float = 0.0
    ) -> TemperatureLadder:
        """Return ``levels`` inverse temperatures from 1 to 1/t_max, on which beta + prior_share is geometric.

        ``t_max=math.inf`` leads to beta = 0, the prior.
        """
        require(t_max > 1, "t_max must exceed 1", t_max, "start with 30")
        require(levels >= 2, "a ladder needs at least 2 levels", levels, "raise levels")
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
        """The width of a Gaussian well at each level over that at beta = 1, and so the ratio of the step sizes."""
        return jnp.sqrt((1.0 + self.prior_share) / (self.betas + self.prior_share))
