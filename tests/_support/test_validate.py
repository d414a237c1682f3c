"""Bad input is refused before anything is compiled, with what must hold, what was given and what to do."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sahmc
from sahmc._support.validate import as_new_file, require_count, require_known, require_seed
from sahmc.engine.loop import run_chunk
from sahmc.kernels import KERNELS
from sahmc.tilt import TILTS


def normal(x):
    return -0.5 * jnp.sum(x**2)


# the tests check types as they run; here the checks are to be the library's own
unchecked_sample = inspect.unwrap(sahmc.sample)
EDGES = sahmc.EnergyPartition([1.0, 2.0])
LADDER = sahmc.TemperatureLadder([1.0, 0.5])
X = jnp.zeros(2)
BAD = {
    "not scalar": (dict(model=lambda x: x**2, initvals=X), "one real number.*shape \\(2,\\)"),
    "complex": (dict(model=lambda x: jnp.sum(x) * 1j, initvals=X), "one real number; .*complex.* fix it, .*jnp.real"),
    "a count": (dict(model=lambda x: jnp.sum(x > 0), initvals=X), "one real number; .*int.* fix it, .*floating-point"),
    "infinite at a start": (dict(model=lambda x: -jnp.inf * jnp.sum(x + 1), initvals=X), "finite.*start of chain 0"),
    "nan gradient": (dict(model=lambda x: -jnp.sum(jnp.sqrt(jnp.abs(x))), initvals=X), "gradient.*start of chain 0"),
    "one bad chain": (
        dict(model=lambda x: jnp.log(x[0]), initvals=[jnp.ones(1)] * 3 + [-jnp.ones(1)], chains=4),
        "start of chain 3",
    ),
    "bad prior": (dict(model=sahmc.Model(normal, lambda x: jnp.log(x[0])), initvals=X), "log prior must be finite"),
    "integers": (dict(initvals=jnp.zeros(2, int)), "floating-point.*int"),
    "a Python int": (dict(initvals={"a": 1}), "floating-point"),
    "strings": (dict(initvals="here"), "floating-point"),
    "empty": (dict(initvals=jnp.zeros(0)), "at least one number"),
    "no leaves": (dict(initvals={}), "at least one number"),
    "no start": (dict(initvals=None), "initvals are needed"),
    "list too short": (dict(initvals=[X, X]), "one position for each of the 32 chains"),
    "list of floats": (dict(initvals=[0.0, 0.0]), "make it an array"),
    "unlike starts": (dict(initvals=[X, jnp.zeros(3)], chains=2), "same structure"),
    "jumps": (dict(jumps="no"), "jumps must be True or False"),
    "draws": (dict(draws=0), "draws must be a whole number of at least 1; got 0"),
    "tune": (dict(tune=0), "tune must"),
    "chains": (dict(chains=-1), "chains must"),
    "thin": (dict(thin=0), "thin must"),
    "fractional draws": (dict(draws=10.5), "draws must"),
    "boolean chains": (dict(chains=True), "chains must"),
    "target_accept": (dict(target_accept=1.0), "target_accept"),
    "kernel": (dict(kernel="nutz"), f"kernel must be one of {', '.join(map(repr, sorted(KERNELS)))}"),
    "tilt": (dict(tilt="slope"), f"tilt must be one of {', '.join(map(repr, sorted(TILTS)))}"),
    "theta": (dict(theta="mine"), "theta must be one of"),
    "adapt": (dict(adapt="never"), "adapt must be one of"),
    "metric": (
        dict(kernel=lambda: sahmc.HMC(metric="riemann")),
        "metric must be one of 'auto', 'dense', 'diagonal', 'low_rank', 'unit'",
    ),
    "wrong partition": (dict(partition=EDGES), "TemperatureLadder"),
    "wrong ladder": (dict(partition=LADDER, tilt="step"), "EnergyPartition"),
    "partition without tilt": (dict(partition=EDGES, tilt="none"), "no partition"),
    "two partitions": (dict(partition=EDGES, tilt=sahmc.StepTilt(EDGES)), "carries its own partition"),
    "one node": (dict(partition=sahmc.EnergyPartition([1.0]), tilt="linear"), "at least two nodes"),
    "desired too long": (dict(tilt="step", partition=EDGES, desired=[1, 1]), "each of the 3 regions"),
    "desired not positive": (dict(tilt="step", partition=EDGES, desired=[1, 0, 1]), "positive"),
    "desired alone": (dict(desired=[1, 1]), "needs a partition"),
    "gain": (dict(gain="slow"), "gain must be"),
    "gain below one": (dict(gain=0.1), "t0 must be at least 1"),
    "scale of another size": (dict(kernel=sahmc.RandomWalk(0.1, [1.0, 2.0, 3.0])), "each of the 2 coordinates"),
    "scale of zero": (dict(kernel=lambda: sahmc.RandomWalk(0.1, [1.0, 0.0])), "scale must be a positive number"),
    "metric of another size": (dict(kernel=sahmc.HMC(0.1, 3, sahmc.DenseMetric(np.eye(5)))), "dimension 2"),
    "step size": (dict(kernel=lambda: sahmc.HMC(-1.0)), "step_size must be"),
    "length": (dict(kernel=lambda: sahmc.HMC(0.1, 0)), "num_integration_steps must"),
    "lengths": (dict(kernel=lambda: sahmc.HMC(0.1, (5, 2))), "pair"),
    "jitter": (dict(kernel=lambda: sahmc.HMC(0.1, 3, jitter=1.0)), "jitter"),
    "small steps": (dict(kernel=lambda: sahmc.HMC(small_steps=1.0)), "small_steps"),
    "seed": (dict(random_seed="zero"), "random_seed"),
    "negative seed": (dict(random_seed=-1), "random_seed"),
    "beta zero, no prior": (
        dict(partition=sahmc.TemperatureLadder([1.0, 0.0], prior_share=0.1)),
        "only where there is a prior",
    ),
    "no model": (dict(model=3.0), "model must be"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused(name):
    options, message = BAD[name]
    options = {"model": normal, "initvals": X, **options}
    compiled = run_chunk._cache_size()
    with pytest.raises(ValueError, match=f"(?s){message}") as error:
        if callable(options.get("kernel")):
            options["kernel"] = options["kernel"]()
        unchecked_sample(options.pop("model"), options.pop("initvals"), progressbar=False, **options)
    assert "To fix it" in str(error.value) and "got" in str(error.value)
    assert run_chunk._cache_size() == compiled


def test_numpy_in_a_log_density_is_explained():
    with pytest.raises(ValueError, match=r"jax\.numpy"):
        sahmc.sample(lambda x: float(-np.sum(np.asarray(x) ** 2)), X)


def _loop(x):
    return -jax.lax.while_loop(lambda v: v > 1.0, lambda v: v / 2, jnp.sum(x**2))


@pytest.mark.parametrize(
    ("log_density", "words"),
    [
        (_loop, r"must have a gradient.*random_walk"),
        (lambda x: -jnp.sum(x[x > 0] ** 2), r"shapes do not depend on values.*jnp.where"),
        (lambda x: -jnp.sum(jnp.nonzero(x)[0] * 1.0), r"must be a JAX function of traced arrays"),
    ],
    ids=["no gradient", "picked by a condition", "counted"],
)
def test_a_log_density_that_cannot_be_differentiated_is_refused_in_words(log_density, words):
    with pytest.raises(ValueError, match=words):
        sahmc.sample(log_density, jnp.ones(3))


def test_without_a_gradient_there_is_the_random_walk():
    result = sahmc.sample(
        _loop, jnp.ones(2), kernel="random_walk", tilt="none", draws=20, tune=20, chains=4, random_seed=0
    )
    assert np.isfinite(result.log_density).all()


def test_a_file_in_a_folder_that_cannot_be_written_to_is_refused(tmp_path, monkeypatch):
    assert as_new_file(tmp_path / "run.nc", False) == tmp_path / "run.nc"
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(ValueError, match=r"can be written to; got .*, which cannot'\. To fix it, choose another"):
        as_new_file(tmp_path / "run.nc", False)


@pytest.mark.parametrize("seed", [2**63, -1, 0.5, True])
def test_a_seed_fits_into_63_bits(seed):
    require_seed(2**63 - 1, "seed")
    with pytest.raises(ValueError, match=r"seed must be an int of 0 to 2\*\*63 - 1"):
        require_seed(seed, "seed")


def test_a_model_is_a_density_or_prior_and_likelihood():
    for parts in ({}, {"log_prior": jnp.sum}, {"log_density": jnp.sum, "log_prior": jnp.sum}):
        with pytest.raises(ValueError, match="log_density, or both log_likelihood and log_prior"):
            sahmc.Model(**parts)


def test_the_junk_run_calls_all_that_the_docs_call_public():
    junk = pytest.importorskip("junk")
    called = {name.partition("(")[0] for name, _, _ in junk.all_calls()}
    docs, wanted, owner = (Path(__file__).parents[2] / "docs" / "api.md").read_text(), set(), ""
    for kind, full, members in re.findall(r"auto(function|class):: ([\w.]+)|:members: (.*)", docs):
        owner = full or owner
        home, _, name = owner.rpartition(".")
        if home in ("sahmc", "sahmc.testing", "sahmc.numpyro"):
            wanted |= {name} if kind else {f"{name}.{member}" for member in members.split(", ")}
    wanted |= {f"Result.{name}" for name in junk.METHODS["Result"]}
    properties_and_no_arguments = {
        *("Comparison.has_loo", "Comparison.tables", "Comparison.to_dataframe", "Target.truth"),
        *("Leapfrog", "MinimumNorm", "NoTilt", "UnitMetric", "Result.rejections", "sensor_network"),
    }
    compiled = {"Target.indicators", "Target.answers"}
    assert wanted - called == {*properties_and_no_arguments, *compiled, *junk.RETURNED} & wanted


def test_junk_gets_a_clear_error():
    """In all that a run is made of, without sampling from it, and without the checks of types that tests make."""
    script = Path(__file__).parents[2] / "benchmarks" / "junk.py"
    done = subprocess.run(
        [sys.executable, str(script), "--build"], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0 and "'clear error'" in done.stdout, done.stdout + done.stderr


def test_a_folder_that_cannot_be_written_to_is_told_of_before_anything_is_traced(tmp_path, monkeypatch):
    def never(x):
        raise AssertionError("the model was called")

    monkeypatch.setattr("sahmc._support.validate.os.access", lambda path, mode: False)
    with pytest.raises(ValueError, match=f"can be written to; got '{tmp_path}, which cannot'"):
        sahmc.sample(never, jnp.zeros(2), checkpoint=tmp_path / "new" / "run")
    with pytest.raises(ValueError, match=f"can be written to; got '{tmp_path}, which cannot'"):
        as_new_file(tmp_path / "run.nc", overwrite=False)
    with pytest.raises(ValueError, match="holds none"):
        sahmc.resume(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("NUTS", "write 'nuts'"),
        ("nust", "write 'nuts'"),
        ("gibbs", "pass one of these names"),
        (sahmc.NUTS, r"pass an object of the class: NUTS\(\)"),
    ],
)
def test_the_name_that_was_probably_meant_is_said(given, said):
    with pytest.raises(ValueError, match=said):
        require_known(given, {"nuts", "hmc", "random_walk"}, "kernel")


@pytest.mark.parametrize(("given", "said"), [(1e3, "pass draws=1000"), (0.5, "pass draws=1 or more")])
def test_the_number_that_was_probably_meant_is_said(given, said):
    with pytest.raises(ValueError, match=said):
        require_count(given, "draws")


def test_what_is_no_model_is_told_where_to_go():
    from numpyro.infer import NUTS

    for file in ("model.stan", Path("model.stan")):
        with pytest.raises(ValueError, match=r"from_stan\('model.stan', data"):
            sahmc.sample(file)
    with pytest.raises(ValueError, match="pass the model itself, the function"):
        sahmc.sample(NUTS(lambda: None))


@pytest.mark.parametrize("plot", [name for name in sahmc.__all__ if name.startswith("plot_")])
@pytest.mark.parametrize("given", [3, None, "run.nc", np.zeros(3), {}])
def test_a_plot_of_what_is_no_result_is_refused(plot, given):
    with pytest.raises(ValueError, match=r"To fix it, pass what sahmc\.(sample|energy_barrier) returned"):
        inspect.unwrap(getattr(sahmc, plot))(given)


@pytest.mark.parametrize("kind", [sahmc.Permute, sahmc.Flip])
@pytest.mark.parametrize("names", [3, None, [[1]], [], np.zeros(2), ["a", "a"], {1}, [None]])
def test_a_symmetry_needs_names(kind, names):
    with pytest.raises(ValueError, match=r"names of arrays, each once.*To fix it, write Permute"):
        kind(names)


@pytest.mark.parametrize("axis", [None, 0.5, "x", [0.5], ["0"], [[None]], np.zeros(1), [0, 1]])
def test_a_symmetry_needs_axes(axis):
    with pytest.raises(ValueError, match=r"an axis for each.*To fix it, write Permute"):
        sahmc.Permute("a", axis)


def test_axes_are_whole_numbers_of_any_kind():
    assert sahmc.Permute(["a", "b"], np.int64(1)).axis == ((1,), (1,))
    assert sahmc.Permute(["a", "b"], [0, (0, 1)]).axis == ((0,), (0, 1))
    assert sahmc.Flip("a", ()).axis == ((),) and sahmc.Flip("a", (0, 1)).axis == ((0, 1),)
    assert sahmc.Flip(np.array(["a", "b"])).names == ("a", "b")


@pytest.mark.parametrize("given", [{"check": np.zeros(2)}, {"devices": np.zeros(2)}, {"devices": np.array(["all"])}])
def test_arrays_in_place_of_words_are_refused(given):
    with pytest.raises(ValueError, match=f"{next(iter(given))} must be"):
        unchecked_sample(normal, X, **given)


@pytest.mark.parametrize("seed", ["x", -1, 0.5, np.zeros(2)])
def test_a_barrier_needs_a_seed(seed):
    with pytest.raises(ValueError, match="random_seed must be an int"):
        inspect.unwrap(sahmc.energy_barrier)(normal, X, X + 1, random_seed=seed)
