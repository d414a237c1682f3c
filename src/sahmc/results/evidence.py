"""The masses of the regions, the marginal likelihood, and the distance between levels."""

from __future__ import annotations

import math
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sahmc._support.validate import is_number, require, require_count, require_known
from sahmc.results.records import RunRecord
from sahmc.tilt.bridge import UNKNOWN, bridge_levels
from sahmc.tilt.importance import Expectation, error_of_mean
from sahmc.tilt.partition import TemperatureLadder
from sahmc.tilt.theta import expected_frequency
from sahmc.tilt.tilts import TemperedTilt, Tilt

PAIRS = 4000
"""The number of pairs of draws from which the rejection between two levels is estimated."""
UNDERMINING = frozenset(
    {"round-trips", "rhat", "modes", "theta", "weights", "drift", "stuck", "precision", "symmetry", "divergences"}
    | {"improper"}
)
"""The codes of findings that, as errors, invalidate the evidence; "evidence" itself always does."""


def membership(record: RunRecord, every: tuple[int, int] = (1, 1)) -> np.ndarray:
    """Return the membership of draws in every region under the frozen theta, (chain, draw, region).

    ``every`` is (i, j) to use every i-th chain and every j-th draw.
    """
    ok = isinstance(every, (list, tuple, np.ndarray)) and len(every) == 2
    require(ok, "every must be a pair (i, j): every i-th chain, every j-th draw", every, "pass (1, 10), say")
    for step in every:
        require_count(step, "each number of every")
    energy = record.draws.energy[:: every[0], :: every[1]]
    return np.asarray(_membership(record.tilt, record.learnt.theta, energy), dtype=float)


@jax.jit
def _membership(tilt: Tilt, theta: Array, energy: Float[Array, "chain draw"]) -> Float[Array, "chain draw region"]:
    of_draw = jax.vmap(tilt.membership, (None, 0))
    return jax.vmap(of_draw, (None, 0))(theta, energy)


def log_omega(record: RunRecord, log_total: float = 0.0) -> np.ndarray:
    """Return log omega_i of every region; see ``Result.log_omega``."""
    must = "log_total must be a number, the known log of the total"
    require(is_number(log_total), must, log_total, "leave it out if it is not known")
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


def log_evidence(record: RunRecord, method: str = "theta") -> Expectation:
    """Return the log marginal likelihood and its standard error; see ``Result.log_evidence``.

    It is log Z(1) - log Z(0) of a ladder up to beta = 0, which is the prior, or a reference with integral 1. Raise
    ``ValueError`` if there is no such ladder, or if theta was not frozen and shared by all chains.
    """
    require_known(method, ESTIMATORS, "method")
    partition = record.partition
    undermined = any(
        finding.code == "evidence" or (finding.severity == "error" and finding.code in UNDERMINING)
        for finding in record.findings
    )
    if record.warmup.untravelled and record.bridge is None:
        return UNKNOWN
    require(
        record.bridge is not None or knows_evidence(record),
        "log_evidence needs draws at beta = 0, the prior or a reference, under one frozen theta",
        {
            "last beta": float(np.asarray(partition.betas)[-1]) if isinstance(partition, TemperatureLadder) else None,
            **{name: record.settings[name] for name in ("prior", "reference", "adapt")},
        },
        "leave tilt, partition, theta, adapt and reference at their defaults",
    )
    return UNKNOWN if undermined else estimated(record, method)


def estimated(record: RunRecord, method: str) -> Expectation:
    """Return the log evidence by an estimator, regardless of findings; nan if the run cannot estimate it.

    A ladder that does not reach beta = 0 may have a bridge to a separate reference.
    """
    mass = record.prior_mass
    if knows_evidence(record):
        found = ESTIMATORS[method](record)
    else:
        found = UNKNOWN if record.bridge is None else Expectation(*map(np.array, record.bridge))
    return found if mass is None else Expectation(found.mean - mass[0], np.hypot(found.mcse, mass[1]))


def evidence_in_words(record: RunRecord) -> str:
    """Return a line with the log evidence and what it measures; empty if the run does not support it."""
    if record.bridge is None and not knows_evidence(record):
        return ""
    mean, error = (float(part) for part in log_evidence(record))
    if not np.isfinite([mean, error]).all():
        return ""
    digits = max(0, 1 - math.floor(math.log10(max(error, 1e-6))))
    what = "log evidence" if record.settings["prior"] else "log of the integral of exp(log density)"
    return f"{what} {mean:z.{digits}f} +- {error:.{digits}f}"


def knows_evidence(record: RunRecord) -> bool:
    """Return whether the ladder ends at the prior or a reference, with one theta that was frozen while sampling."""
    partition, settings = record.partition, record.settings
    top = float(np.asarray(partition.betas)[-1]) if isinstance(partition, TemperatureLadder) else None
    known = settings["prior"] or settings["reference"]
    return bool(top == 0.0 and known and settings["adapt"] == "tune" and record.learnt.theta.ndim == 1)


def _ladder(record: RunRecord) -> tuple[np.ndarray, float]:
    """Return the inverse temperatures of a ladder, and its reference energy."""
    assert isinstance(record.partition, TemperatureLadder)
    return np.asarray(record.partition.betas, float), float(np.asarray(record.partition.reference))


def by_theta(record: RunRecord) -> Expectation:
    """Return the log evidence from theta and the visiting frequencies of both ends of the ladder."""
    betas, reference = _ladder(record)
    member = membership(record)[..., [0, -1]]
    often, theta = member.mean(axis=(0, 1)), np.asarray(record.learnt.theta, float)
    if not (often > 0).all():
        return UNKNOWN
    mean = theta[0] - theta[-1] + np.log(often[0] / often[1]) - (betas[0] - betas[-1]) * reference
    share = member / often
    return Expectation(mean, error_of_mean(share[..., 0] - share[..., 1]))


def by_bridges(record: RunRecord) -> Expectation:
    """Return the log evidence from the draws at each level, by a bridge from each level to the next.

    It does not depend on theta or on round trips, so it can reveal errors in these.
    """
    betas, reference = _ladder(record)
    found = bridge_levels(betas, record.draws.region, np.asarray(record.draws.energy, float) - reference)
    return Expectation(found.mean - (betas[0] - betas[-1]) * reference, found.mcse)


ESTIMATORS = {"theta": by_theta, "bridges": by_bridges}
"""All estimators of the log evidence by name; the first one is reported."""


def rejections(record: RunRecord) -> np.ndarray:
    """Return the rejection probability of a swap between chains on neighbouring levels, for each pair of levels.

    It is 1 - E[min(1, exp((beta_i - beta_j) (E_i - E_j)))]. If levels are close, the sum over the ladder is the barrier
    Lambda of Syed et al. (2022). A level without draws gives nan.
    """
    partition = record.partition
    require(
        isinstance(partition, TemperatureLadder),
        "rejections between levels need a ladder of temperatures",
        type(record.tilt).__name__,
        'sample with tilt="tempered", the default',
    )
    assert isinstance(partition, TemperatureLadder)
    betas, energy = np.asarray(partition.betas, float), np.asarray(record.draws.energy, float)
    at = [energy[record.draws.region == level] for level in range(len(betas))]
    rng = np.random.default_rng(0)
    found = np.full(len(betas) - 1, np.nan)
    for i, (lower, upper) in enumerate(pairwise(at)):
        if lower.size and upper.size:
            gain = (betas[i] - betas[i + 1]) * (rng.choice(lower, PAIRS) - rng.choice(upper, PAIRS))
            found[i] = 1 - np.exp(np.minimum(gain, 0.0)).mean()
    return found
