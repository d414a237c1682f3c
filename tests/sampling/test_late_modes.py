"""A mode that only the draws show is no end: all is run again, knowing it."""

import dataclasses
import signal

import jax.numpy as jnp
import numpy as np
import pytest

import sahmc
from sahmc.engine.plan import Plan
from sahmc.results.findings.modes import missed_modes
from sahmc.sampling import outcome
from sahmc.testing.targets import two_widths

TARGET = two_widths(10, 0.3, "wide")


def run(**options):
    start = jnp.asarray(TARGET.start, jnp.float32)
    return sahmc.sample(TARGET.log_density, start, draws=300, tune=300, random_seed=1, progressbar=False, **options)


@pytest.fixture
def needle_missed(monkeypatch):
    """Warm-ups look at no probes, and miss the needle; draws of a first pass are said to have shown it."""
    monkeypatch.setattr(Plan, "probes", 0)
    needle = np.zeros((1, 10), np.float32)
    monkeypatch.setattr(outcome, "missed_modes", lambda record: needle[: 1 - record.warmup.late])


def test_a_mode_that_draws_have_shown_is_known_in_a_second_pass(needle_missed, tmp_path, monkeypatch):
    twice = run(checkpoint=tmp_path / "run")
    assert twice.warmup.late == 1 and twice.warmup.num_modes == 2
    assert TARGET.worst_z(twice) < 4 and "draws showed 1 more mode" in twice.warmup.notes[0]
    again = run(checkpoint=tmp_path / "run")
    assert np.array_equal(again.draws, twice.draws) and again.num_gradients == twice.num_gradients
    monkeypatch.setattr(outcome, "missed_modes", lambda record: np.zeros((0, 10)))
    once = run()
    assert once.warmup.late == 0 and once.num_gradients < 0.6 * twice.num_gradients
    assert TARGET.worst_z(once) > 20  # the needle, with no second pass, is missed


def test_ctrl_c_in_the_second_pass_returns_the_first(needle_missed, monkeypatch):
    usual = outcome.warm_up

    def press(context, state, save, shown):
        if len(shown):
            raise KeyboardInterrupt
        return usual(context, state, save, shown)

    monkeypatch.setattr(outcome, "warm_up", press)
    found = run()
    assert found.warmup.late == 0 and found.draws.shape == (32, 300, 10)


@pytest.fixture
def ctrl_c():
    """Ctrl-C as it is at a terminal; a process that was started in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_before_the_second_pass_prevents_it(needle_missed, ctrl_c, monkeypatch):
    usual = outcome.Live.find_modes

    def press(live, draws):
        signal.raise_signal(signal.SIGINT)
        return usual(live, draws)

    monkeypatch.setattr(outcome.Live, "find_modes", press)
    monkeypatch.setattr(outcome.Run, "again", lambda run, key, before: pytest.fail("there was a second pass"))
    assert [finding.code for finding in run().findings] == ["interrupted"]


def test_modes_are_missed_if_they_were_unknown_heavy_and_rarely_seen():
    record = run().record
    seen, other = record.modes, 1 - int(record.weight[record.modes.label == 0].sum() > 0.5)
    label = np.array(seen.label)
    label[:] = 1 - other
    label[0] = other  # one chain of 32 was there
    late = seen._replace(label=label, known=np.arange(len(seen.known)) != other)
    assert np.array_equal(missed_modes(dataclasses.replace(record, modes=late)), seen.minimum[[other]])
    known = late._replace(known=np.ones_like(late.known))
    assert not len(missed_modes(dataclasses.replace(record, modes=known)))
    assert not len(missed_modes(dataclasses.replace(record, modes=None)))
