"""The masses of the regions and the marginal likelihood, from theta and the visits under it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import expit

from sahmc._support.validate import require, require_known
from sahmc.results.records import RunRecord
from sahmc.tilt.importance import Expectation, error_of_mean, weighted_mean
from sahmc.tilt.partition import TemperatureLadder
from sahmc.tilt.theta import expected_frequency
from sahmc.tilt.tilts import TemperedTilt, Tilt

UNDERMINING = frozenset({"evidence", "round-trips", "rhat", "modes", "theta", "weights", "drift", "stuck", "precision"})
"""The codes of findings that, as errors, leave the evidence without support."""
BRACKET, MOST_STEPS = 50.0, 150
"""The nats beyond all draws between which a bridge is looked for, and the most steps of that search."""

UNKNOWN = Expectation(np.array(np.nan), np.array(np.nan))
"""The answer where nothing supports one."""


def membership(record: RunRecord, every: tuple[int, int] = (1, 1)) -> np.ndarray:
    """Return the membership of draws in every region under the frozen theta, (chain, draw, region).

    ``every`` is (i, j) to take every i-th chain and every j-th draw.
    """
    energy = record.draws.energy[:: every[0], :: every[1]]
    return np.asarray(_membership(record.tilt, record.learnt.theta, energy), dtype=float)


@jax.jit
def _membership(tilt: Tilt, theta: Array, energy: Float[Array, "chain draw"]) -> Float[Array, "chain draw region"]:
    of_draw = jax.vmap(tilt.membership, (None, 0))
    return jax.vmap(of_draw, (None, 0))(theta, energy)


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


def log_evidence(record: RunRecord, method: str = "theta") -> Expectation:
    """Return the log marginal likelihood and its standard error: log Z(1) - log Z(0) of a ladder up to beta = 0.

    There is the prior, or a reference whose integral is 1. ``method`` is the name of the estimator. Both are nan where
    the findings of the run do not support them. A run without such a ladder, or whose theta was not frozen and shared,
    raises ``ValueError``.
    """
    require_known(method, ESTIMATORS, "method")
    partition = record.partition
    undermined = any(finding.severity == "error" and finding.code in UNDERMINING for finding in record.findings)
    if record.bridge is not None and not knows_evidence(record):
        return UNKNOWN if undermined else Expectation(*map(np.array, record.bridge))
    require(
        knows_evidence(record),
        "log_evidence needs draws at beta = 0, the prior or a reference, under one frozen theta",
        {
            "last beta": float(partition.betas[-1]) if isinstance(partition, TemperatureLadder) else None,
            **{name: record.settings[name] for name in ("prior", "reference", "adapt")},
        },
        "leave tilt, partition, theta, adapt and reference at their defaults",
    )
    if undermined:
        return UNKNOWN
    found, mass = ESTIMATORS[method](record), record.prior_mass
    return found if mass is None else Expectation(found.mean - mass[0], np.hypot(found.mcse, mass[1]))


def knows_evidence(record: RunRecord) -> bool:
    """Tell whether the ladder of a run ends at the prior, with one theta that was frozen while draws were made."""
    partition, settings = record.partition, record.settings
    top = float(partition.betas[-1]) if isinstance(partition, TemperatureLadder) else None
    known = settings["prior"] or settings["reference"]
    return bool(top == 0.0 and known and settings["adapt"] == "tune" and record.learnt.theta.ndim == 1)


def _ladder(record: RunRecord) -> tuple[np.ndarray, float]:
    """Return the inverse temperatures of a ladder, and the energy from which its theta counts."""
    assert isinstance(record.partition, TemperatureLadder)
    return np.asarray(record.partition.betas, float), float(np.asarray(record.partition.reference))


def by_theta(record: RunRecord) -> Expectation:
    """Return the log evidence from theta and how often chains are at either end of the ladder under it."""
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

    It asks nothing of theta, nor of how often chains travel; so it can tell where these are wrong.
    """
    betas, reference = _ladder(record)
    found = bridge_levels(betas, record.draws.region, np.asarray(record.draws.energy, float) - reference)
    return Expectation(found.mean - (betas[0] - betas[-1]) * reference, found.mcse)


def bridge_levels(betas: np.ndarray, level: np.ndarray, energy: np.ndarray) -> Expectation:
    """Return log Z of the first level less that of the last, from the level and energy of draws (chain, draw).

    For levels i and j = i + 1 the log of Z_j / Z_i is M - log(n_i / n_j), where M solves
    sum over i of s(dU - M) = sum over j of s(M - dU), s is the logistic function and d = beta_i - beta_j: Bennett's
    acceptance ratio. A level without any draw makes it nan.
    """
    counts = np.bincount(level.ravel(), minlength=len(betas)).astype(float)
    if not (counts > 0).all():
        return UNKNOWN
    steps = -np.diff(betas)
    lower, upper = level < len(betas) - 1, level > 0  # draws that stand at the lower or the upper end of a bridge
    at_lower, at_upper = level[lower], level[upper] - 1
    below, above = steps[at_lower] * energy[lower], steps[at_upper] * energy[upper]
    middle = _bridge(at_lower, below, at_upper, above, len(steps))
    give, take = expit(below - middle[at_lower]), expit(middle[at_upper] - above)
    width = np.bincount(at_lower, give * (1 - give), len(steps)) + np.bincount(at_upper, take * (1 - take), len(steps))
    if not (width > 0).all():
        return UNKNOWN
    influence = np.zeros(level.shape)  # of each draw on the sum of all bridges, to first order
    influence[lower] += give / width[at_lower]
    influence[upper] -= take / width[at_upper]
    total = np.sum(middle - np.log(counts[:-1] / counts[1:]))
    return Expectation(-total, error_of_mean(influence * influence.size))


def _bridge(at_lower: np.ndarray, below: np.ndarray, at_upper: np.ndarray, above: np.ndarray, num: int) -> np.ndarray:
    """Return M of each of ``num`` bridges, by Newton's method within brackets.

    ``at_lower`` is the bridge at whose lower end each of some draws stands and ``below`` its dU; ``at_upper`` and
    ``above`` are those of draws at an upper end.
    """
    low, high = np.full(num, np.inf), np.full(num, -np.inf)
    for at, values in ((at_lower, below), (at_upper, above)):
        known = np.isfinite(values)
        np.minimum.at(low, at[known], values[known] - BRACKET)
        np.maximum.at(high, at[known], values[known] + BRACKET)
    order = np.lexsort([np.concatenate([below, above]), np.concatenate([at_lower, at_upper])])
    bounds = np.searchsorted(np.concatenate([at_lower, at_upper])[order], np.arange(num + 1))
    half = np.concatenate([below, above])[order][(bounds[:-1] + bounds[1:]) // 2]  # the median at each bridge
    middle = np.clip(half, low, high)
    for i in range(MOST_STEPS):
        give, take = expit(below - middle[at_lower]), expit(middle[at_upper] - above)
        slack = np.bincount(at_lower, give, num) - np.bincount(at_upper, take, num)
        low, high = np.where(slack > 0, middle, low), np.where(slack > 0, high, middle)
        slope = np.bincount(at_lower, give * (1 - give), num) + np.bincount(at_upper, take * (1 - take), num)
        newton = middle + slack / np.maximum(slope, 1e-300)
        if np.abs(newton - middle).max() < 1e-9:
            break
        # Energies under a prior can be so far apart that Newton's steps alone do not get there.
        inside = (newton > low) & (newton < high) & (i % 3 != 2)
        middle = np.where(inside, newton, 0.5 * (low + high))
    return middle


def bridge_to_reference(low: np.ndarray, weight: np.ndarray, high: np.ndarray) -> Expectation:
    """Return the log of the integral of exp(-U), from E = U + log q at draws of either density (Meng and Wong, 1996).

    ``low`` are the E of draws of the posterior (chain, draw), whose weights are ``weight`` and sum to 1; ``high`` are
    those of independent draws of q. With l = exp(-E), Z solves Z = mean of l / (s l + t Z) under q over the mean of
    1 / (s l + t Z) under the posterior, where s and t are the shares of the numbers of draws.
    """
    num = 1 / (weight**2).sum()
    share = num / (num + len(high))
    log_z = -float(np.median(low))
    high = np.where(np.isnan(high), np.inf, high)
    for _ in range(MOST_STEPS):
        up = expit(np.log(share / (1 - share)) - high - log_z) / share  # l / (s l + t Z) over Z's own scale
        down = expit(np.log((1 - share) / share) + low + log_z) / (1 - share)
        step = float(np.log(up.mean()) - np.log((weight * down).sum())) if up.any() else np.nan
        log_z += step
        if not abs(step) > 1e-9:
            break
    of_q = up.var() / len(high) / max(up.mean() ** 2, 1e-300)
    of_p = weighted_mean(down, weight)
    return Expectation(np.array(log_z), np.sqrt(of_q + (of_p.mcse / of_p.mean) ** 2))


ESTIMATORS = {"theta": by_theta, "bridges": by_bridges}
"""Every estimator of the log evidence by its name, the first the one that is reported."""
