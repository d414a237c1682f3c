"""Findings: what is wrong with a run, in words. A run without any has passed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from sahmc.results.evidence import membership
from sahmc.results.quantities import choose_quantities
from sahmc.results.records import Finding, ModeAssignment, RunRecord
from sahmc.results.warmup_record import FEWEST_CHAINS
from sahmc.tilt.importance import error_of_mean, kish_efficiency, weighted_mean, weighted_rhat, weighted_variance

ERROR, WARNING = "error", "warning"
"""The severities of a finding."""
RHAT_WARNING, RHAT_ERROR = 1.05, 1.5
"""The largest weighted R-hat of a quantity without a warning, and without an error."""
LEAST_ESS = 100
"""The effective sample size that a standard error needs."""
DRIFT_WARNING, DRIFT_ERROR = 5.0, 10.0
"""The most standard errors between the means of the two halves of the draws."""
DIVERGING_WARNING, DIVERGING_ERROR = 0.001, 0.1
"""The largest shares of trajectories that may diverge."""
DEEPEST_SHARE = 0.05
"""The largest share of trajectories that may be cut off at the largest depth."""
FAILED_WARNING, FAILED_ERROR = 0.1, 0.5
"""The largest shares of moves whose implicit steps may fail."""
LEAST_EFFICIENCY = 0.02
"""The share of the draws that the weights must leave effective."""
HEAVIEST_DRAW = 0.1
"""The share of the weight that one draw may carry."""
THETA_GAP = 0.5
"""The nats by which two halves of the chains may disagree on theta."""
HOME_WARNING, HOME_ERROR = 0.1, 0.01
"""The least visits to beta = 1, over those desired."""
LEAST_MASS = 0.01
"""The mass from which a mode counts."""
SEEN_BY = 0.25
"""The share of the chains that must have seen a mode."""
MODES_NAMED = 4
"""The number of rarely seen modes that are named; the rest are counted."""
EXPECTED_MASS = 0.2
"""The mass expected of a mode, by its depth and width, from which its absence is reported."""
LEAST_ROUND_TRIPS = 10
"""The round trips that all chains together should make."""
FEW_JUMPS = 100
"""The accepted jumps that make up for missing round trips."""
LEAST_RUNGS = 10
"""The number of temperatures that the climb should have."""


def examine(record: RunRecord, positions: Any) -> tuple[Finding, ...]:
    """Return what is wrong with a run, errors first.

    ``positions`` is a pytree of arrays (chain, draw, ...) whose numbers are compared between chains.
    """
    flat, names, every = choose_quantities(positions)
    pick = slice(None, None, every[0]), slice(None, None, every[1])
    found = [*_run(record), *_weights(record), *_ladder(record), *_theta(record, every)]
    quantities = np.concatenate([flat, record.draws.log_density[pick][..., None]], axis=2).astype(float)
    names = [*names, "the log density"]
    weight = record.weight[pick]
    weight = weight / weight.sum()
    seen = record.modes
    if seen is not None and len(seen.energy) > 1:
        seen = seen._replace(label=seen.label[pick])
        mass = seen.mass(weight)
        found += _modes(seen, mass, seen.chains(record.draws.region[pick] == 0), len(flat))
        for k in np.flatnonzero((mass > LEAST_MASS) & (mass < 1 - LEAST_MASS)):
            quantities = np.concatenate([quantities, (seen.label == k)[..., None].astype(float)], axis=2)
            names.append(f"the mass of the mode near {_short(seen.minimum[k])}")
    found += _agreement(quantities, names, weight)
    return tuple(sorted(found, key=lambda f: f.severity != ERROR))


def _short(position: np.ndarray) -> str:
    """Return the first coordinates of a position as text."""
    head = ", ".join(f"{x:.3g}" for x in position[:3])
    return f"({head}, ...)" if len(position) > 3 else f"({head})"


def _run(record: RunRecord) -> Iterator[Finding]:
    """Check how the run went: interruption, divergences, too few chains."""
    settings, chains = record.settings, record.draws.energy.shape[0]
    if settings["interrupted"]:
        made, asked = record.draws.energy.shape[1], settings["draws"]
        yield Finding("interrupted", WARNING, f"Interrupted: {made} of {asked} draws were made.", made, "Run it again.")
    share = record.counts.diverging / max(1, record.counts.trajectories)
    if share > DIVERGING_WARNING:
        yield Finding(
            "divergences",
            ERROR if share > DIVERGING_ERROR else WARNING,
            f"{share:.2%} of trajectories diverged: parts of the posterior are too curved for the step size.",
            share,
            "Raise target_accept, or reparametrise.",
        )
    yield from _trajectories(record)
    if chains < FEWEST_CHAINS and record.warmup.climb is not None:
        yield Finding(
            "few-chains",
            WARNING,
            f"With {chains} chains it cannot be seen whether they forget their mode at the top.",
            chains,
            f"Run {FEWEST_CHAINS} or more; 32 cost little more time.",
        )


def _trajectories(record: RunRecord) -> Iterator[Finding]:
    """Check for trajectories that were cut off and implicit steps that failed."""
    deepest = record.counts.deepest / max(1, record.counts.trajectories)
    if deepest > DEEPEST_SHARE:
        yield Finding(
            "tree-depth",
            WARNING,
            f"{deepest:.1%} of trajectories were cut off at max_tree_depth, before they turned.",
            deepest,
            "The draws are right but cost more than they need to: bring the parameters to similar scales, or use "
            "metric='dense'.",
        )
    failed = record.counts.failed / max(1, record.counts.trajectories)
    if failed > FAILED_WARNING:
        yield Finding(
            "implicit",
            ERROR if failed > FAILED_ERROR else WARNING,
            f"{failed:.1%} of moves were rejected because an implicit step did not converge or does not reverse.",
            failed,
            "Raise target_accept, which shortens the steps, or take a smoother metric (a smaller alpha of SoftAbs).",
        )


def _weights(record: RunRecord) -> Iterator[Finding]:
    """Check that the weight does not lie on too few draws."""
    weight = record.weight
    heaviest, efficiency = float(weight.max()), kish_efficiency(weight)
    if heaviest > HEAVIEST_DRAW:
        sentence = f"One draw carries {heaviest:.0%} of the weight."
        yield Finding("weights", ERROR, sentence, heaviest, "Raise tune, so that theta is learnt better.")
    elif efficiency < LEAST_EFFICIENCY:
        sentence = f"The weights leave only {efficiency:.1%} of the draws effective."
        yield Finding("weights", WARNING, sentence, efficiency, "Raise tune, so that theta is learnt better.")


def _ladder(record: RunRecord) -> Iterator[Finding]:
    """Check round trips and the climb: whether chains could get from one mode to another."""
    trips, climb = int(record.round_trips.sum()), record.warmup.climb
    many = record.warmup.num_modes > 1 or climb is None
    if record.learnt.theta.shape[-1] > 1 and trips < LEAST_ROUND_TRIPS:
        bad = trips == 0 and many and record.counts.jumps_accepted < FEW_JUMPS
        yield Finding(
            "round-trips",
            ERROR if bad else WARNING,
            f"{trips or 'No'} round trips between the posterior and the top of the ladder were made while drawing, so "
            "modes may be missing" + (" and masses wrong." if many else "."),
            trips,
            "Raise tune and draws.",
        )
    if record.warmup.pilot is not None and record.warmup.pilot.stranded:
        yield Finding(
            "stranded",
            WARNING,
            f"{_chains(record.warmup.pilot.stranded)} could not come down from the start, and had to be put where "
            "others are.",
            record.warmup.pilot.stranded,
            "Pass initvals nearer to the posterior; make sure that the log density does not overflow.",
        )
    if climb is None:
        return
    tune = record.settings["tune"]
    if len(climb.down) < LEAST_RUNGS and not climb.ran_away:
        yield Finding(
            "climb",
            WARNING,
            f"tune = {tune} leaves {len(climb.down)} temperatures for the climb to the top of the ladder: modes may be "
            "missing.",
            len(climb.down),
            f"Raise tune to {math.ceil(1.2 * LEAST_RUNGS / len(climb.down) * tune / 100) * 100} or more.",
        )
    if climb.ran_away:
        yield Finding(
            "tails",
            WARNING,
            f"The tails are so heavy that chains run away above T = {climb.hottest:.2g}; the ladder ends there.",
            climb.hottest,
            "Give prior and likelihood apart, as a sahmc.Model, if there are modes further out.",
        )
    if record.warmup.lost:
        yield Finding(
            "lost",
            WARNING,
            f"{_chains(record.warmup.lost)} did not come back from the climb to high temperatures, and had to be put "
            "back.",
            record.warmup.lost,
            "Raise tune"
            + ("." if record.settings["prior"] else "; give prior and likelihood apart, as a sahmc.Model, if you can."),
        )
    if many and math.isinf(climb.melting) and not record.settings["prior"]:
        yield Finding(
            "top",
            WARNING,
            f"Chains remember where they were even at T = {climb.hottest:.3g}: the top, T = {record.warmup.top:.3g}, "
            "may be too low to join all modes.",
            climb.hottest,
            "Raise tune, or give a TemperatureLadder with a higher top.",
        )


def _theta(record: RunRecord, every: tuple[int, int]) -> Iterator[Finding]:
    """Check that two halves of the chains visit the levels alike under a frozen theta, and beta = 1 often enough.

    ``every`` is (i, j) to look at every i-th chain and every j-th draw.
    """
    chains, regions = record.draws.energy.shape[0], record.learnt.theta.shape[-1]
    if regions == 1 or record.learnt.theta.ndim > 1 or record.settings["adapt"] != "tune" or chains < 4:
        return
    member = membership(record, every)
    halves = member[0::2], member[1::2]
    mean = [half.mean(axis=(0, 1)) for half in halves]
    error = [error_of_mean(half) for half in halves]
    gap = np.abs(np.log(np.maximum(mean[0], 1e-12) / np.maximum(mean[1], 1e-12)))
    noise = np.hypot(*(e / np.maximum(m, 1e-12) for e, m in zip(error, mean, strict=True)))
    worst = float(np.max(np.where(gap > 5 * noise, gap, 0.0)))
    if worst > THETA_GAP:
        yield Finding(
            "theta",
            WARNING,
            f"Two halves of the chains put theta {worst:.1f} nats apart: it has not settled.",
            worst,
            "Raise tune.",
        )
    home = float(member[..., 0].mean() / record.learnt.desired[0])
    if home < HOME_WARNING:
        yield Finding(
            "theta",
            ERROR if home < HOME_ERROR else WARNING,
            f"Chains are at beta = 1 {home:.1%} as often as they should be: theta is far off.",
            home,
            "Raise tune.",
        )


def _modes(seen: ModeAssignment, mass: np.ndarray, chains: np.ndarray, total: int) -> Iterator[Finding]:
    """Check for modes with too little mass, and for modes that too few chains have seen.

    ``mass`` and ``chains`` hold the mass of each mode and the number of chains that saw it, out of ``total``.
    """
    for k, expected in enumerate(seen.expected):
        near = _short(seen.minimum[k])
        if expected > EXPECTED_MASS and mass[k] < expected / 10:
            yield Finding(
                "modes",
                WARNING,
                f"The mode near {near} should hold {expected:.2f} of the mass by its depth and width, but in the draws "
                f"it holds {mass[k]:.2g}.",
                float(expected),
                "Chains may not find their way into it: raise tune and draws, and leave jumps on.",
            )
    rare = np.flatnonzero((mass >= LEAST_MASS) & (chains < SEEN_BY * total))
    rare = rare[np.lexsort([-mass[rare], seen.known[rare]])]  # those found late first, then by mass
    for k in rare[:MODES_NAMED]:
        late = "" if seen.known[k] else ", and found only while draws were made, so its mass is not known"
        yield Finding(
            "modes",
            WARNING if seen.known[k] else ERROR,
            f"The mode near {_short(seen.minimum[k])}, of mass {mass[k]:.2f}, was seen by {chains[k]} of {total} "
            f"chains{late}.",
            float(chains[k]),
            "Raise draws and tune, or start some chains there with initvals.",
        )
    rest = rare[MODES_NAMED:]
    if len(rest):
        late_ones = int((~np.asarray(seen.known, bool)[rest]).sum())
        yield Finding(
            "modes",
            ERROR if late_ones else WARNING,
            f"{len(rest)} more modes, of mass {mass[rest].sum():.2f} together, were each seen by less than a quarter "
            f"of the chains; {late_ones} of them were found only while draws were made.",
            float(len(rest)),
            "Raise draws and tune. If parts of the model can change places, masses of single modes mean little: look "
            "at quantities that do not depend on their order.",
        )


def _chains(number: int) -> str:
    """Return "1 chain", "2 chains" and so on."""
    return f"{number} chain" + "s" * (number != 1)


def _agreement(values: np.ndarray, names: list[str], weight: np.ndarray) -> Iterator[Finding]:
    """Check R-hat, effective sample size and drift of each quantity, all weighted; the worst of each is reported.

    ``values`` are arrays (chain, draw, quantity), ``names`` those of the quantities, and ``weight`` sums to 1.
    """
    mean, error = weighted_mean(values, weight)
    spread = weighted_variance(values, weight)
    moves = spread > 1e-12 * mean**2
    if not moves.any():
        yield Finding("stuck", ERROR, "Nothing moved.", 0.0, "Check the log density and where it starts.")
        return
    rhat = weighted_rhat(values, weight)
    worst = int(np.argmax(rhat))
    if rhat[worst] > RHAT_WARNING:
        yield Finding(
            "rhat",
            ERROR if rhat[worst] > RHAT_ERROR else WARNING,
            f"Chains disagree: weighted R-hat is {rhat[worst]:.2f} for {names[worst]}"
            + (
                f" (above {RHAT_WARNING} for {int((rhat > RHAT_WARNING).sum())} of {len(names)} quantities)."
                if (rhat > RHAT_WARNING).sum() > 1
                else "."
            ),
            float(rhat[worst]),
            "Raise draws and tune.",
        )
    ess = np.where(moves, spread / np.where(error > 0, error, 1.0) ** 2, np.inf)
    worst = int(np.argmin(ess))
    if ess[worst] < LEAST_ESS:
        yield Finding(
            "budget",
            WARNING,
            f"The effective sample size is {ess[worst]:.0f} for {names[worst]}; standard errors need about "
            f"{LEAST_ESS}.",
            float(ess[worst]),
            f"Raise draws {math.ceil(LEAST_ESS / max(ess[worst], 1)) + 1}-fold.",
        )
    half = values.shape[1] // 2
    if half < 4:
        return
    halves = (values[:, :half], weight[:, :half]), (values[:, half:], weight[:, half:])
    if any(w.sum() == 0 for _, w in halves):
        words = "All the weight lies in one half of the draws: the other tells nothing of the posterior."
        yield Finding("drift", ERROR, words, 1.0, "Raise tune.")
        return
    parts = [weighted_mean(v, w / w.sum()) for v, w in halves]
    noise = np.hypot(parts[0].mcse, parts[1].mcse)
    drift = np.where(moves & (noise > 0), np.abs(parts[0].mean - parts[1].mean) / np.where(noise > 0, noise, 1.0), 0.0)
    worst = int(np.argmax(drift))
    if drift[worst] > DRIFT_WARNING:
        yield Finding(
            "drift",
            ERROR if drift[worst] > DRIFT_ERROR else WARNING,
            f"The two halves of the draws differ by {drift[worst]:.0f} standard errors in {names[worst]}.",
            float(drift[worst]),
            "Raise tune.",
        )
