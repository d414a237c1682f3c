"""The parts of a reference: Gaussians around the modes, and their weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from sahmc.modes.gaussians import DENSE_DIM
from sahmc.modes.modes import Modes
from sahmc.modes.reference import Reference, mixture_of

EVEN_SHARE = 0.5
"""The share of q that is divided equally among modes; the rest is divided by mass."""
EM_STEPS = 50
"""The number of expectation-maximisation steps when fitting weights."""
LEAST_SHARE = 1e-3
"""The minimum share of a part in the weight of its mode; smaller parts are dropped."""
WORTH = 0.02
"""The minimum improvement in mean log density, in nats, for more parts to be preferred to fewer: each part costs in
every move."""


def inflation(dim: int) -> float:
    """Return the factor by which q is wider than the modes it is fitted to; it falls with the dimension.

    The energies of q and of the modes then differ by about the same amount in any dimension.
    """
    return math.sqrt(1 + 1 / math.sqrt(dim))


class Parts(NamedTuple):
    """Possible parts of a reference, without weights: Gaussians, or distributions with heavier tails."""

    mode: np.ndarray
    """The mode that each part describes, (part,); a mode may have several."""
    mean: np.ndarray
    """The means, (part, dim)."""
    factor: np.ndarray
    """F of each part, with covariance F F': (part, dim, dim) or, in many dimensions, standard deviations (part,
    dim)."""
    heavy: np.ndarray
    """The parts that are Student's t with two degrees of freedom, (part,)."""

    @classmethod
    def of(cls, modes: Modes) -> Parts:
        """Return the Gaussians that describe ``modes``, slightly widened."""
        num = int(modes.num)
        sd = np.asarray(modes.sd, float)[:num]
        factor = sd * np.exp(np.log(np.asarray(modes.stretch, float)[:num]).mean(axis=1))[:, None]
        if sd.shape[1] <= DENSE_DIM:
            axes, stretch = (np.asarray(part, float)[:num] for part in (modes.axes, modes.stretch))
            common = np.asarray(modes.common, float)
            common = np.diag(common) if common.ndim == 1 else common
            along = np.eye(sd.shape[1]) + np.einsum("kia,ka,kja->kij", axes, stretch - 1, axes)
            factor = sd[:, :, None] * (common @ along)
        mean = np.asarray(modes.mean, float)[:num]
        return cls(np.arange(num), mean, inflation(sd.shape[1]) * factor, np.zeros(num, bool))

    def with_heavy_tails(self) -> Parts:
        """Return a t in place of each Gaussian, with the Hessian at the peak that this had before it was widened."""
        dim = self.mean.shape[1]
        return self._replace(
            factor=self.factor * math.sqrt(1 + 0.5 * dim) / inflation(dim), heavy=np.ones(len(self.mode), bool)
        )

    def joined(self, others: Parts) -> Parts:
        """Return these parts together with others."""
        return Parts(*(np.concatenate(pair) for pair in zip(self, others, strict=True)))

    def chosen(self, which: np.ndarray) -> Parts:
        """Return a selection of the parts."""
        return Parts(*(part[which] for part in self))

    def weighed(self, weight: np.ndarray, dtype: Any) -> Reference:
        """Return the mixture of the parts with these weights."""
        return mixture_of(weight, self.mean, self.factor, dtype, self.heavy)


def even_weights(parts: Parts, weight: np.ndarray) -> np.ndarray:
    """Return weights of ``parts`` with EVEN_SHARE divided equally among modes, so that none is left out."""
    weight = weight / weight.sum()
    by_mode = np.bincount(parts.mode, weight)
    within = weight / np.maximum(by_mode, 1e-300)[parts.mode]
    return within * ((1 - EVEN_SHARE) * by_mode + EVEN_SHARE / len(by_mode))[parts.mode]


def fit_reference(
    pictures: list[Parts], energy: Callable[[np.ndarray], np.ndarray], num: int, seed: int, dtype: Any
) -> tuple[Reference, int]:
    """Return the reference that is most like the posterior, made of one of ``pictures`` of its modes or of all.

    ``energy`` returns -log density of points (point, dim). It is evaluated at about ``num`` points, and their number is
    returned too. The points are draws of all parts with importance weights for the posterior, so no chain needs to have
    been where the mass is. One picture is enough if all together improve on it by less than WORTH nats.
    """
    every = pictures[0]
    for picture in pictures[1:]:
        every = every.joined(picture)
    size = len(every.mode)
    even = every.weighed(np.ones(size), float)
    points = even.draws_of(np.arange(-(-num // size) * size) % size, seed).astype(dtype)
    log_part = even.log_parts(points)
    log_weight = -energy(points) - logsumexp(log_part, axis=0)
    share = np.where(np.isnan(log_weight), -np.inf, log_weight)
    share = np.exp(share - max(share.max(), -np.finfo(float).max))
    share = np.minimum(share, share.sum() * len(share) ** -0.5)  # no single draw may dominate
    share /= max(share.sum(), 1e-300)

    starts = np.cumsum([0] + [len(picture.mode) for picture in pictures])
    choices = [np.arange(*ends) for ends in pairwise(starts)]
    choices += [np.arange(size)] if len(pictures) > 1 else []
    fitted = [_fit_weights(log_part[choice], share) for choice in choices]
    best = max(score for _, score in fitted)
    k = next(k for k, (_, score) in enumerate(fitted) if score >= best - WORTH)
    chosen, weight = every.chosen(choices[k]), fitted[k][0]
    wanted = _wanted(chosen, weight)
    chosen = chosen.chosen(wanted)
    return chosen.weighed(even_weights(chosen, weight[wanted]), dtype), len(points)


def _wanted(parts: Parts, weight: np.ndarray) -> np.ndarray:
    """Return the indices of ``parts`` with more than LEAST_SHARE of the weight of their mode."""
    by_mode = np.bincount(parts.mode, weight)
    return np.flatnonzero(weight > LEAST_SHARE * by_mode[parts.mode])


def _fit_weights(log_part: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the maximum likelihood weights of a mixture, by expectation maximisation, and its mean log density.

    ``log_part`` are the log densities of its parts at points (part, point), and ``share`` is the weight of each point.
    """
    weight = np.full(len(log_part), 1 / len(log_part))
    for _ in range(EM_STEPS):
        likely = np.log(np.maximum(weight, 1e-300))[:, None] + log_part
        total = logsumexp(likely, axis=0)
        weight = np.maximum(np.exp(likely - total) @ share, 1e-12)
        weight /= weight.sum()
    return weight, float(share @ total)
