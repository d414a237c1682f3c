"""The masses of the regions and the marginal likelihood, from theta and the visits under it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from sahmc._support.validate import require
from sahmc.results.records import RunRecord
from sahmc.tilt.importance import Expectation, error_of_mean
from sahmc.tilt.partition import TemperatureLadder
from sahmc.tilt.theta import expected_frequency
from sahmc.tilt.tilts import TemperedTilt


def membership(record: RunRecord, every: tuple[int, int] = (1, 1)) -> np.ndarray:
    """Return the membership of draws in every region under the frozen theta, (chain, draw, region).

    ``every`` is (i, j) to take every i-th chain and every j-th draw.
    """
    theta = jnp.asarray(record.learnt.theta)
    energy = jnp.asarray(record.draws.energy[:: every[0], :: every[1]])
    of_draw = jax.vmap(record.tilt.membership, (None, 0))
    return np.asarray(jax.vmap(of_draw, (None, 0))(theta, energy), dtype=float)


def log_omega(record: RunRecord, log_total: float = 0.0) -> np.ndarray:
    """Return log omega_i of every region; for a tempered tilt log Z(beta_i), level 0 being the posterior.

    ``log_total`` is the known log of their total or, for a tempered tilt, of Z(1). Regions never visited have -inf.
    Where theta was frozen, the frequencies used are those observed, otherwise pi_i + nu of the paper.
    """
    learnt = record.learnt
    frequency = np.asarray(expected_frequency(jnp.asarray(learnt.desired), jnp.asarray(learnt.visits > 0)))
    if record.settings["adapt"] == "tune":
        counts = learnt.visits if learnt.theta.ndim == 2 else membership(record).mean(axis=(0, 1))
        frequency = counts / counts.sum(axis=-1, keepdims=True)
    masses = np.asarray(record.tilt.log_omega(jnp.asarray(learnt.theta), jnp.asarray(frequency, learnt.theta.dtype)))
    if isinstance(record.tilt, TemperedTilt):
        total = masses[..., :1]
    else:
        high = masses.max(axis=-1, keepdims=True)
        total = high + np.log(np.exp(masses - high).sum(axis=-1, keepdims=True))
    return masses - total + log_total


def log_evidence(record: RunRecord) -> Expectation:
    """Return the log marginal likelihood and its standard error: log Z(1) - log Z(0) of a ladder up to the prior.

    A run without such a ladder, or whose theta was not frozen and shared, raises ``ValueError``.
    """
    partition, settings = record.partition, record.settings
    top = float(partition.betas[-1]) if isinstance(partition, TemperatureLadder) else None
    require(
        top == 0.0 and settings["prior"] and settings["adapt"] == "tune" and record.learnt.theta.ndim == 1,
        "log_evidence needs draws at the prior, beta = 0, under one frozen theta",
        {"last beta": top, "prior": settings["prior"], "adapt": settings["adapt"]},
        "sample a sahmc.Model(log_likelihood=..., log_prior=...) with the default tilt, theta and adapt",
    )
    member = membership(record)
    bottom, last = member[..., 0], member[..., -1]
    masses = log_omega(record)
    return Expectation(masses[0] - masses[-1], error_of_mean(bottom / bottom.mean() - last / last.mean()))
