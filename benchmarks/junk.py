"""Junk in every argument of every public function: what comes back is a result or a clear error, and how often.

    python benchmarks/junk.py            # every call, with tiny runs: 15 minutes
    python benchmarks/junk.py --build    # only what a run is made of, without a run: seconds

A clear error says what must hold, what was given and what to do. Anything else that is raised is listed.
"""

from __future__ import annotations

import inspect
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

mpl.use("Agg")
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


def normal(x):
    return -0.5 * jnp.sum(x**2)


def sampled(**arguments):
    given = {"model": normal, "initvals": jnp.zeros(2), **TINY, **arguments}
    return sahmc.sample(given.pop("model"), given.pop("initvals"), **given)


def calls(build):
    """Yield (name, function of one argument's value) for each argument of each public function.

    With ``build`` nothing is sampled.
    """
    for name in () if build else inspect.signature(sahmc.sample).parameters:
        yield f"sample({name})", lambda value, name=name: sampled(**{name: value}), name
    yield "resume(checkpoint)", sahmc.resume, "checkpoint"
    makers = {
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
    }
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
    }
    for what, (maker, usual, more) in makers.items():
        for name in inspect.signature(maker).parameters:

            def make(value, maker=maker, usual=usual, more=more, name=name, what=what):
                made = maker(**{**usual, name: value})
                return made if build else places[what](made, more)

            yield f"{what}({name})", make, name
    yield "Result.load(path)", sahmc.Result.load, "path"
    if build:
        return
    result = sampled(tilt="tempered", save_warmup=True)
    for method in ("expectation", "quantile", "modes", "summary", "to_datatree", "save", "log_evidence", "resample"):
        bound = getattr(result, method, None)
        if bound is None:
            continue
        usual = {"save": {"path": None}}.get(method, {})
        for name, parameter in inspect.signature(bound).parameters.items():
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue

            def ask(value, bound=bound, name=name, usual=usual, method=method):
                arguments = {**usual, name: value}
                if method == "save" and name != "path":
                    with tempfile.TemporaryDirectory() as folder:
                        return bound(**{**arguments, "path": Path(folder) / "run.nc"})
                return bound(**arguments)

            yield f"Result.{method}({name})", ask, name
    for name in ("plot_energy", "plot_marginal", "plot_overview", "plot_pair", "plot_theta", "plot_visits"):
        plot = getattr(sahmc, name)
        for argument in list(inspect.signature(plot).parameters)[1:]:
            yield f"{name}({argument})", lambda value, plot=plot, a=argument: plot(result, **{a: value}), argument
    yield "write_report(path)", lambda value: sahmc.write_report(result, value), "path"
    for name in ("from_numpyro", "from_pymc", "from_stan"):
        maker = getattr(sahmc, name)
        for argument in list(inspect.signature(maker).parameters)[:1]:
            yield f"{name}({argument})", maker, argument


def clear(error):
    """Tell whether an error says what to do, or comes from a function that the user passed."""
    if isinstance(error, (ValueError, OSError)) and "To fix it," in str(error):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    return frames[-1].filename == __file__ and frames[-1].name == "normal"


def main():
    import matplotlib.pyplot as plt

    os.chdir(tempfile.mkdtemp())  # some junk is a fine name of a folder
    count, foreign = Counter(), []
    for where, call, name in calls("--build" in sys.argv):
        for said, value in JUNK.items():
            if (name, said) in HUGE:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    call(value)
                except (Exception, SystemExit) as error:
                    good = "clear error" if clear(error) else "own error of a function passed"
                    if good != "clear error" and not callable(value):
                        good = "other error"
                    count[good] += 1
                    if good == "other error":
                        foreign.append((where, said, f"{type(error).__name__}: {str(error)[:150]}"))
                        print(*foreign[-1], sep=" | ", flush=True)
                else:
                    count["result"] += 1
        plt.close("all")
        jax.clear_caches()
    print(f"\n{sum(count.values())} calls: {dict(count)}")
    sys.exit(bool(foreign))


if __name__ == "__main__":
    main()
