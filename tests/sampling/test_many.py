"""One model, many data sets."""

import inspect
import multiprocessing
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import sahmc
from sahmc._support.processes import Processes
from sahmc.engine import loop
from sahmc.engine.loop import run_chunk
from sahmc.results.records import Finding
from sahmc.sampling.many import _is_of_numpyro, _require_data, _warn

SHORT = dict(draws=20, tune=40, chains=8)
DATA = [jnp.asarray(np.random.default_rng(i).normal(i, 1, size=5), jnp.float32) for i in range(3)]


def log_density(x, data):
    return -0.5 * jnp.sum((data - x["mean"]) ** 2) - 0.5 * x["mean"] ** 2


pytestmark = pytest.mark.filterwarnings("ignore:sahmc found problems")
START = {"mean": jnp.zeros(())}


@pytest.fixture(scope="module")
def results():
    return sahmc.sample_many(log_density, DATA, START, random_seed=0, **SHORT)


def same(one, two):
    return all(
        np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one.draws), jax.tree.leaves(two.draws), strict=True)
    )


def test_each_result_is_that_of_a_call_of_its_own_and_nothing_is_compiled_again(results):
    compiled = run_chunk._cache_size()
    for data, result in zip(DATA, results, strict=True):
        seed = result.settings["random_seed"]
        alone = sahmc.sample(lambda x, data=data: log_density(x, data), START, random_seed=seed, **SHORT)
        assert same(alone, result)
        mean, error = result.expectation(lambda x: x["mean"])
        assert abs(mean - data.sum() / 6) < 4 * error
    assert len({result.settings["random_seed"] for result in results}) == 3
    assert run_chunk._cache_size() == compiled


def test_an_executor_gives_the_same_results(results):
    with ThreadPoolExecutor(1) as executor:
        again = sahmc.sample_many(log_density, DATA, START, random_seed=0, executor=executor, **SHORT)
    assert all(map(same, results, again))


def test_cores_are_processes_that_give_the_same_results(results):
    again = sahmc.sample_many(log_density, DATA, START, random_seed=0, cores=2, **SHORT)
    assert all(map(same, results, again))


def test_an_error_in_a_process_is_raised_here():
    with Processes(1) as pool:
        assert pool.submit(lambda x: x + 1, 2).result() == 3
        with pytest.raises(ZeroDivisionError):
            pool.submit(lambda: 1 // 0).result()
        with pytest.raises(RuntimeError, match="ended before its answer, with the status 3"):
            pool.submit(os._exit, 3).result()
        assert pool.submit(lambda x: x + 1, 2).result() == 3  # by another process


def test_a_process_that_was_killed_with_input_unread_is_no_error_at_the_end():
    with Processes(1) as pool:
        (worker,) = pool._workers
        worker.stdin.write(b"unread")
        worker.kill()
        worker.wait()
    assert worker.stdin.closed


def dying(x, data, marker):
    """A log density that ends its process when it is first called, or, without a marker to leave, whenever it is."""
    if not isinstance(marker, str):
        os._exit(9)
    if marker and not os.path.exists(marker):
        open(marker, "w").close()
        os._exit(9)
    return log_density(x, data)


def test_a_process_that_dies_costs_no_other_data_set_its_result(results, tmp_path):
    sets = [(DATA[0], ""), (DATA[1], None), (DATA[2], str(tmp_path / "died"))]
    own = [{"random_seed": result.settings["random_seed"]} for result in results]
    found = sahmc.sample_many(dying, sets, START, each=own, cores=2, errors="return", **SHORT)
    assert same(found[0], results[0]) and same(found[2], results[2]) and (tmp_path / "died").exists()
    assert "two attempts" in str(found[1]) and "with the status 9" in str(found[1])
    assert found[1].__notes__ == ["this was data set 1 of sample_many, counted from 0"]


def test_one_warning_tells_of_all_data_sets():
    wrong = [Finding("rhat", "error", "s", 1.0, "a")]
    results = [SimpleNamespace(findings=wrong if i % 2 else []) for i in range(60)]
    with pytest.warns(UserWarning) as told:
        inspect.unwrap(_warn)(results)
    assert "30 of 60 data sets" in str(told[0].message) and "data set 3: error rhat" in str(told[0].message)
    assert len(told) == 1 and str(told[0].message).count("\n") == 21


def test_a_folder_keeps_what_is_complete(results, tmp_path):
    call = dict(random_seed=0, checkpoint=tmp_path / "all", **SHORT)
    first = sahmc.sample_many(log_density, DATA[:2], START, **call)
    assert sorted(p.name for p in (tmp_path / "all").iterdir()) == ["00000", "00001"]
    for seed in (0, None):  # without one, the seeds are those in the folders
        again = sahmc.sample_many(log_density, DATA[:2], START, **{**call, "random_seed": seed})
        assert all(map(same, first, again))


def test_tuples_and_dicts_are_arguments():
    def scaled(x, data, scale):
        return log_density(x, data * scale)

    one, two = sahmc.sample_many(
        scaled, [(DATA[0], 2.0), {"data": DATA[0], "scale": 2.0}], START, random_seed=1, **SHORT
    )
    means = [result.expectation(lambda x: x["mean"]) for result in (one, two)]
    assert abs(means[0].mean - means[1].mean) < 4 * np.hypot(means[0].mcse, means[1].mcse)


def test_each_data_set_may_have_arguments_of_its_own(results):
    own = [{"initvals": START, "random_seed": result.settings["random_seed"]} for result in results]
    assert all(map(same, results, sahmc.sample_many(log_density, DATA, each=own, **SHORT)))
    other = [{"initvals": {"mean": jnp.float32(i)}, "draws": 20 + i} for i in range(2)]
    moved = sahmc.sample_many(log_density, DATA[:2], each=other, random_seed=0, **SHORT)
    assert [result.log_weight.shape[1] for result in moved] == [20, 21] and not same(moved[1], results[1])


def test_the_log_likelihood_of_a_model_takes_the_data():
    def log_likelihood(x, data):
        return -0.5 * jnp.sum((data - x["mean"]) ** 2)

    def log_prior(x):
        return -0.5 * x["mean"] ** 2

    model = sahmc.Model(log_likelihood=log_likelihood, log_prior=log_prior)
    (result,) = sahmc.sample_many(model, DATA[2:], START, random_seed=0, **SHORT)
    mean, error = result.expectation(lambda x: x["mean"])
    assert result.settings["prior"] and abs(mean - DATA[2].sum() / 6) < 4 * error


def test_one_bad_data_set_costs_no_other_its_result(results):
    own = [{"random_seed": result.settings["random_seed"]} for result in results]
    bad = [DATA[0], jnp.full(5, jnp.nan), DATA[2]]
    with pytest.raises(sahmc.DataSetError, match="1 of 3 data sets failed") as caught:
        sahmc.sample_many(log_density, bad, START, each=own, **SHORT)
    assert "  - data set 1: ValueError: " in str(caught.value)
    with pytest.warns(UserWarning, match="data set 1 failed: ValueError"):
        returned = sahmc.sample_many(log_density, bad, START, each=own, errors="return", **SHORT)
    for found in (caught.value.results, pickle.loads(pickle.dumps(caught.value)).results, returned):
        assert same(found[0], results[0]) and same(found[2], results[2]) and isinstance(found[1], ValueError)
        assert found[1].__notes__ == ["this was data set 1 of sample_many, counted from 0"]


def test_what_is_wrong_with_all_data_sets_is_raised_as_it_is():
    with pytest.raises(ValueError, match="draws must be") as caught:
        sahmc.sample_many(log_density, DATA, START, draws=-1)
    assert caught.value.__notes__ == ["this was data set 0 of sample_many, counted from 0"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (dict(model=lambda x: x["mean"]), r"a position and the data.*too many positional arguments"),
        (dict(model=sahmc.Model(log_density=lambda x: x["mean"])), "must take a position and the data"),
        (dict(datasets=[(DATA[0], 1.0)]), "must take a position and the data"),
        (dict(datasets=[{"sizes": DATA[0]}]), "must take a position and the data"),
        (dict(datasets=[]), "a list of data sets"),
        (dict(datasets=jnp.zeros((3, 2))), "a list of data sets"),
        (dict(executor=multiprocessing), "a method submit"),
        (dict(cores=2, executor=ThreadPoolExecutor(1)), "leave one out"),
        (dict(cores=0), "cores"),
        (dict(model_args=(1,)), "made for each data set"),
        (dict(each=[{"checkpoint": "here"}] * 3), "made for each data set"),
        (dict(each=[{}] * 2), "must have 3 dicts, one for each data set"),
        (dict(each={"initvals": 1}), "must be a list of dicts"),
        (dict(random_seed="now"), "an int, a NumPy Generator"),
    ],
)
def test_what_cannot_be_done_is_refused(change, told):
    with pytest.raises(ValueError, match=told):
        sahmc.sample_many(**{"model": log_density, "datasets": DATA, "initvals": START, **change})


def test_another_way_to_tell_of_errors_is_refused():
    with pytest.raises(ValueError, match='errors must be "raise" or "return"'):
        inspect.unwrap(sahmc.sample_many)(log_density, DATA, START, errors="ignore")


def of_numpyro(y, width):
    numpyro.sample("y", dist.Normal(numpyro.sample("mean", dist.Normal(0, width)), 1), obs=y)


class NoSignature:
    __signature__ = "none"

    def __call__(self, *args):
        return 0.0


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (log_density, (1,)),
        (lambda *args: 0.0, (1, 2, 3)),
        (lambda x, data, scale=1.0: 0.0, (1,)),
        (partial(lambda scale, x, data: 0.0, 2.0), (1,)),
        (jax.jit(log_density), (1,)),
        (NoSignature(), (1,)),
        (of_numpyro, (1, 2)),
        (partial(of_numpyro, width=2), (1,)),
    ],
)
def test_models_that_take_the_data_are_let_through(function, args):
    _require_data(function, args, {})
    with pytest.raises(ValueError, match="a position and the data"):
        _require_data(of_numpyro, (1,), {})


def test_a_log_density_that_could_take_the_data_for_a_position_is_none_of_numpyro():
    assert not _is_of_numpyro(lambda x, data, scale=1.0: log_density(x, data * scale), (DATA[0], 2.0), {})
    assert _is_of_numpyro(of_numpyro, (DATA[0], 2.0), {})
    with pytest.raises(TypeError):
        _is_of_numpyro(of_numpyro, (DATA[0], "wide"), {})


def dying_in_mid_draw(x, data, marker):
    """A log density that ends its process, the first time that it has one, when some moves were made."""
    if marker and not os.path.exists(marker):
        usual, moves = loop.run_chunk, []

        def run_chunk(*args):
            moves.append(1)
            if len(moves) == 4:
                open(marker, "w").close()
                os._exit(9)
            return usual(*args)

        loop.run_chunk = run_chunk
    return log_density(x, data)


def test_dask_with_a_scheduler_and_two_workers_gives_the_same_bits_though_one_is_killed_in_mid_draw(tmp_path):
    distributed = pytest.importorskip("distributed")
    options = dict(random_seed=0, progressbar=False, **SHORT)
    here = sahmc.sample_many(log_density, DATA[:2], START, **options)
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path)
    )
    sets = [(DATA[0], ""), (DATA[1], str(tmp_path / "died"))]
    with cluster, distributed.Client(cluster) as client:
        there = sahmc.sample_many(dying_in_mid_draw, sets, START, executor=client.get_executor(), **options)
    assert all(map(same, here, there)) and (tmp_path / "died").exists()


def test_a_log_tells_how_many_data_sets_are_done(caplog):
    with caplog.at_level("INFO", logger="sahmc"):
        sahmc.sample_many(log_density, DATA[:2], START, draws=-1, errors="return")
    assert "compiling; then data sets" in caplog.text and "data sets done after" in caplog.text
