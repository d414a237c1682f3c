"""Findings on the ladder: round trips, the climb, theta, and the evidence that depends on them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sahmc._support.thinning import some_of
from sahmc._support.words import counted
from sahmc.results.evidence import by_bridges, by_theta, knows_evidence, membership
from sahmc.results.findings.listing import ERROR, WARNING
from sahmc.results.records import Finding, RunRecord
from sahmc.results.warmup_record import LEAST_RUNGS, MASS_ERROR
from sahmc.tilt.importance import error_of_mean
from sahmc.tilt.tilts import TemperedTilt

THETA_SWING = 0.5
"""The maximum change of theta in a 64th of the draws while it is still learning, in nats."""
THETA_GAP = 0.5
"""The maximum disagreement on theta between two halves of the chains, in nats."""
HOME_WARNING, HOME_ERROR = 0.1, 0.01
"""The minimum ratio of observed to desired visits at beta = 1, before a warning and before an error."""
LEAST_ROUND_TRIPS = 10
"""The minimum number of round trips of all chains together, unless the ladder is short.

A round number; no experiment is recorded. A trip is worth less than an independent draw, so ten tell a mass of one half
to 0.16 at best."""
FEW_JUMPS = 100
"""The number of accepted jumps per chain that makes up for missing round trips.

If all chains together have fewer, jumps are negligible. A round number too."""
FEWEST_TRIPS = 5
"""The minimum number of round trips for the evidence to be known, unless the ladder is short."""
EVIDENCE_GAP, EVIDENCE_ERRORS = 0.05, 4.0
"""The tolerated difference between two estimates of the log evidence: nats, plus a multiple of the standard error."""
MOST_COMPARED = 2**18
"""The largest number of draws from which these two estimates are made; of more chains, some are chosen."""
SHORT_LADDER = 0.3
"""The minimum overlap of the ends of a ladder at which it counts as short, with no distance to travel."""
LOW_TOP = 3.0
"""The minimum top temperature at which a ladder cut short by heavy tails can still reveal other modes."""
MANY_MODES = 20
"""The minimum number of known modes for which an unfinished search is reported.

With fewer modes, the new ones are usually points of a single curved mode."""
GOOD_OVERLAP = 0.8
"""The minimum overlap of posterior and reference at which the tails of the reference are good enough."""


def check_ladder(record: RunRecord) -> Iterator[Finding]:
    """Check round trips and the climb: whether chains could get from one mode to another.

    Round trips matter where masses, or the evidence, depend on chains that travel the ladder.
    """
    trips, climb = int(record.round_trips.sum()), record.warmup.climb
    many = _several_modes(record)
    by_jumps = record.counts.jumps_accepted >= FEW_JUMPS * record.draws.energy.shape[0]
    if record.warmup.untravelled:
        yield Finding(
            "ladder",
            WARNING,
            "Chains that went up the ladder did not come back, so draws were made without it"
            + (", with jumps between the known modes" if many else "")
            + ": other modes were looked for by descents only.",
            float(record.warmup.num_modes),
            "If you need the ladder, bring the prior closer to the posterior, or raise tune.",
        )
    travels = record.learnt.theta.shape[-1] > 1 and (many or not knows_evidence(record))
    if travels and trips < LEAST_ROUND_TRIPS and not by_jumps and not _short_ladder(record):
        bad = trips == 0 and many and record.counts.jumps_accepted < FEW_JUMPS
        yield Finding(
            "round-trips",
            ERROR if bad else WARNING,
            f"Chains made {counted(trips, 'round trip')} between the posterior and the top of the ladder while "
            "drawing, so modes may be missing" + (" and masses wrong." if many else "."),
            trips,
            "Raise tune and draws.",
        )
    if climb is None:
        return
    if record.warmup.still_new and record.warmup.num_modes >= MANY_MODES:
        yield Finding(
            "modes",
            WARNING,
            f"The search for modes still found new ones when its share of tune was spent: {record.warmup.num_modes} "
            "modes are known, and there may be more.",
            float(record.warmup.num_modes),
            "Raise tune.",
        )
    tune = record.settings["tune"]
    if climb.too_short:
        rungs = climb.planned if climb.planned is not None and climb.ran_away else len(climb.down)
        yield Finding(
            "climb",
            WARNING,
            f"tune = {tune} leaves {counted(rungs, 'temperature')} for the climb to the top of the "
            "ladder: modes may be missing.",
            rungs,
            f"Raise tune to {math.ceil(1.2 * LEAST_RUNGS / rungs * tune / 100) * 100} or more.",
        )
        return
    reference = record.warmup.reference
    if reference is not None and reference.ran_away and not reference.heavy and reference.overlap < GOOD_OVERLAP:
        yield Finding(
            "tails",
            WARNING,
            "The tails are so heavy that chains run away from heat, and the reference in which the ladder ends has "
            "lighter ones: the errors of quantities far out may be larger than stated.",
            reference.overlap,
            "Give prior and likelihood apart, as a sahmc.Model, or raise draws.",
        )
    if record.settings["reference"]:
        return  # the reference, not a high temperature, joins the modes
    if climb.ran_away and climb.hottest < LOW_TOP and len(climb.down) > 2:
        yield Finding(
            "tails",
            WARNING,
            f"The tails are so heavy that chains run away above T = {climb.hottest:.2g}: heat cannot tell whether "
            "there are other modes.",
            climb.hottest,
            "Give prior and likelihood apart, as a sahmc.Model, if there may be modes further out.",
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


def check_theta(record: RunRecord, every: tuple[int, int]) -> Iterator[Finding]:
    """Check that, under a frozen theta, two halves of the chains visit levels equally and beta = 1 often enough.

    ``every`` is (i, j) to use every i-th chain and every j-th draw.
    """
    swing = record.learnt.swing
    if record.settings["adapt"] == "always" and swing > THETA_SWING:
        yield Finding(
            "theta",
            WARNING,
            f"theta moved by {swing:.1f} nats in each 64th of the drawing: it drives the chains rather than follows "
            "them, and masses of modes may be off by more than their errors.",
            swing,
            'Give a smaller gain, or adapt="tune", which freezes theta.',
        )
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
    if worst > THETA_GAP and (_several_modes(record) or not knows_evidence(record)):
        yield Finding(
            "theta",
            WARNING,
            f"Two halves of the chains put theta {worst:.1f} nats apart: it has not settled.",
            worst,
            "Raise tune.",
        )
    home = float(member[..., 0].mean() / record.learnt.desired[0])
    if home < HOME_WARNING and isinstance(record.tilt, TemperedTilt):  # lowest regions of a step tilt may be empty
        yield Finding(
            "theta",
            ERROR if home < HOME_ERROR else WARNING,
            f"Chains are at beta = 1 {home:.1%} as often as they should be: theta is far off.",
            home,
            "Raise tune.",
        )


def _short_ladder(record: RunRecord) -> bool:
    """Return whether the two ends of the ladder overlap by more than SHORT_LADDER."""
    if record.learnt.theta.ndim > 1 or not isinstance(record.tilt, TemperedTilt):
        return False
    member = membership(record, (1, max(1, record.draws.energy.shape[1] // 200)))
    ends = member[..., [0, -1]] / np.maximum(member[..., [0, -1]].mean(axis=(0, 1)), 1e-300)
    return bool(ends.min(axis=-1).mean() > SHORT_LADDER)


def check_evidence(record: RunRecord) -> Iterator[Finding]:
    """Check that the log evidence is supported: chains have travelled, and two estimators agree."""
    mass = record.prior_mass
    if mass is not None and not mass[1] < MASS_ERROR and (record.bridge is not None or knows_evidence(record)):
        words = "The log evidence is not known: the mass of the prior could not be measured. The draws do not need it."
        todo = "Pass Model(prior_normalised=True) if the prior integrates to 1."
        yield Finding("evidence", WARNING, words, float(mass[1]), todo)
        return
    if not knows_evidence(record):
        return
    trips = int(record.round_trips.sum())
    some = _some_chains(record)
    one, two = by_theta(some), by_bridges(some)
    gap, noise = abs(float(one.mean - two.mean)), float(np.hypot(one.mcse, two.mcse))
    what = ""
    if trips < FEWEST_TRIPS and not _short_ladder(record):
        top = "prior" if record.settings["prior"] else "reference"
        what = f"chains made {counted(trips, 'round trip')} between the posterior and the {top}"
    elif not np.isfinite([gap, noise]).all():
        what = "some level of the ladder was never visited"
    elif gap > EVIDENCE_GAP + EVIDENCE_ERRORS * noise:
        what = f"two estimates of it, from theta and from bridges between levels, differ by {gap:.2g} +- {noise:.2g}"
    todo, several = "Raise tune and draws, or start chains nearer to the posterior.", _several_modes(record)
    if what:
        words = f"The log evidence is not known: {what}{'' if several else '. The draws do not need it'}."
        yield Finding("evidence", ERROR if several else WARNING, words, gap, todo)


def _some_chains(record: RunRecord) -> RunRecord:
    """Return the record with the energies and regions of some chains alone, of about MOST_COMPARED draws in all."""
    draws = record.draws
    chains, num = draws.energy.shape
    some = some_of(chains, max(1, MOST_COMPARED // num))
    if len(some) == chains:
        return record
    return replace(record, draws=replace(draws, energy=draws.energy[some], region=draws.region[some]))


def _several_modes(record: RunRecord) -> bool:
    """Return whether several modes are known, or there was no search: masses may then depend on the ladder."""
    return record.warmup.num_modes > 1 or record.warmup.climb is None or record.warmup.power is None
