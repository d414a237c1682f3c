"""What is wrong with a run, in words. Nothing to say means that it passed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sahmc.tilt.importance import error_of_mean, kish_efficiency, weighted_mean, weighted_rhat, weighted_variance

if TYPE_CHECKING:
    from sahmc.landscape.mode_finder import Sightings
    from sahmc.results.result import Result

ERROR, WARNING = "error", "warning"
RHAT, RHAT_BAD = 1.05, 1.5
ESS = 100
DRIFT, DRIFT_BAD = 5.0, 10.0
DIVERGENCES, DIVERGENCES_BAD = 0.001, 0.1
DEEPEST = 0.05
FAILED, FAILED_BAD = 0.1, 0.5
EFFICIENCY = 0.02
HEAVIEST = 0.1
DISAGREEMENT = 0.5
MASS = 0.01
NAMED = 4
EXPECTED = 0.2
TRIPS = 10
RUNGS = 10


class Finding(NamedTuple):
    """``code`` names it for programs; ``severity`` is "error" (do not trust the result) or "warning"."""

    code: str
    severity: str
    sentence: str
    number: float
    advice: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.sentence} {self.advice} [{self.code}]"


def examine(result: Result, flat: np.ndarray, names: list[str], every: tuple[int, int]) -> tuple[Finding, ...]:
    """``flat`` are quantities (chain, draw, quantity) with their names, of every so many-th chain and draw."""
    pick = slice(None, None, every[0]), slice(None, None, every[1])
    found = [*_run(result), *_weights(result), *_ladder(result), *_theta(result, every)]
    quantities = np.concatenate([flat, result.log_density[pick][..., None]], axis=2).astype(float)
    names = [*names, "the log density"]
    weight = result.weight[pick]
    weight = weight / weight.sum()
    seen = result.sightings
    if seen is not None and len(seen.energy) > 1:
        seen = seen._replace(label=seen.label[pick])
        mass = seen.mass(weight)
        found += _modes(seen, mass, seen.chains(result.region[pick] == 0), len(flat))
        for k in np.flatnonzero((mass > MASS) & (mass < 1 - MASS)):
            quantities = np.concatenate([quantities, (seen.label == k)[..., None].astype(float)], axis=2)
            names.append(f"the mass of the mode near {_short(seen.minimum[k])}")
    found += _agreement(quantities, names, weight)
    return tuple(sorted(found, key=lambda f: f.severity != ERROR))


def _short(position: np.ndarray) -> str:
    head = ", ".join(f"{x:.3g}" for x in position[:3])
    return f"({head}, ...)" if len(position) > 3 else f"({head})"


def _run(result: Result) -> Iterator[Finding]:
    settings, chains = result.settings, result.energy.shape[0]
    if settings["interrupted"]:
        made, asked = result.energy.shape[1], settings["draws"]
        yield Finding("interrupted", WARNING, f"Interrupted: {made} of {asked} draws were made.", made, "Run it again.")
    share = result.num_diverging / max(1, result.num_trajectories)
    if share > DIVERGENCES:
        yield Finding(
            "divergences",
            ERROR if share > DIVERGENCES_BAD else WARNING,
            f"{share:.2%} of trajectories diverged: parts of the posterior are too curved for the step size.",
            share,
            "Raise target_accept, or reparametrise.",
        )
    yield from _trajectories(result)
    if chains < 8 and result.warmup.search is not None:
        yield Finding(
            "few-chains",
            WARNING,
            f"With {chains} chains it cannot be seen whether they forget their mode at the top.",
            chains,
            "Run 8 or more; 32 cost little more time.",
        )


def _trajectories(result: Result) -> Iterator[Finding]:
    deepest = result.num_deepest / max(1, result.num_trajectories)
    if deepest > DEEPEST:
        yield Finding(
            "tree-depth",
            WARNING,
            f"{deepest:.1%} of trajectories were cut off at max_tree_depth, before they turned.",
            deepest,
            "The draws are right but dear: scale the parameters alike, or use metric='dense'.",
        )
    failed = result.num_failed / max(1, result.num_trajectories)
    if failed > FAILED:
        yield Finding(
            "implicit",
            ERROR if failed > FAILED_BAD else WARNING,
            f"{failed:.1%} of moves were rejected because an implicit step did not converge or does not reverse.",
            failed,
            "Raise target_accept, which shortens the steps, or take a smoother metric (a smaller alpha of SoftAbs).",
        )


def _weights(result: Result) -> Iterator[Finding]:
    weight = result.weight
    heaviest, efficiency = float(weight.max()), kish_efficiency(weight)
    if heaviest > HEAVIEST:
        sentence = f"One draw carries {heaviest:.0%} of the weight."
        yield Finding("weights", ERROR, sentence, heaviest, "Raise tune, so that theta is learnt better.")
    elif efficiency < EFFICIENCY:
        sentence = f"The weights leave {efficiency:.1%} of the draws."
        yield Finding("weights", WARNING, sentence, efficiency, "Raise tune, so that theta is learnt better.")


def _ladder(result: Result) -> Iterator[Finding]:
    trips, search = int(result.round_trips.sum()), result.warmup.search
    many = result.warmup.num_modes > 1 or search is None
    _, jumped = result.jumps
    if result.theta.shape[-1] > 1 and trips < TRIPS:
        bad = trips == 0 and many and jumped < 100
        yield Finding(
            "round-trips",
            ERROR if bad else WARNING,
            f"{trips or 'No'} round trips between the posterior and the top of the ladder were made while drawing, so "
            "modes may be missing" + (" and masses wrong." if many else "."),
            trips,
            "Raise tune and draws.",
        )
    if result.warmup.pilot is not None and result.warmup.pilot.stranded:
        yield Finding(
            "stranded",
            WARNING,
            f"{_chains(result.warmup.pilot.stranded)} could not come down from the start, and went on from that of "
            "another.",
            result.warmup.pilot.stranded,
            "Pass initvals nearer to the posterior; make sure that the log density does not overflow.",
        )
    if search is None:
        return
    if len(search.down) < RUNGS and not search.ran_away:
        yield Finding(
            "search",
            WARNING,
            f"tune = {result.settings['tune']} leaves {len(search.down)} rungs for the search: modes may be missing.",
            len(search.down),
            f"Raise tune to {math.ceil(1.2 * RUNGS / len(search.down) * result.settings['tune'] / 100) * 100} or more.",
        )
    if search.ran_away:
        yield Finding(
            "tails",
            WARNING,
            f"The tails are so heavy that chains run away above T = {search.hottest:.2g}; the ladder ends there.",
            search.hottest,
            "Give prior and likelihood apart, as a sahmc.Model, if there are modes further out.",
        )
    if result.warmup.lost:
        yield Finding(
            "lost",
            WARNING,
            f"{_chains(result.warmup.lost)} did not come back from the search for modes, and had to be put back.",
            result.warmup.lost,
            "Raise tune"
            + ("." if result.settings["prior"] else "; give prior and likelihood apart, as a sahmc.Model, if you can."),
        )
    if many and math.isinf(search.melting) and not result.settings["prior"]:
        yield Finding(
            "top",
            WARNING,
            f"Chains remember where they were even at T = {search.hottest:.3g}: the top, T = {result.warmup.top:.3g}, "
            "may be too low to join all modes.",
            search.hottest,
            "Raise tune, or give a TemperatureLadder with a higher top.",
        )


def _theta(result: Result, every: tuple[int, int]) -> Iterator[Finding]:
    """Under a frozen theta two halves of the chains must visit the levels alike."""
    chains, regions = result.energy.shape[0], result.theta.shape[-1]
    if regions == 1 or result.theta.ndim > 1 or result.settings["adapt"] != "tune" or chains < 4:
        return
    member = result.membership(every)
    halves = member[0::2], member[1::2]
    mean = [half.mean(axis=(0, 1)) for half in halves]
    error = [error_of_mean(half) for half in halves]
    gap = np.abs(np.log(np.maximum(mean[0], 1e-12) / np.maximum(mean[1], 1e-12)))
    noise = np.hypot(*(e / np.maximum(m, 1e-12) for e, m in zip(error, mean, strict=True)))
    worst = float(np.max(np.where(gap > 5 * noise, gap, 0.0)))
    if worst > DISAGREEMENT:
        yield Finding(
            "theta",
            WARNING,
            f"Two halves of the chains put theta {worst:.1f} apart: it has not settled.",
            worst,
            "Raise tune.",
        )
    home = float(member[..., 0].mean() / result.desired[0])
    if home < 0.1:
        yield Finding(
            "theta",
            ERROR if home < 0.01 else WARNING,
            f"Chains are at beta = 1 {home:.1%} as often as they should be: theta is far off.",
            home,
            "Raise tune.",
        )


def _modes(seen: Sightings, mass: np.ndarray, chains: np.ndarray, total: int) -> Iterator[Finding]:
    for k, expected in enumerate(seen.expected):
        near = _short(seen.minimum[k])
        if expected > EXPECTED and mass[k] < expected / 10:
            yield Finding(
                "modes",
                WARNING,
                f"The mode near {near} should hold {expected:.2f} of the mass by its depth and width, but in the draws "
                f"it holds {mass[k]:.2g}.",
                float(expected),
                "Chains may not find their way into it: raise tune and draws, and leave jumps on.",
            )
    rare = np.flatnonzero((mass >= MASS) & (chains < total / 4))
    rare = rare[np.lexsort([-mass[rare], seen.known[rare]])]  # those found late first, then by mass
    for k in rare[:NAMED]:
        late = "" if seen.known[k] else ", and found only while draws were made, so its mass is not known"
        yield Finding(
            "modes",
            WARNING if seen.known[k] else ERROR,
            f"The mode near {_short(seen.minimum[k])}, of mass {mass[k]:.2f}, was seen by {chains[k]} of {total} "
            f"chains{late}.",
            float(chains[k]),
            "Raise draws and tune, or start some chains there with initvals.",
        )
    rest = rare[NAMED:]
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
    return f"{number} chain" + "s" * (number != 1)


def _agreement(values: np.ndarray, names: list[str], weight: np.ndarray) -> Iterator[Finding]:
    """Weighted R-hat, effective sample size and drift of each quantity (chain, draw, quantity); the worst is told."""
    mean, error = weighted_mean(values, weight)
    spread = weighted_variance(values, weight)
    moves = spread > 1e-12 * mean**2
    if not moves.any():
        yield Finding("stuck", ERROR, "Nothing moved.", 0.0, "Check the log density and where it starts.")
        return
    rhat = weighted_rhat(values, weight)
    worst = int(np.argmax(rhat))
    if rhat[worst] > RHAT:
        yield Finding(
            "rhat",
            ERROR if rhat[worst] > RHAT_BAD else WARNING,
            f"Chains disagree: weighted R-hat is {rhat[worst]:.2f} for {names[worst]}"
            + (
                f" (above {RHAT} for {int((rhat > RHAT).sum())} of {len(names)} quantities)."
                if (rhat > RHAT).sum() > 1
                else "."
            ),
            float(rhat[worst]),
            "Raise draws and tune.",
        )
    ess = np.where(moves, spread / np.where(error > 0, error, 1.0) ** 2, np.inf)
    worst = int(np.argmin(ess))
    if ess[worst] < ESS:
        yield Finding(
            "budget",
            WARNING,
            f"The effective sample size is {ess[worst]:.0f} for {names[worst]}; standard errors need about {ESS}.",
            float(ess[worst]),
            f"Raise draws {math.ceil(ESS / max(ess[worst], 1)) + 1}-fold.",
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
    if drift[worst] > DRIFT:
        yield Finding(
            "drift",
            ERROR if drift[worst] > DRIFT_BAD else WARNING,
            f"The two halves of the draws differ by {drift[worst]:.0f} standard errors in {names[worst]}.",
            float(drift[worst]),
            "Raise tune.",
        )
