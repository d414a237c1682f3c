"""Junk in every argument of every public function and method: what comes back is a result or a clear error.

    python benchmarks/junk.py             # every call; a run ends where it would call its model: minutes
    python benchmarks/junk.py plot_       # those calls whose name holds "plot_"
    python benchmarks/junk.py --build     # only what a run is made of: seconds
    python benchmarks/junk.py --sample    # every argument of a run, with tiny runs: 15 minutes

A clear error says what must hold, what was given and what to do, or is raised by a line of this library. Anything else
that is raised is listed as a foreign error. Methods that run inside compiled programs, such as a kernel's ``step`` and
a tilt's ``bias``, are left out: nothing is checked there.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from fractions import Fraction
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np

import sahmc
import sahmc.numpyro
import sahmc.testing
from sahmc.cli.main import main as command_line

mpl.use("Agg")
SOURCE = Path(sahmc.__file__).parent
JUNK = {
    "None": None,
    "True": True,
    "0": 0,
    "-1": -1,
    "3": 3,
    "2^31": 2**31,
    "2^63": 2**63,
    "10^400": 10**400,
    "0.5": 0.5,
    "-0.5": -0.5,
    "1e300": 1e300,
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "1j": 1j,
    "''": "",
    "'x'": "x",
    "'2'": "2",
    "bytes": b"x",
    "[]": [],
    "[1]": [1],
    "[[1]]": [[1]],
    "[1., .5]": [1.0, 0.5],
    "(1, 'a')": (1, "a"),
    "{}": {},
    "{'x': 1.}": {"x": 1.0},
    "set": {1},
    "object": object(),
    "len": len,
    "type": dict,
    "zeros(2)": np.zeros(2),
    "zeros((2, 2))": np.zeros((2, 2)),
    "zeros(0)": np.zeros(0),
    "nans": np.full(2, np.nan),
    "float16": np.zeros(2, np.float16),
    "int array": np.arange(2),
    "text array": np.array(["a", "b"]),
    "jnp.zeros(2)": jnp.zeros(2),
    "PRNGKey": jax.random.PRNGKey(0),
    "key": jax.random.key(0),
    "fraction": Fraction(1, 2),
    "range": range(3),
    "path": Path("none"),
    "error": ValueError("x"),
    "generator": iter([1]),
    "lambda": lambda *_: None,
}
TINY = {"draws": 6, "tune": 12, "chains": 4, "random_seed": 0, "progressbar": False}
HUGE: set[tuple[str, str]] = set()  # arguments that are right, but that nobody waits for
RETURNED = {"Comparison", "EnergyBarrier", "Finding", "Involution", "Progress", "Result", "SAHMCState", "TiltedTarget"}
RETURNED |= {"Check", "DataSetError", "EvidenceTarget", "Target"}
"""Classes of what functions return or raise: users call their methods, and do not make them."""
METHODS = {"Comparison": ["plot"], "EnergyPartition": ["uniform"], "TemperatureLadder": ["geometric"]}
METHODS |= {"TiltedTarget": ["build", "evaluate"], "EvidenceTarget": ["mass_z"], "Target": ["worst_z"]}
METHODS["Result"] = [name for name in dir(sahmc.Result) if name[0] != "_" and callable(getattr(sahmc.Result, name))]
"""The methods of each class that users call, if they take an argument."""
KNOWN = sahmc.testing.SUITE, sahmc.testing.EVIDENCE


def normal(x):
    return -0.5 * jnp.sum(x**2)


class ReachedError(Exception):
    """The arguments have passed all checks."""


def reached(x, data=None):
    """End a run where it would begin."""
    raise ReachedError


def of_dict(x):
    return normal(x["a"]) if isinstance(x, dict) else normal(x)


def sampled(**arguments):
    given = {"model": normal, "initvals": jnp.zeros(2), **TINY, **arguments}
    return sahmc.sample(given.pop("model"), given.pop("initvals"), **given)


def made_of():
    """Return what a run is made of: the maker of each part, its usual arguments, and those of its run."""
    return {
        "gain": (sahmc.Gain, {"t0": 10}, {}),
        "partition": (sahmc.EnergyPartition, {"edges": [1.0, 2.0]}, {"tilt": "step"}),
        "ladder": (sahmc.TemperatureLadder, {"betas": [1.0, 0.5]}, {}),
        "geometric": (sahmc.TemperatureLadder.geometric, {"t_max": 10, "levels": 3}, {}),
        "uniform": (sahmc.EnergyPartition.uniform, {"low": 0, "high": 4, "width": 2}, {"tilt": "step"}),
        "hmc": (sahmc.HMC, {}, {}),
        "nuts": (sahmc.NUTS, {}, {}),
        "rmhmc": (sahmc.RMHMC, {}, {}),
        "walk": (sahmc.RandomWalk, {}, {}),
        "diagonal": (sahmc.DiagonalMetric, {}, {}),
        "dense": (sahmc.DenseMetric, {}, {}),
        "low rank": (sahmc.LowRankMetric, {"scale": [1.0, 1.0], "vectors": [[1.0], [0.0]], "values": [2.0]}, {}),
        "soft abs": (sahmc.SoftAbs, {}, {}),
        "model": (sahmc.Model, {"log_density": normal}, {}),
        "step tilt": (sahmc.StepTilt, {}, {}),
        "tempered tilt": (sahmc.TemperedTilt, {}, {}),
        "linear tilt": (sahmc.LinearTilt, {}, {}),
        "permute": (sahmc.Permute, {"names": "x"}, {}),
        "flip": (sahmc.Flip, {"names": "x"}, {}),
    }


def calls_of_runs(build):
    """Yield (name, function of one argument's value, argument) for all of a run, which ``build`` does not begin."""
    for name in () if build else inspect.signature(sahmc.sample).parameters:
        yield f"sample({name})", lambda value, name=name: sampled(**{name: value}), name
    yield "resume(checkpoint)", sahmc.resume, "checkpoint"
    places = {
        **dict.fromkeys(("gain",), lambda made, more: sampled(gain=made, **more)),
        **dict.fromkeys(
            ("partition", "ladder", "geometric", "uniform"), lambda made, more: sampled(partition=made, **more)
        ),
        **dict.fromkeys(("hmc", "nuts", "rmhmc", "walk"), lambda made, more: sampled(kernel=made, **more)),
        **dict.fromkeys(("diagonal", "dense", "low rank"), lambda made, more: sampled(kernel=sahmc.HMC(metric=made))),
        "soft abs": lambda made, more: sampled(kernel=sahmc.RMHMC(metric=made)),
        "model": lambda made, more: sampled(model=made),
        **dict.fromkeys(("step tilt", "tempered tilt", "linear tilt"), lambda made, more: sampled(tilt=made)),
        **dict.fromkeys(("permute", "flip"), lambda made, more: sampled(symmetries=[made])),
    }
    for what, (maker, usual, more) in made_of().items():
        for name in inspect.signature(maker).parameters:

            def make(value, maker=maker, usual=usual, more=more, name=name, what=what):
                made = maker(**{**usual, name: value})
                return made if build else places[what](made, more)

            yield f"{what}({name})", make, name
    yield "Result.load(path)", sahmc.Result.load, "path"


def usual_arguments():
    """Return what an argument is while others are junk, by function and argument, or by the argument alone.

    An argument that has a default and is not named with its function keeps its default.
    """
    result = sampled(tilt="tempered", save_warmup=True)
    target = sahmc.TiltedTarget.build(normal, jnp.zeros(2), sahmc.NoTilt())
    ends = {"x1": jnp.array([-1.0, 0.0]), "x2": jnp.array([1.0, 0.0])}
    barrier = sahmc.energy_barrier(normal, *ends.values(), paths=1, images=5, steps=3)
    parts = {name: value for maker, usual, _ in made_of().values() for name, value in usual.items()}
    return {
        **parts,
        **ends,
        "barrier": barrier,
        "coords": {},
        "datasets": [1.0, 2.0],
        "draw": lambda size, rng: rng.normal(size=(size, 2)),
        "example": jnp.zeros(2),
        "found": result.expectation(),
        "kernel": sahmc.HMC(0.1, 3, "unit"),
        "logdensity_fn": normal,
        "mcmc": None,
        "model": reached,
        "n": 3,
        "path": "run.html",
        "position": jnp.zeros(2),
        "positions": jnp.zeros((2, 2)),
        "residuals": normal,
        "result": result,
        "results": {"one": result, "two": result},
        "rng_key": jax.random.key(0),
        "state": sahmc.init(target, jnp.zeros((2, 2))),
        "step_size": 0.1,
        "target": target,
        "tilt": sahmc.NoTilt(),
        ("DenseMetric", "inverse_mass"): np.eye(2),
        ("DiagonalMetric", "inverse_mass"): [1.0, 1.0],
        ("LinearTilt", "partition"): sahmc.EnergyPartition([1.0, 2.0]),
        ("Model", "log_density"): normal,
        ("Result.extend", "draws"): 1,
        ("Result.extend", "progressbar"): False,
        ("Result.save", "overwrite"): True,
        ("Result.save", "path"): "run.nc",
        ("StepTilt", "partition"): sahmc.EnergyPartition([1.0, 2.0]),
        ("TemperedTilt", "partition"): sahmc.TemperatureLadder([1.0, 0.5]),
        ("TiltedTarget.build", "model"): normal,
        ("check_invariance", "chains"): 16,
        ("check_invariance", "steps"): 1,
        ("check_kernel", "cases"): ("none",),
        ("check_kernel", "chains"): 16,
        ("check_kernel", "only"): ("keys",),
        ("energy_barrier", "images"): 5,
        ("energy_barrier", "paths"): 1,
        ("energy_barrier", "steps"): 3,
        ("find_symmetries", "initvals"): {"a": jnp.zeros(2)},
        ("find_symmetries", "model"): of_dict,
        ("grid_sampler", "cells"): 10,
        ("grid_sampler", "high"): (3.0, 3.0),
        ("grid_sampler", "low"): (-3.0, -3.0),
        ("sahmc_step", "desired"): jnp.ones(1),
        ("sahmc_step", "gain"): jnp.float32(0.1),
        ("sample", "initvals"): jnp.zeros(2),
        ("sample", "model"): reached,
        ("sample", "progressbar"): False,
        ("sample_many", "initvals"): jnp.zeros(2),
        ("sample_many", "progressbar"): False,
        ("resume", "checkpoint"): "none",
        ("write_report", "overwrite"): True,
    }


def public():
    """Yield the name of every public function, class and method of a class, and what it stands for."""
    homes = {sahmc: sahmc.__all__, sahmc.testing: sahmc.testing.__all__, sahmc.numpyro: ("SAHMC", "resample")}
    for home, names in homes.items():
        for name in names:
            if callable(getattr(home, name)) and name not in RETURNED:
                yield name, getattr(home, name)
    for name, methods in METHODS.items():
        for method in methods:
            home = sahmc if name in sahmc.__all__ else sahmc.testing
            yield f"{name}.{method}", getattr(getattr(home, name), method)


def all_calls():
    """Yield (name, function of one argument's value, argument) for each argument of all that is public."""
    usual = usual_arguments()
    columns = {name: np.ones(2) for name in ("log_evidence", "log_evidence_error", "probability", "probability_error")}
    owners = {"Result": usual["result"], "TiltedTarget": usual["target"]}
    owners["Target"], owners["EvidenceTarget"] = (next(iter(some.values()))() for some in KNOWN)
    owners["Comparison"] = sahmc.Comparison(["one", "two"], columns)
    for where, made in public():
        named = dict(inspect.signature(made).parameters)
        home, _, method = where.partition(".")
        function = getattr(owners[home], method) if named.pop("self", None) else made
        named = {name: one for name, one in named.items() if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)}
        given = {name: usual[where, name] for name in named if (where, name) in usual}
        for name, one in named.items():
            if one.default is one.empty and name not in given:
                given[name] = usual[name]
        for name in named:
            yield f"{where}({name})", lambda value, f=function, g=given, n=name: f(**{**g, n: value}), name


WORDS = (
    "",
    "x",
    "-1",
    "0",
    "nan",
    "1e400",
    "[",
    "a,b",
    "{}",
    "none.nc",
    ".",
    "/",
    "\u00e9",
    "--",
    "junk.nc",
    "good.py",
)
"""What is put in place of a word on the command line."""


def command_lines():
    """Yield lists of words for the command line: every command, with junk in place of each word."""
    commands = {
        "init": ["new.py"],
        "sample": ["good.py", "--out", "run.nc"],
        "resume": ["folder", "--draws", "3"],
        "summary": ["run.nc"],
        "compare": ["run.nc", "run.nc"],
        "report": ["run.nc", "--out", "page.html"],
        "plot": ["run.nc", "--out", "page.png"],
        "completion": ["bash"],
        "paper": ["run"],
    }
    options = "data init draws tune chains thin seed kernel tilt target-accept mass ess log-evidence max-time"
    commands["sample"] += [f"--{name}" for name in f"{options} max-gradients checkpoint devices hosts".split()]
    for command, words in commands.items():
        for place, word in enumerate(words):
            for junk in WORDS:
                if word[:2] == "--":
                    yield [command, words[0], word, junk]
                else:
                    yield [command, *words[:place], junk]
    for junk in WORDS:
        yield [junk]


def clear(error):
    """Tell whether an error says what to do, or comes from a function that the user passed."""
    if isinstance(error, (ValueError, OSError)) and "To fix it," in str(error):
        return True
    last = traceback.extract_tb(error.__traceback__)[-1]
    if last.filename == __file__:
        return last.name in ("normal", "of_dict", "reached")
    return SOURCE in Path(last.filename).parents and (last.line or "").lstrip().startswith("raise ")


def try_calls(calls, count, foreign):
    """Make every call with every junk; ``count`` what comes back, and list what is ``foreign``."""
    import matplotlib.pyplot as plt

    for where, call, name in calls:
        for said, value in JUNK.items():
            if (name, said) in HUGE:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    call(iter([1]) if said == "generator" else value)
                except (Exception, SystemExit) as error:
                    good = "clear error" if clear(error) else "own error of a function passed"
                    if good != "clear error" and not callable(value):
                        good = "foreign error"
                        foreign.append((where, said, f"{type(error).__name__}: {str(error)[:150]}"))
                        print(*foreign[-1], sep=" | ", flush=True)
                    count[good] += 1
                else:
                    count["result"] += 1
        plt.close("all")
        if "--sample" in sys.argv:
            jax.clear_caches()


def try_command_lines(count, foreign):
    """Run every command with junk words; an exit status other than 0, 2 and 3 is foreign."""
    Path("good.py").write_text(
        "def log_density(x):\n    raise ValueError('the model was reached')\ninit = [0.0, 0.0]\n"
    )
    Path("junk.nc").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(200))
    for words in command_lines():
        said = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            warnings.simplefilter("ignore")
            try:
                code = command_line(words)
            except SystemExit as end:
                code = end.code
            except Exception as error:
                code = f"{type(error).__name__}: {str(error)[:150]}"
        good = "result" if code == 0 else "clear error" if code in (2, 3) else "foreign error"
        count[good] += 1
        if good == "foreign error":
            foreign.append((" ".join(words), "on the command line", f"{code}: {said.getvalue()[-150:]}"))
            print(*foreign[-1], sep=" | ", flush=True)


def main():
    os.chdir(tempfile.mkdtemp())  # some junk is a fine name of a folder
    count, foreign = Counter(), []
    build, sample = ("--build" in sys.argv), ("--sample" in sys.argv)
    if build or sample:
        try_calls(calls_of_runs(build), count, foreign)
    else:
        only = sys.argv[1] if len(sys.argv) > 1 else ""
        try_calls((call for call in all_calls() if only in call[0]), count, foreign)
        if not only:
            try_command_lines(count, foreign)
    print(f"\n{sum(count.values())} calls, {len(foreign)} foreign errors: {dict(count)}")
    sys.exit(bool(foreign))


if __name__ == "__main__":
    main()
