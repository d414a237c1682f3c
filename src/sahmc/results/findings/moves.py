"""Findings on the course of the run: interruption, divergences, trajectories, rounding."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sahmc._support.words import counted
from sahmc.results.findings.listing import ERROR, GO_ON, WARNING
from sahmc.results.records import Finding, RunRecord
from sahmc.results.warmup_record import FEWEST_CHAINS

DIVERGING_WARNING, DIVERGING_ERROR = 0.02, 0.1
"""The maximum share of divergences at beta = 1, before a warning and before an error."""
DEEPEST_SHARE = 0.05
"""The maximum share of trajectories cut off at the maximum depth."""
COARSE_WARNING, COARSE_ERROR = 0.05, 0.3
"""The maximum spacing of floating-point numbers at the size of the energy, in nats."""
FAR = 1e30
"""The threshold for a coordinate so large that no posterior reaches it."""
FAILED_WARNING, FAILED_ERROR = 0.1, 0.5
"""The maximum share of moves with failed implicit steps, before a warning and before an error."""


def _flat(record: RunRecord) -> bool:
    """Return whether the log density is constant, and nothing but the range of numbers bounds the space."""
    draws, inside = record.draws, np.isfinite(record.draws.log_density)
    if draws.log_density.size == 1 or np.ptp(draws.log_density[inside]) > 0:
        return False
    far = max((float(np.abs(leaf).max()) for leaf in draws.leaves if leaf.size), default=0.0)
    # some draws from a reference lie outside the support
    no_wall = inside.all() and (record.settings["reference"] or not np.any(draws.acceptance_rate < 0.5))
    return far > FAR or bool(no_wall)


def check_moves(record: RunRecord) -> Iterator[Finding]:
    """Check the course of the run: interruption, divergences, too few chains."""
    settings, chains = record.settings, record.draws.energy.shape[0]
    if settings["interrupted"]:
        made, asked = record.draws.energy.shape[1], settings["draws"]
        yield Finding("interrupted", WARNING, f"Interrupted: {made:,} of {asked:,} draws were made.", made, GO_ON)
    if _flat(record):
        yield Finding(
            "stuck",
            ERROR,
            "The log density is the same at every draw, and nothing ends the space: there is nothing to draw from.",
            float(record.draws.log_density.flat[0]),
            "Check that it depends on the position, and that it falls off far out.",
        )
    share = record.counts.cold_diverging / max(1, record.counts.cold)
    if share > DIVERGING_WARNING:
        yield Finding(
            "divergences",
            ERROR if share > DIVERGING_ERROR else WARNING,
            f"{share:.2%} of trajectories at beta = 1 diverged: parts of the posterior are too curved for the step "
            "size.",
            share,
            "Raise target_accept, or reparametrise.",
        )
    yield from _trajectories(record)
    yield from _precision(record)
    if chains < FEWEST_CHAINS and record.warmup.climb is not None:
        forget = "it forgets its" if chains == 1 else "they forget their"
        yield Finding(
            "few-chains",
            WARNING,
            f"With {counted(chains, 'chain')} it cannot be seen whether {forget} mode at the top.",
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


def _precision(record: RunRecord) -> Iterator[Finding]:
    """Check that rounding of the posterior energy is a small part of a nat."""
    cold = record.weight > 0
    for energy in (record.draws.energy, record.draws.log_density):
        values = np.abs(energy[cold])
        unit = float(np.spacing(np.median(values))) if values.size else 0.0
        if unit > COARSE_WARNING:
            yield Finding(
                "precision",
                ERROR if unit > COARSE_ERROR else WARNING,
                f"The log density is about {np.median(values):.1e}, where numbers of {8 * values.itemsize} bits are "
                f"{unit:.2g} nats apart: acceptance and masses are rounded.",
                unit,
                "Take a constant off the log density, or use 64 bits: jax.config.update('jax_enable_x64', True).",
            )
            return
