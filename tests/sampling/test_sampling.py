"""What a user of sample() relies on."""

import dataclasses
import signal
import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from records import differences

import sahmc
from sahmc.checkpoint.journal import DiskJournal
from sahmc.engine import loop as run
from sahmc.engine.live import Live
from sahmc.models.model import Labels
from sahmc.sampling import outcome


def normal(x):
    return -0.5 * jnp.sum(x**2)


QUICK = {"draws": 40, "tune": 60, "chains": 4, "progressbar": False}


def quick(model=normal, initvals=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return sahmc.sample(
            model, jnp.zeros(3) if initvals is None else initvals, **{**QUICK, "random_seed": 0, **options}
        )


def same(one, two):
    return all(np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (one.draws, two.draws)), strict=True))


def test_shapes_and_immutability():
    result = quick()
    assert result.draws.shape == (4, 40, 3)
    assert result.draws.dtype == result.theta.dtype == result.energy.dtype == jnp.float32
    assert all(
        getattr(result, name).shape == (4, 40)
        for name in ("energy", "region", "log_weight", "diverging", "log_density")
    )
    assert np.isclose(np.exp(result.log_weight).sum(), 1, atol=1e-5)
    assert np.allclose(quick(reference=False).energy, -quick(reference=False).log_density)
    assert result.theta.shape == result.visits.shape == result.desired.shape == result.step_size.shape
    assert result.resample(100, 0).shape == (100, 3)
    with pytest.raises(ValueError, match="read-only"):
        result.draws[0, 0, 0] = 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.theta = None
    result.settings["random_seed"] = 1
    assert result.settings["random_seed"] == 0  # what was changed is a copy


def test_positions_are_any_pytree_of_floats():
    def log_density(p):
        return -0.5 * (p["scale"] - 1.0) ** 2 - 0.5 * jnp.sum((p["weights"] - 2.0) ** 2)

    start = {"scale": 0.0, "weights": np.zeros((2, 3))}
    result = quick(log_density, start, draws=500, tune=500, chains=8, tilt="none")
    assert result.draws["scale"].shape == (8, 500) and result.draws["weights"].shape == (8, 500, 2, 3)
    found = result.expectation()
    assert abs(found.mean["scale"] - 1) < 4 * found.mcse["scale"]
    assert (np.abs(found.mean["weights"] - 2) < 4.5 * found.mcse["weights"]).all()
    both = result.expectation(lambda p: {"sum": jnp.sum(p["weights"]), "product": p["scale"] * p["weights"][0]})
    assert abs(both.mean["sum"] - 12) < 4 * both.mcse["sum"] and both.mcse["product"].shape == (3,)
    assert result.resample(10)["weights"].shape == (10, 2, 3)


def test_double_precision_goes_all_the_way():
    with jax.enable_x64(True):
        result = quick(initvals=jnp.zeros(3, jnp.float64), draws=500, tune=400, chains=8)
        found = result.expectation()
    assert result.draws.dtype == result.theta.dtype == result.energy.dtype == jnp.float64
    assert (np.abs(found.mean) < 4 * found.mcse).all()


@pytest.mark.parametrize("chains", [1, 1000])
def test_few_and_many_chains(chains):
    result = quick(chains=chains, draws=400 if chains == 1 else 20, tune=400 if chains == 1 else 100)
    found = result.expectation()
    assert result.draws.shape[0] == chains and (np.abs(found.mean) < 4 * found.mcse).all()


def test_the_seed_is_recorded_and_gives_the_same_bits():
    unnamed = quick(random_seed=None)
    again = quick(random_seed=unnamed.settings["random_seed"])
    assert same(unnamed, again)
    assert not same(unnamed, quick(random_seed=unnamed.settings["random_seed"] + 1))
    assert same(quick(random_seed=np.random.default_rng(5)), quick(random_seed=np.random.default_rng(5)))
    assert same(quick(random_seed=jax.random.key(9)), quick(random_seed=9))


def test_counts_of_numpy_are_counts():
    counts = {"draws": np.int64(20), "tune": np.int32(40), "chains": np.int16(4), "thin": np.uint8(1)}
    result = quick(**counts)
    assert result.energy.shape == (4, 20) and same(result, quick(draws=20, tune=40, chains=4))
    assert all(type(result.settings[name]) is int for name in counts)
    with pytest.raises(ValueError, match=r"fn must be a function of one draw, an array, x"):
        result.expectation(lambda draw: draw["mu"])
    with pytest.raises(ValueError, match=r"got 'regression\(x, y\)'.*model_args"):
        quick(regression)


def regression(x, y):
    return jnp.sum(x - y)


def test_chunks_change_no_bit(monkeypatch):
    whole = quick(thin=3)
    monkeypatch.setattr(run, "CHUNK_SECONDS", 0.0)
    monkeypatch.setattr(run, "CHUNK_DRAWS", 7)
    assert same(whole, quick(thin=3))


def test_thinning_keeps_every_kth_draw():
    kernel = sahmc.HMC(0.5, 3, metric="unit")
    options = {"kernel": kernel, "tilt": "none", "tune": 10}
    assert np.array_equal(quick(draws=60, **options).draws[:, 4::5], quick(draws=12, thin=5, **options).draws)


def test_chains_do_not_depend_on_how_many_there_are():
    """One theta a chain: chain 0 of 2 is chain 0 of 6."""
    options = {
        "kernel": sahmc.HMC(0.5, (1, 3), metric="unit"),
        "tilt": "step",
        "partition": sahmc.EnergyPartition([1.0, 2.0, 4.0]),
        "theta": "per-chain",
        "adapt": "always",
    }
    few, many = quick(chains=2, **options), quick(chains=6, **options)
    assert np.allclose(few.draws, many.draws[:2], atol=1e-3)


def test_a_region_where_chains_only_start_is_no_end_of_a_round_trip():
    """All chains start at the very minimum, U = 0, and no move leads back to it."""
    options = {"kernel": sahmc.HMC(1.2, 1, metric="unit"), "tilt": "step", "adapt": "always", "gain": 20}
    result = quick(partition=sahmc.EnergyPartition([0.0, 1.0, 2.0]), draws=500, tune=4000, **options)
    assert result.round_trips.min() > 5


def test_gradients_are_counted():
    result = quick(kernel=sahmc.HMC(0.3, 7, metric="unit"), tilt="none", tune=10, draws=20)
    looked = result.warmup.gradients["start"]  # whether the log density rises without end
    assert looked == 128 and result.num_gradients == 4 * 7 * 30 + looked
    assert quick(kernel="random_walk", target_accept=0.3).num_gradients == 0


@pytest.mark.parametrize("metric", ["unit", "diagonal", "dense", "low_rank"])
def test_metrics_are_tuned(metric):
    scale = jnp.array([0.1, 1.0, 10.0])
    result = quick(
        lambda x: normal(x / scale), kernel=sahmc.HMC(metric=metric), draws=600, tune=600, chains=16, tilt="none"
    )
    found = result.expectation(lambda x: (x / scale) ** 2)
    # unit steps are those of the narrowest direction, and 2.5 of them cannot cross the widest: no claim there
    checked = slice(0, 2) if metric == "unit" else slice(0, 3)
    assert (np.abs(found.mean - 1) < 4.5 * found.mcse)[checked].all()
    narrowest = 0.1 if metric == "unit" else 1.0
    assert 0.5 * narrowest < result.step_size[0] < 2.5 * narrowest


def test_a_run_without_round_trips_warns(set2):
    with pytest.warns(UserWarning, match="modes may be missing"):
        torn = sahmc.TemperatureLadder([1.0, 1e-7])
        sahmc.sample(set2.log_density, jnp.zeros(2), draws=20, tune=100, chains=4, partition=torn, random_seed=0)


def interrupt_at(chunk, monkeypatch):
    chunks = 0
    original = run.run_chunk

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a job run in the background

    def interrupted(*args):
        nonlocal chunks
        chunks += 1
        if chunks == chunk:
            try:
                signal.raise_signal(signal.SIGINT)
            finally:
                signal.signal(signal.SIGINT, before)
        return original(*args)

    monkeypatch.setattr(run, "CHUNK_SECONDS", 0.0)
    monkeypatch.setattr(run, "run_chunk", interrupted)


@pytest.mark.parametrize("chunk", [1, 2, 4])
def test_ctrl_c_before_there_are_draws_stops_the_run(monkeypatch, chunk):
    interrupt_at(chunk, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        sahmc.sample(normal, jnp.zeros(3), draws=5000, tune=200, chains=4, random_seed=0)


def test_ctrl_c_returns_what_was_drawn(monkeypatch):
    monkeypatch.setattr(run, "CHUNK_SECONDS", 0.0)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def press(progress):
        if progress.stage == "draw" and progress.done > progress.total / 4:
            signal.raise_signal(signal.SIGINT)

    try:
        with pytest.warns(UserWarning, match="Interrupted"):
            result = sahmc.sample(normal, jnp.zeros(3), draws=5000, tune=20, chains=4, random_seed=0, callback=press)
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.settings["interrupted"] and 0 < result.draws.shape[1] < 5000
    assert result.expectation().mean.shape == (3,)


@pytest.fixture
def ctrl_c():
    """A press of Ctrl-C, as it reaches a program that runs in the foreground."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_at_the_last_draw_loses_nothing_and_says_nothing(ctrl_c):
    def press(progress):
        if progress.stage == "draw" and progress.done == progress.total:
            ctrl_c()

    result = quick(draws=100, callback=press)
    assert result.draws.shape[1] == 100 and not result.settings["interrupted"]
    assert "interrupted" not in {finding.code for finding in result.findings}


@pytest.mark.parametrize("times", [1, 2, 5])
def test_ctrl_c_again_and_again_still_returns_a_result(ctrl_c, times, monkeypatch):
    monkeypatch.setattr(run, "CHUNK_SECONDS", 0.0)

    def press(progress):
        if progress.stage == "draw" and progress.done > progress.total / 4:
            for _ in range(times):
                ctrl_c()

    result = quick(draws=5000, callback=press)
    assert 0 < result.draws.shape[1] < 5000 and "interrupted" in {finding.code for finding in result.findings}


def test_ctrl_c_while_a_run_is_examined_returns_all_its_draws(ctrl_c, monkeypatch, set1):
    find_modes = Live.find_modes

    def pressed(self, draws):
        ctrl_c()
        return find_modes(self, draws)

    monkeypatch.setattr(Live, "find_modes", pressed)
    with pytest.warns(UserWarning, match="before it was examined"):
        result = sahmc.sample(set1.log_density, jnp.zeros(2), draws=300, tune=300, chains=16, random_seed=0)
    assert result.draws.shape[1] == 300 and result.findings[0].severity == "error"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_repr_says_the_essentials():
    text = repr(quick())
    assert all(word in text for word in ("4 chains of 40 draws", "round trip", "gradients", "seed 0"))


def test_a_short_search_and_few_chains_are_told():
    found = {f.code: f for f in quick(draws=50, tune=50).findings}
    assert "Raise tune" in found["climb"].advice and found["few-chains"].number == 4
    assert not {"climb", "few-chains"} & {f.code for f in quick(tilt="none").findings}


def test_too_short_a_climb_says_nothing_of_tails():
    """Chains that have had a dozen moves leap from rung to rung, whatever the tails of a density."""
    found = {f.code: f for f in quick(chains=32, draws=100, tune=10).findings}
    assert "climb" in found and "tails" not in found and found["climb"].number == 4


def test_divergences_between_the_draws_kept_count_too():
    result = quick(kernel=sahmc.HMC(50.0, 4, metric="unit"), tilt="none", thin=3)
    assert result.diverging.all() and result.num_diverging == 3 * result.diverging.sum()
    assert [f.severity for f in result.findings if f.code == "divergences"] == ["error"]


def test_an_overflow_is_no_place_to_stay():
    """Far out, in single precision, a log density may come out as +inf: a chain that took it would never leave."""

    def log_prior(x):
        return jnp.where(x[0] > 4.0, jnp.inf, -0.5 * jnp.sum(x**2))

    def log_likelihood(x):
        return -0.5 * jnp.sum((x - 1.0) ** 2)

    wide = sahmc.Model(log_likelihood, log_prior, start=lambda key: 8.0 * jax.random.normal(key, (2,)))
    result = sahmc.sample(wide, random_seed=0, draws=200, tune=300, chains=16, progressbar=False)
    assert np.isfinite(result.log_density).all() and result.draws[..., 0].max() < 4.0
    mean, mcse = result.expectation()
    assert (abs(mean - 0.5) < 4 * mcse).all()
    with pytest.raises(ValueError, match="finite"):
        quick(log_prior, jnp.array([5.0, 0.0]))


def test_infinite_walls_are_rejections():
    def boxed(x):
        return jnp.where(jnp.all(jnp.abs(x) < 1.0), 0.0, -jnp.inf)

    result = quick(boxed, draws=300, tune=300, chains=8)
    inside = (np.abs(result.draws) < 1).all(axis=-1)  # only the reference knows no walls
    assert (inside == np.isfinite(result.log_density)).all() and (result.weight[~inside] == 0).all()
    assert result.num_diverging == 0 and (np.abs(quick(boxed, chains=8, reference=False).draws) < 1).all()
    found = result.expectation(lambda x: x**2)
    assert (np.abs(found.mean - 1 / 3) < 4.5 * found.mcse).all()


def test_draws_are_the_named_variables_of_a_model(tmp_path):
    """A positive scale on the log line; what was saved, dims and data too, comes back."""
    labels = Labels({"place": ["here", "there"]}, {"level": ["place"], "y": ["row"]}, {"y": np.arange(3.0)})
    named_model = sahmc.Model(
        log_density=lambda z: -0.5 * jnp.sum(z["level"] ** 2) - jnp.exp(z["log_scale"]) + z["log_scale"],
        start=lambda key: {"level": jax.random.normal(key, (2,)), "log_scale": jnp.zeros(())},
        constrain=lambda z: {"level": z["level"], "scale": jnp.exp(z["log_scale"]), "one": jnp.ones(2)},
        unconstrain=lambda v: {"level": v["level"], "log_scale": jnp.log(v["scale"])},
        labels=labels,
    )
    start = {"level": np.zeros(2), "scale": np.ones(())}
    result = sahmc.sample(named_model, start, draws=200, tune=400, chains=8, random_seed=0, progressbar=False)
    assert set(result.draws) == {"level", "scale", "one"} and (result.draws["scale"] > 0).all()
    scale = result.expectation(lambda draw: draw["scale"])
    assert abs(scale.mean - 1) < 4 * scale.mcse < 0.5
    table = result.summary().to_dataframe().loc["one[0]"]
    assert abs(table["mean"] - 1) < 1e-6 and (table["sd"], table["mcse"]) == (0.0, 0.0) and np.isnan(table["ess"])
    assert not any("one" in finding.sentence for finding in result.findings)
    moved = result.to_datatree(rejuvenate=2).posterior
    assert moved["level"].dims == ("chain", "draw", "place") and (moved["scale"] > 0).all()
    result.save(tmp_path / "run.nc")
    loaded = sahmc.Result.load(tmp_path / "run.nc")
    assert differences(loaded.record, result.record) == []
    back = loaded.to_datatree()
    assert list(back.posterior.place.values) == ["here", "there"] and back.observed_data.y.dims == ("row",)
    kept = sahmc.sample(
        named_model, draws=10, tune=20, chains=4, tilt="none", random_seed=0, keep=lambda draw: draw["scale"]
    )
    assert kept.draws.shape == (4, 10)


FORK = """
import os
import jax.numpy as jnp
import numpy as np
import sahmc
def run():
    return sahmc.sample(lambda x: -0.5 * jnp.sum(x**2), np.zeros(2), draws=4, tune=8, chains=2, progressbar=False)
{before}
child = os.fork()
if child == 0:
    try:
        run()
    except ValueError as error:
        print(error, flush=True)
        os._exit(3)
    os._exit(0)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are listed on Linux only")
@pytest.mark.parametrize(("before", "code"), [("jnp.zeros(1).block_until_ready()", 3), ("", 0)])
def test_a_fork_after_jax_has_started_is_told_what_to_do(before, code):
    """It would hang; one from before is as good as any process."""
    script = FORK.format(before=before)
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done
    assert code == 0 or "spawn" in done.stdout


def test_a_flat_log_density_is_an_error():
    """In float32 chains end where numbers do; a density that is flat between walls is a fine one."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=RuntimeWarning)
        flat = quick(lambda x: 1.0, draws=100, tune=200, chains=8)
    assert "stuck" in {finding.code for finding in flat.findings if finding.severity == "error"}
    box = quick(lambda x: jnp.where(jnp.all(jnp.abs(x) < 1), 0.0, -jnp.inf), draws=300, tune=300)
    assert "stuck" not in {finding.code for finding in box.findings}


def test_a_single_draw_is_too_few_and_no_chain_that_is_stuck():
    found = {finding.code for finding in quick(draws=1, chains=1, tune=100).findings}
    assert "budget" in found and "stuck" not in found


def test_a_raw_key_is_a_seed():
    one, two = (quick(random_seed=jax.random.PRNGKey(5)), quick(random_seed=jax.random.key(5)))
    assert np.array_equal(one.draws, two.draws)


def test_what_fails_after_sampling_does_not_cost_the_draws(monkeypatch, tmp_path):
    def fail(*args):
        raise ModuleNotFoundError("No module named 'arviz_stats'")

    for name in ("examine", "check_rounding", "check_symmetry"):
        monkeypatch.setattr(outcome, name, fail)
    monkeypatch.setattr(Live, "find_modes", fail)
    with pytest.warns(UserWarning, match="could not be examined .ModuleNotFoundError: No module named 'arviz_stats'"):
        result = sahmc.sample(lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(2), draws=50, tune=50, chains=4, random_seed=0)
    said = [finding.sentence.split(" could")[0] for finding in result.findings]
    assert sorted(said) == ["Its rounding", "The modes of the draws", "The run", "The symmetry of its draws"]
    assert {(finding.code, finding.severity) for finding in result.findings} == {("examination", "error")}
    assert np.asarray(result.draws).shape == (4, 50, 2)
    result.save(tmp_path / "run.nc")
    assert sahmc.Result.load(tmp_path / "run.nc").findings == result.findings


def test_variables_that_cannot_be_made_leave_the_positions(monkeypatch, tmp_path):
    def fail(*args):
        raise MemoryError("no more")

    monkeypatch.setattr(outcome.Unpacker, "all", fail)
    found = quick(draws=20, tune=100, save_warmup=True)
    assert "The variables could not be made of the positions (MemoryError: no more)" in str(found.findings)
    assert np.asarray(found.draws).shape == (4, 20, 3) and found.warmup_draws is not None
    found.save(tmp_path / "run.nc")
    assert np.array_equal(sahmc.Result.load(tmp_path / "run.nc").draws, found.draws)


def test_variables_that_could_not_be_made_are_made_when_the_run_is_asked_for_again(monkeypatch, tmp_path):
    options = {"draws": 20, "tune": 20, "save_warmup": True, "checkpoint": tmp_path}
    usual = outcome.Unpacker.all

    def fail(*args):
        raise MemoryError("no more")

    monkeypatch.setattr(outcome.Unpacker, "all", fail)
    bare = [quick(**options) for _ in range(2)]
    assert all("could not be made" in str(found.findings) for found in bare) and same(*bare)
    monkeypatch.setattr(outcome.Unpacker, "all", usual)
    assert not differences(
        quick(**options).record,
        quick(**options | {"checkpoint": None}).record,
        but=("record.settings['sampling_time']",),
    )


def test_a_result_that_cannot_be_stored_is_returned(monkeypatch, tmp_path):
    def fail(*args):
        raise OSError("no space left")

    monkeypatch.setattr(DiskJournal, "write_result", fail)
    with pytest.warns(UserWarning, match=r"the result of the run could not be stored \(no space left\)"):
        found = sahmc.sample(normal, jnp.zeros(3), draws=20, tune=20, chains=4, random_seed=0, checkpoint=tmp_path)
    monkeypatch.undo()
    assert same(found, quick(draws=20, tune=20, checkpoint=tmp_path))


def test_a_later_round_that_fails_does_not_cost_the_draws_before_it(monkeypatch):
    def fail(*args):
        raise MemoryError("no more")

    monkeypatch.setattr(outcome.Run, "go_on", fail)
    found = quick(draws=20, tune=100, until=sahmc.Precision(ess=10_000))
    assert "A further round of draws ended in an error (MemoryError: no more)" in str(found.findings)
    assert np.asarray(found.draws).shape[1] == 20
    monkeypatch.setattr(sahmc.Precision, "shortfalls", fail)
    found = quick(draws=20, tune=100, until=sahmc.Precision(ess=10_000))
    assert "The look at how precise the draws are ended in an error" in str(found.findings)
    assert np.asarray(found.draws).shape[1] == 20


def test_those_who_look_for_a_tree_are_told_where_it_is():
    result = quick(draws=20, tune=50)
    with pytest.raises(AttributeError, match=r"result.to_datatree\(\).posterior"):
        result.posterior  # noqa: B018
    with pytest.raises(AttributeError, match=r"a Result has no attribute 'colour'$"):
        result.colour  # noqa: B018
    with pytest.raises(TypeError, match=r'result.to_datatree\(\)\["posterior"\]\[\'x\'\]'):
        result["x"]


@pytest.mark.parametrize("draws", [1, 6])
def test_few_draws_are_those_that_were_asked_for(draws):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result = sahmc.sample(
            lambda x: -0.5 * jnp.sum(x**2),
            jnp.zeros(2),
            draws=draws,
            tune=12,
            chains=4,
            random_seed=0,
            progressbar=False,
        )
    assert result.log_weight.shape == (4, draws) and result.settings["draws"] == draws
    assert not any("has 10 draws" in str(one.message) for one in told)


def test_testing_is_there_without_an_import_of_its_own():
    done = subprocess.run(
        [sys.executable, "-c", "import sahmc, sys; assert 'jax' not in sys.modules; print(sahmc.testing.SUITE.keys())"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "mixture-1" in done.stdout, done.stderr
