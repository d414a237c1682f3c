"""Findings are there when something is wrong, and not when nothing is."""

import dataclasses
import inspect
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

import sahmc
from sahmc.results.findings import ladder
from sahmc.results.findings.agreement import (
    DRIFT_WARNING,
    LEAST_ESS,
    RHAT_WARNING,
    check_agreement,
    check_moved,
    check_weights,
)
from sahmc.results.findings.examine import examine
from sahmc.results.findings.ladder import check_evidence, check_ladder
from sahmc.results.findings.listing import Findings
from sahmc.results.findings.modes import check_modes
from sahmc.results.findings.moves import check_moves
from sahmc.results.records import ModeAssignment

NAMES = ["one", "two"]


def draws(chains=16, num=1000, rho=0.0, seed=0):
    """AR(1) draws of two independent standard normals."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(chains, num, 2))
    values = np.empty_like(noise)
    values[:, 0] = noise[:, 0]
    for t in range(1, num):
        values[:, t] = rho * values[:, t - 1] + np.sqrt(1 - rho**2) * noise[:, t]
    return values


def codes(values, weight=None):
    weight = np.full(values.shape[:2], 1 / (values.shape[0] * values.shape[1])) if weight is None else weight
    return {f.code: f for f in check_agreement(values, NAMES, weight)}


@pytest.mark.parametrize("seed", range(10))
def test_good_draws_are_not_blamed(seed):
    assert codes(draws(rho=0.5, seed=seed)) == {}
    weight = np.random.default_rng(seed).gamma(1.0, size=(16, 1000))
    assert codes(draws(rho=0.5, seed=seed), weight / weight.sum()) == {}


def test_chains_that_differ_are_named():
    values = draws()
    values[:8, :, 1] += 1.0
    found = codes(values)
    assert (
        found["rhat"].number > RHAT_WARNING and "two" in found["rhat"].sentence and found["rhat"].severity == "warning"
    )
    values[:8, :, 1] += 5.0
    assert codes(values)["rhat"].severity == "error"


def test_chains_that_differ_only_in_weightless_draws_are_not_blamed():
    values, weight = draws(), np.full((16, 1000), 1 / 8000)
    values[8:, :, 1] += 50.0
    weight[8:] = 1e-12
    assert "rhat" not in codes(values, weight / weight.sum())


def test_few_effective_draws_are_told_with_what_to_do():
    found = codes(draws(chains=4, num=200, rho=0.97))["budget"]
    assert found.number < LEAST_ESS and "Raise draws" in found.advice


def test_a_drift_that_all_chains_share_is_seen():
    """R-hat compares chains and cannot see it if it is small; thousands of draws make it many standard errors."""
    values = draws(chains=64)
    values[:, :500, 0] += 0.1
    found = codes(values)
    assert found["drift"].number > DRIFT_WARNING and "one" in found["drift"].sentence and "rhat" not in found


def test_a_half_without_any_weight_is_an_error():
    weight = np.full((16, 1000), 1 / 8000)
    weight[:, :500] = 0.0
    found = codes(draws(), weight)["drift"]
    assert found.severity == "error" and "one half" in found.sentence


@pytest.mark.parametrize(("num", "heaviest", "found"), [(8, 0.14, []), (8, 0.6, ["error"]), (1000, 0.14, ["error"])])
def test_the_heaviest_draw_is_measured_by_an_equal_share(num, heaviest, found):
    weight = np.full((4, num // 4), (1 - heaviest) / (num - 1))
    weight[0, 0] = heaviest
    assert [f.severity for f in inspect.unwrap(check_weights)(SimpleNamespace(weight=weight))] == found


def test_what_does_not_move_is_an_error():
    assert codes(np.ones((4, 50, 2)))["stuck"].severity == "error"


def test_a_coordinate_that_never_moves_is_an_error():
    """In units 1e38 apart a run moved in one coordinate alone, and nothing said so."""
    values, names = np.random.default_rng(0).normal(size=(4, 50, 3)), ["a", "b", "c"]
    assert not list(check_moved(values, names))
    values[..., 1] = 2e30
    (found,) = check_moved(values, names)
    assert found.code == "stuck" and found.severity == "error" and found.sentence.startswith("b has the same value")
    values[0, 0, 1] = 2.1e30
    assert not list(check_moved(values, names))


@pytest.mark.parametrize(
    ("mass", "chains", "known", "severity"),
    [(0.3, 2, True, "warning"), (0.3, 2, False, "error"), (0.3, 30, False, None), (0.001, 1, False, None)],
)
def test_modes_that_few_chains_saw(mass, chains, known, severity):
    masses = np.array([1 - mass, mass])
    found = check_modes(assignment([True, known], masses), masses, np.array([32, chains]), 32)
    assert [f.severity for f in found] == ([severity] if severity else [])


def assignment(known, expected):
    return ModeAssignment(np.eye(2), np.zeros(2), np.array(known), np.array(expected), np.zeros((32, 10), np.int8))


def test_a_mode_whose_depth_and_width_promise_more_than_it_holds():
    """It is an error if no chain was ever there: the evidence is then without support."""
    seen = assignment([True, True], [0.4, 0.6])
    assert [f.severity for f in check_modes(seen, np.array([1.0, 0.0]), np.array([32, 0]), 32)] == ["error"]
    assert [f.severity for f in check_modes(seen, np.array([0.995, 0.005]), np.array([32, 9]), 32)] == ["warning"]
    light = assignment([True, True], [0.93, 0.07])
    assert [f.severity for f in check_modes(light, np.array([1.0, 0.0]), np.array([32, 0]), 32)] == ["error"]
    assert not list(check_modes(light, np.array([0.998, 0.002]), np.array([32, 9]), 32))


def test_chains_whose_means_differ_are_not_hidden_by_weights():
    """Weights that leave a twentieth of the draws dilute R-hat of weighted values to nothing."""
    values = draws(chains=16, num=400, rho=0.9)
    values[..., 0] += 1.5 * np.random.default_rng(1).normal(size=(16, 1))
    weight = np.random.default_rng(2).pareto(1.2, size=(16, 400)) + 1e-3
    found = codes(values, weight / weight.sum())
    assert "rhat" in found and "one" in found["rhat"].sentence
    assert "rhat" not in codes(draws(chains=16, num=400, rho=0.3), weight / weight.sum())


def moved(result, **counts):
    return dataclasses.replace(result.record, counts=result.record.counts._replace(**counts))


def test_divergences_count_at_the_posterior_only(result):
    """On hot levels they cost acceptance there; told of them, a user would reparametrise a linear regression."""
    cold = result.record.counts.cold
    hot = moved(result, diverging=result.record.counts.trajectories // 2, cold_diverging=0)
    assert not [f for f in check_moves(hot) if f.code == "divergences"]
    found = [f for f in check_moves(moved(result, cold_diverging=cold // 20)) if f.code == "divergences"]
    assert [f.severity for f in found] == ["warning"]


def test_a_run_that_was_interrupted_can_go_on(result):
    settings = {**result.settings, "interrupted": True, "draws": 200_000}
    found = {f.code: f for f in check_moves(dataclasses.replace(result.record, settings=settings))}["interrupted"]
    assert "400 of 200,000 draws" in found.sentence and "Result.extend" in found.advice


def test_one_chain_is_spoken_of_as_one(result):
    draws = result.record.draws
    first = {name: value[:1] for name, value in vars(draws).items() if isinstance(value, np.ndarray)}
    alone = dataclasses.replace(draws, leaves=tuple(leaf[:1] for leaf in draws.leaves), **first)
    found = {f.code: f for f in check_moves(dataclasses.replace(result.record, draws=alone))}["few-chains"]
    assert found.sentence == "With 1 chain it cannot be seen whether it forgets its mode at the top."


@pytest.mark.parametrize(
    ("trips", "jumps", "short", "severity"),
    [
        (3, 0, False, "warning"),
        (0, 0, False, "error"),
        (0, 100, False, "warning"),
        (0, 800, False, None),
        (0, 0, True, None),
    ],
)
def test_round_trips_are_asked_for_where_there_is_a_way(result, monkeypatch, trips, jumps, short, severity):
    monkeypatch.setattr(ladder, "_short_ladder", lambda record: short)
    record = dataclasses.replace(moved(result, jumps_accepted=jumps), round_trips=np.array([trips] + 7 * [0]))
    found = [f.severity for f in check_ladder(record) if f.code == "round-trips"]
    assert found == ([severity] if severity else [])


def test_chains_put_back_on_the_way_are_a_note(result):
    record = dataclasses.replace(result.record, warmup=dataclasses.replace(result.record.warmup, lost=3))
    assert not [f for f in check_ladder(record) if f.code == "lost"]
    assert "3 chains did not come back" in repr(record.warmup)


def test_a_constant_that_rounds_the_energy_away():
    """1e7 in 32 bits: neighbouring numbers are a whole nat apart, and masses were nine standard errors off."""
    result = sahmc.sample(
        lambda x: -0.5 * jnp.sum(x**2) - 1e7, jnp.zeros(2), draws=50, tune=100, random_seed=0, progressbar=False
    )
    found = {f.code: f for f in result.findings}["precision"]
    assert found.severity == "error" and found.number == 1.0 and "jax_enable_x64" in found.advice
    small = sahmc.sample(
        lambda x: -0.5 * jnp.sum(x**2) - 1e4, jnp.zeros(2), draws=50, tune=100, random_seed=0, progressbar=False
    )
    assert "precision" not in {f.code for f in small.findings}


def test_evidence_is_not_asked_of_a_run_without_a_prior(result):
    assert list(check_evidence(result.record)) == []


def test_findings_print_as_sentences_and_escape(result):
    bad = "<script>alert(1)</script>"
    some = Findings(
        (sahmc.Finding("rhat", "error", f"Chains disagree in {bad} {'very ' * 30}much.", 2.0, "Raise it."),)
    )
    assert str(some).startswith(
        "Do not trust this run: 1 error.\nerror: Chains disagree"
    ) and "Raise it. [rhat]" in str(some)
    assert max(map(len, str(some).splitlines())) <= 80
    assert "<script" not in some._repr_html_() and "&lt;script&gt;" in some._repr_html_()
    assert str(Findings()) == "No findings." and result.findings == result.record.findings
    assert Findings((some[0]._replace(severity="warning"),) * 2).verdict == "2 warnings."


def test_findings_speak_of_names(result):
    """Of variables with their coords, and of modes by their label and what they differ in."""
    named = result.assign_coords({"axis": ["east", "north"]}, {"x": ["axis"]}).record
    label = np.broadcast_to(np.arange(8)[:, None] // 7, result.energy.shape)  # the last chain alone sees mode 1
    modes = result.mode_assignment._replace(label=label, known=np.ones(3, bool), expected=np.zeros(3))
    found = examine(dataclasses.replace(named, modes=modes), result.draws)
    told = next(f.sentence for f in found if f.code == "modes")
    assert told.startswith("Mode 1 (near ") and "was seen by 1 of 8 chains" in told
    far = {"x": result.draws["x"] + 50 * (np.arange(8) // 4)[:, None, None] * np.array([0, 1]), "y": result.draws["y"]}
    rhat = next(f for f in examine(named, far) if f.code == "rhat")
    assert "x[north]" in rhat.sentence
