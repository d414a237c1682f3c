"""Whatever is passed, the answer is a result or a clear error."""

import inspect
import re
import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import sahmc
from sahmc.cli.main import main

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

unchecked_sample = inspect.unwrap(sahmc.sample)  # the library's own checks, not those of types
CLEAN = dict(
    deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=5),
    st.lists(st.floats(-2, 2), max_size=3),
    st.dictionaries(st.text(max_size=2), st.floats(-1, 1), max_size=2),
    st.just(np.zeros((2, 2))),
    st.just(object()),
    st.just(len),
    st.sampled_from(["hmc", "tempered", "step", "shared", "always", "none"]),
)
NAMES = (
    "draws",
    "tune",
    "chains",
    "thin",
    "random_seed",
    "target_accept",
    "kernel",
    "tilt",
    "partition",
    "gain",
    "desired",
    "theta",
    "adapt",
    "jumps",
    "keep",
    "save_warmup",
    "progressbar",
    "callback",
)


class ReachedError(Exception):
    """The arguments have passed every check."""


def never(x):
    """A log density that tells that it was called: what is wrong must be told before."""
    raise ReachedError


@settings(**CLEAN, max_examples=600)
@given(st.dictionaries(st.sampled_from(NAMES), JUNK, min_size=1, max_size=3))
def test_junk_arguments_get_a_clear_error_before_the_model_is_touched(arguments):
    try:
        unchecked_sample(never, jnp.zeros(2), **{"progressbar": False, **arguments})
    except ReachedError:
        pass
    except ValueError as error:
        assert re.search(r"; got .* To fix it, ", str(error), re.DOTALL), error
        assert any(name in str(error) for name in ("tilt", "partition", *arguments)), error


@settings(**CLEAN, max_examples=200)
@given(JUNK)
def test_junk_starts_get_a_clear_error(start):
    try:
        unchecked_sample(never, start, progressbar=False, chains=2)
    except ReachedError:
        pass
    except ValueError as error:
        assert "To fix it, " in str(error)
    except Exception as error:  # a start that is a function may raise what it likes
        assert start is len, error


WORDS = st.one_of(
    st.sampled_from(
        [
            "sample",
            "summary",
            "report",
            "plot",
            "resume",
            "init",
            "completion",
            "--out",
            "--draws",
            "--init",
            "--chains",
        ]
    ),
    st.sampled_from(["bad.py", "good.py", "good.py:log_density", "good.py:x", "run.nc", "folder", ".", "/", "", "-1"]),
    st.sampled_from(
        ["--kernel", "--seed", "--tilt", "--checkpoint", "--overwrite", "--quiet", "nan", "1e9", "0,0", "bash"]
    ),
    st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6),
)


@settings(**CLEAN, max_examples=400)
@given(st.lists(WORDS, max_size=6))
def test_junk_on_the_command_line_gets_a_clear_error(tmp_path_factory, words):
    folder = tmp_path_factory.mktemp("junk")
    (folder / "bad.py").write_text("def log_density(x):\n    return y\n")
    (folder / "good.py").write_text("def log_density(x):\n    raise ValueError('reached')\n")
    (folder / "run.nc").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(200))
    (folder / "folder").mkdir()
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.chdir(folder)
        try:
            code = main(words)
        except SystemExit as stop:
            code = stop.code
    assert code in (0, 1, 2)
