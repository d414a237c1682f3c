"""Runs that go on: to more draws, until a precision is reached, or until a limit comes."""

import copy
import dataclasses
import inspect
import pickle
import time
import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from plans import plan_for

import sahmc
from sahmc.checkpoint.journal import RESULT
from sahmc.engine import limits as limits_module
from sahmc.engine.limits import FEWEST_DRAWS, Limits
from sahmc.results.precision import Shortfall
from sahmc.sampling import rounds
from sahmc.warmup.warm_start import known_from, may_serve

pytestmark = pytest.mark.filterwarnings("ignore:sahmc found problems")
SHORT = dict(tune=100, chains=8, random_seed=1, progressbar=False)
START = jnp.array([-4.0, -4.0])


def log_density(x):
    return jnp.logaddexp(-0.5 * jnp.sum((x + 4) ** 2), -0.5 * jnp.sum((x - 4) ** 2))


def run(draws, **options):
    return sahmc.sample(log_density, START, draws=draws, **SHORT | options)


def words(result):
    """The findings on limits, in one line."""
    return " ".join(finding.sentence for finding in result.findings if finding.code == "limit")


def bits(result):
    return [np.ascontiguousarray(x).tobytes() for x in (result.draws, result.log_weight, result.theta, result.region)]


@pytest.fixture(scope="module")
def short():
    return run(40)


@pytest.fixture(scope="module")
def longer():
    return run(120)


def test_more_draws_are_those_of_a_longer_run(short, longer):
    once, twice = short.extend(80, progressbar=False), short.extend(30, progressbar=False).extend(50, progressbar=False)
    assert bits(once) == bits(twice) == bits(longer) != bits(short)
    assert once.findings == longer.findings and once.settings["draws"] == 120
    assert np.array_equal(once.mode_assignment.label, longer.mode_assignment.label)
    assert short.log_weight.shape == (8, 40)


def test_a_run_in_a_folder_goes_on_there(short, longer, tmp_path):
    folder = tmp_path / "run"
    assert bits(run(40, checkpoint=folder)) == bits(short)
    assert bits(sahmc.resume(folder, draws=80, progressbar=False).extend(40, progressbar=False)) == bits(longer)
    assert bits(run(120, checkpoint=folder)) == bits(longer)
    already = "has 120 draws of each chain already, and all of them .* not 40"
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*already, and all of them")
        assert bits(sahmc.resume(folder, progressbar=False)) == bits(longer)  # what was asked for last
    with pytest.warns(UserWarning, match=already):
        assert bits(run(40, checkpoint=folder)) == bits(longer)


def test_what_was_loaded_cannot_go_on(short):
    with pytest.raises(ValueError, match="extend needs the run that made the draws"):
        dataclasses.replace(short, live=None).extend(10)
    with pytest.raises(ValueError, match="draws must be"):
        short.extend(0)


def test_a_run_goes_on_until_it_is_as_precise_as_was_asked(short):
    asked = sahmc.Precision(mass=0.02, ess=900, log_evidence=0.05)
    assert asked.shortfalls(short.record)
    result = run(40, until=asked)
    assert result.log_weight.shape[1] > 40 and not asked.shortfalls(result.record)
    assert "limit" not in {finding.code for finding in result.findings}
    assert max(mode.mcse for mode in result.modes()) <= 0.02 and result.ess().min() >= 900
    assert bits(result) == bits(run(result.log_weight.shape[1]))  # it is no other run than one of so many draws


def test_gradients_and_time_are_kept_to():
    most = 60_000
    result = run(40, until=sahmc.Precision(mass=1e-4), max_gradients=most)
    told = [finding for finding in result.findings if finding.code == "limit"]
    assert 0.8 * most < result.num_gradients <= most
    assert "not reached with max_gradients = 60,000: the standard error of the mass of mode" in told[0].sentence
    few = run(1000, max_gradients=1)
    assert few.log_weight.shape[1] == FEWEST_DRAWS and f"{FEWEST_DRAWS} of 1,000 draws" in words(few)
    began = time.monotonic()
    late = run(10**6, max_time=4)
    assert late.log_weight.shape[1] < 10**6 and "max_time = 4 s" in words(late)
    assert time.monotonic() - began > 3  # and not at once


def test_a_run_that_was_cut_short_is_complete_and_may_go_on(tmp_path):
    folder = tmp_path / "run"
    cut = run(60, checkpoint=folder, max_gradients=1)
    assert bits(run(60, checkpoint=folder, max_gradients=1)) == bits(cut)
    assert bits(cut.extend(20, progressbar=False)) == bits(run(30))
    raised = run(60, checkpoint=folder, max_gradients=10**6)
    assert bits(raised) == bits(run(60)) and not words(raised)


def test_gradients_that_are_scarce_are_spent_and_not_exceeded(short):
    warmup = sum(short.record.warmup.gradients.values())
    each = short.record.counts.gradients / 40
    cut = run(1000, max_gradients=warmup + 300 * each)
    spent = warmup + cut.record.counts.gradients
    assert warmup + 290 * each < spent < warmup + 305 * each and "of 1,000 draws" in words(cut)


def test_a_run_of_scarce_gradients_that_died_comes_to_the_same_end(short, tmp_path):
    """It dies when what a draw costs was measured already; measured again, it would allow a few more."""
    most = sum(short.record.warmup.gradients.values()) + 200 * short.record.counts.gradients / 40
    moves = []
    whole = run(1000, max_gradients=most, callback=lambda told: moves.append(told.advance * (told.stage == "draw")))
    left = [0.7 * sum(moves)]

    def die(told):
        left[0] -= told.advance * (told.stage == "draw")
        if left[0] < 0:
            raise RuntimeError("out of power")

    with pytest.raises(RuntimeError, match="out of power"):
        run(1000, max_gradients=most, checkpoint=tmp_path / "run", callback=die)
    assert bits(run(1000, max_gradients=most, checkpoint=tmp_path / "run")) == bits(whole)


@pytest.mark.parametrize("limits", [{}, {"max_gradients": 90_000}, {"max_gradients": 31_000}, {"max_time": 1000}])
def test_a_run_that_dies_in_any_round_comes_to_the_same_end_at_the_same_cost(limits, tmp_path):
    """Looks for modes between rounds cost gradients, which count although a resumed run does not repeat them."""
    asked, moves = {"until": sahmc.Precision(mass=0.01), **limits}, []
    whole = run(40, **asked, callback=lambda told: moves.append(told.advance * (told.stage == "draw")))
    for number, share in enumerate((0.1, 0.35, 0.6, 0.95)):
        left = [share * sum(moves)]

        def die(told, left=left):
            left[0] -= told.advance * (told.stage == "draw")
            if left[0] < 0:
                raise RuntimeError("out of power")

        folder = tmp_path / str(number)
        with pytest.raises(RuntimeError, match="out of power"):
            run(40, **asked, checkpoint=folder, callback=die)
        again = run(40, **asked, checkpoint=folder)
        assert bits(again) == bits(whole) and again.num_gradients == whole.num_gradients
        assert again.findings == whole.findings
        assert bits(run(40, **asked, checkpoint=folder)) == bits(whole)  # and it is complete


def test_a_run_that_was_interrupted_in_a_folder_goes_on_as_far_as_is_asked(longer, tmp_path):
    def press(progress):
        if progress.stage == "draw":
            raise KeyboardInterrupt

    cut = run(10**5, checkpoint=tmp_path / "run", callback=press)
    rows = cut.log_weight.shape[1]
    assert rows < 120
    assert bits(cut.extend(120 - rows, progressbar=False)) == bits(longer)


def test_what_no_number_of_draws_would_do_ends_at_once(monkeypatch):
    monkeypatch.setattr(sahmc.Precision, "shortfalls", lambda self, record: [Shortfall("it", np.nan, 1.0, np.inf)])
    result = run(40, until=sahmc.Precision(ess=1))
    assert result.log_weight.shape[1] == 40 and "no number of draws would do" in words(result)


def test_a_run_without_limits_ends_nevertheless(monkeypatch):
    monkeypatch.setattr(rounds, "MOST_DRAWS", 2)
    result = run(40, until=sahmc.Precision(mass=1e-6))
    assert result.log_weight.shape[1] == 80 and "2 times as many draws as at first" in words(result)


def test_the_deadline_leaves_time_to_look_at_the_draws():
    limits = Limits(max_time=100.0, began=0.0)
    assert limits.deadline == 95.0
    limits.reserve = 7.0
    assert limits.deadline == 93.0 and limits.is_late
    assert Limits().deadline == np.inf and not Limits().is_late


@pytest.mark.parametrize(("pace", "looking"), [(0.01, 2.0), (0.001, 8.0), (1e-5, 50.0)])
def test_draws_and_a_look_at_all_of_them_fit_into_the_time(monkeypatch, pace, looking):
    monkeypatch.setattr(limits_module.time, "monotonic", lambda: 20.0)
    limits = Limits(max_time=100.0, began=0.0)
    limits.keep_time(1000, pace, looking)
    more = (limits.deadline - 20.0) / pace
    look = looking * (1000 + more) / 1000
    assert more > 0 and limits.deadline + look < 100 < limits.deadline + 2 * look


def test_there_may_be_no_time_for_more(monkeypatch):
    monkeypatch.setattr(limits_module.time, "monotonic", lambda: 90.0)
    limits = Limits(max_time=100.0, began=0.0)
    limits.keep_time(1000, 0.01, 9.0)
    assert limits.is_late


def test_ctrl_c_at_the_end_of_a_round_ends_the_run():
    def press(progress):
        if progress.stage == "draw" and progress.done == progress.total:
            raise KeyboardInterrupt

    found = run(40, until=sahmc.Precision(mass=1e-4), callback=press)
    assert found.log_weight.shape[1] == 40 and "was not reached before Ctrl-C" in words(found)
    scarce = run(1000, max_gradients=found.num_gradients, callback=press)
    assert scarce.log_weight.shape[1] < 500


def test_what_cannot_be_asked_is_refused():
    sample = inspect.unwrap(sahmc.sample)
    with pytest.raises(ValueError, match="until must be a Precision"):
        sample(log_density, START, until=400)
    with pytest.raises(ValueError, match="max_time must be a positive number"):
        sample(log_density, START, max_time=0)
    with pytest.raises(ValueError, match="max_gradients must be a positive number"):
        sample(log_density, START, max_gradients="many")


def test_a_precision_asks_for_something():
    with pytest.raises(ValueError, match="a Precision asks for something"):
        sahmc.Precision()
    with pytest.raises(ValueError, match="ess must be a positive number"):
        sahmc.Precision(ess=-1)


def test_another_posterior_starts_from_a_result(short):
    """Shifted by a little, and its density by a constant: ladder, metric and theta serve."""
    moved = sahmc.sample(lambda x: log_density(x - 0.5) + 7, short, draws=400, **SHORT)
    assert moved.settings["warm_start"] and not short.settings["warm_start"]
    assert moved.record.warmup.gradients["climb"] == 0
    mean, error = moved.expectation()
    assert (np.abs(mean - 0.5) < 4 * error).all()
    found = moved.log_evidence()
    assert abs(found.mean - (7 + np.log(4 * np.pi))) < 4 * found.mcse
    loaded = dataclasses.replace(short, live=None)
    cold = sahmc.sample(log_density, loaded, draws=10, **SHORT)
    assert not cold.settings["warm_start"]
    with pytest.raises(ValueError, match=r"x \(2,\) there, x \(3,\) here"):
        sahmc.sample(sahmc.Model(log_density=log_density, start=lambda key: jnp.zeros(3)), short, **SHORT)


def test_a_warm_start_in_a_folder_goes_on_there(short, tmp_path):
    """What the earlier run knew is stored with the arguments."""
    longer = sahmc.sample(log_density, short, draws=30, **SHORT)
    begun = sahmc.sample(log_density, short, draws=10, checkpoint=tmp_path / "run", **SHORT)
    (tmp_path / "run" / RESULT).unlink()
    assert bits(sahmc.resume(tmp_path / "run", progressbar=False)) == bits(begun)
    assert bits(begun.extend(10, progressbar=False).extend(10, progressbar=False)) == bits(longer)
    again = sahmc.resume(tmp_path / "run", progressbar=False)
    assert again.settings["warm_start"] and bits(again) == bits(longer)


def test_a_warm_start_asks_for_a_run_of_the_same_kind(short):
    warm, plan = short.live.warm, plan_for(sahmc.Model(log_density=log_density))
    known = known_from(warm, False, np.zeros(8))
    apart = dataclasses.replace(plan, has_prior=True)
    assert may_serve(known, plan) and may_serve(known, apart)
    heat = known._replace(kernel=dataclasses.replace(known.kernel, reference=None))
    assert may_serve(heat, plan) and not may_serve(heat, apart)
    assert not may_serve(heat._replace(has_prior=True), plan)
    assert not may_serve(known, dataclasses.replace(plan, theta="per-chain"))
    own = warm.state.sahmc.theta
    state = warm.state._replace(sahmc=warm.state.sahmc._replace(theta=own._replace(theta=own.theta[None])))
    assert known_from(warm._replace(state=state), False, np.zeros(8)) is None
    assert known_from(warm._replace(prior_mass=(0.0, 0.1)), False, np.zeros(8)) is None


def test_names_of_axes_stay(short):
    named = short.assign_coords({"axis": ["east", "north"]}, {"x": ["axis"]})
    assert list(named.extend(10, progressbar=False).summary().to_dataframe().index) == ["x[east]", "x[north]"]


def test_a_copy_has_the_run(short):
    for again in (copy.copy(short), copy.deepcopy(short)):
        assert again is not short and again.record is short.record and again.live is short.live
    with pytest.raises(ValueError, match=r"a result that was loaded, or came from another process.*checkpoint="):
        pickle.loads(pickle.dumps(short)).extend(10)


def test_nothing_of_the_warm_up_depends_on_the_number_of_draws():
    short, long = (plan_for(sahmc.Model(log_density=log_density), draws=draws) for draws in (10, 1000))
    budgets = ("probes", "search_batches", "pilot_moves", "climb_moves", "reference_moves")
    assert all(getattr(short, name) == getattr(long, name) for name in budgets)
    assert float(short.gain_used.t0) == float(long.gain_used.t0)
    assert {**short.stages, "draw": 0} == {**long.stages, "draw": 0} and short.stages["draw"] < long.stages["draw"]


def test_an_error_of_the_prior_that_no_draws_make_smaller_counts(short):
    """The log evidence is as precise as it is said to be, the mass of the prior included."""
    error = float(short.log_evidence().mcse)
    asked = sahmc.Precision(log_evidence=1.5 * error)
    assert not asked.shortfalls(short.record)
    (lacking,) = asked.shortfalls(dataclasses.replace(short.record, prior_mass=(0.0, 2 * error)))
    assert np.isclose(lacking.value, np.hypot(error, 2 * error)) and lacking.factor == np.inf
    (lacking,) = asked.shortfalls(dataclasses.replace(short.record, prior_mass=(0.0, 1.2 * error)))
    assert np.isclose(lacking.factor, 1 / (1.5**2 - 1.2**2))
