"""How the space is cut: by energy (the paper) or by inverse temperature."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from sahmc._support.pytree import strategy
from sahmc._support.validate import require


@strategy
class EnergyPartition:
    """E_1 = {U <= u_1}, E_2 = {u_1 < U <= u_2}, ..., E_m = {U > u_{m-1}}.

    ``edges`` are u_1 < ... < u_{m-1}; m is derived, and without edges there is one region. ``StepTilt`` owns the m
    subregions between the edges, ``LinearTilt`` uses the edges themselves as its nodes.
    """

    edges: Any

    def __post_init__(self) -> None:
        edges = np.asarray(self.edges, dtype=float)
        ok = edges.ndim == 1 and np.all(np.isfinite(edges)) and np.all(np.diff(edges) > 0)
        require(
            ok,
            "energy edges must be a vector of finite, strictly increasing numbers",
            edges.tolist(),
            "sort them and drop repeats, or use EnergyPartition.uniform(low, high, width)",
        )
        object.__setattr__(self, "edges", jnp.asarray(edges))

    @classmethod
    def uniform(cls, low: float | int, high: float | int, width: float | int) -> EnergyPartition:
        """Edges low, low + width, ..., high: the paper's equal energy bandwidth."""
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
        """J(U), counted from 0."""
        edges = jnp.asarray(self.edges, energy.dtype)
        return jnp.sum(energy[..., None] > edges, axis=-1, dtype=jnp.int32)


@strategy
class TemperatureLadder:
    """Inverse temperatures 1 = beta_1 > ... > beta_m >= 0.

    ``reference`` is taken off every energy before it is multiplied by beta, which keeps theta small: theta_i tends
    to C + log Z(beta_i) + beta_i * reference - log pi_i.

    ``prior_share`` is r in the picture of a Gaussian well under a Gaussian prior, whose width at level beta goes as
    1 / sqrt(beta + r). It is 0 where the base measure is flat.
    """

    betas: Any
    reference: Any = 0.0
    prior_share: Any = 0.0

    def __post_init__(self) -> None:
        betas = np.asarray(self.betas, dtype=float)
        ok = betas.ndim == 1 and betas.size >= 1 and betas[0] == 1 and betas[-1] >= 0 and np.all(np.diff(betas) < 0)
        require(
            ok,
            "inverse temperatures must start at 1 and decrease strictly, to a last value of at least 0",
            betas.tolist(),
            "use TemperatureLadder.geometric(t_max, levels), or list 1.0 first",
        )
        self._set(betas, self.reference, self.prior_share)

    def _set(self, betas: Any, reference: Any, prior_share: Any) -> TemperatureLadder:
        object.__setattr__(self, "betas", jnp.asarray(betas, jnp.result_type(float)))
        object.__setattr__(self, "reference", jnp.asarray(reference, jnp.result_type(float)))
        object.__setattr__(self, "prior_share", jnp.asarray(prior_share, jnp.result_type(float)))
        return self

    @classmethod
    def single(cls, beta: float, reference: float = 0.0) -> TemperatureLadder:
        """One level, of any beta: what a pilot runs at."""
        return object.__new__(cls)._set([beta], reference, 0.0)

    @classmethod
    def geometric(
        cls, t_max: float | int, levels: int, *, reference: float = 0.0, prior_share: float = 0.0
    ) -> TemperatureLadder:
        """``levels`` of them with beta + prior_share geometric, from 1 to 1/t_max (``math.inf``: to 0, the prior)."""
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


def ladder_size(dim: float, log_range: float) -> int:
    """m = 1.5 sqrt(d/2) log(T_max) + 1, at least 4: neighbouring levels then overlap in energy."""
    return max(4, round(1.5 * math.sqrt(dim / 2) * log_range) + 1)
