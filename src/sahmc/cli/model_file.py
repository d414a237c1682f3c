"""Models in files, for the command line."""

from __future__ import annotations

import json
import runpy
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sahmc._support.validate import require

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from sahmc.models.model import Model

EXAMPLE = '''"""A posterior for sahmc. Run it with

    sahmc sample {name} --out run.nc
    sahmc report run.nc
"""

import jax.numpy as jnp

# Where chains start: one position. Any nesting of dicts, lists and arrays of floats will do.
init = {{"location": jnp.zeros(2), "log_scale": 0.0}}


def log_density(position):
    """The log posterior density at one position, up to a constant, written with jax.numpy.

    This one has two modes, near (-4, -4) and (4, 4), the second with two thirds of the mass. HMC, started at 0, would
    stay in whichever it falls into first.
    """
    x, log_scale = position["location"], position["log_scale"]
    near = -0.5 * jnp.sum((x + 4.0) ** 2) + jnp.log(1 / 3)
    far = -0.5 * jnp.sum((x - 4.0) ** 2) + jnp.log(2 / 3)
    return jnp.logaddexp(near, far) - 0.5 * log_scale**2


# In place of log_density a file may hold `model = sahmc.Model(log_likelihood=..., log_prior=..., start=...)`:
# the evidence is then known, and init may be left out. Or a model of PyMC, or `sahmc.from_numpyro(function, data)`.
'''


def load_model(spec: str, init: str | None, data: str | None) -> tuple[object, object]:
    """Load a model and its start, if any, from ``FILE.py``, ``FILE.py:name``, or a Stan program, ``FILE.stan``.

    ``init`` is for a Python file: a name defined there, comma-separated numbers, or a position in JSON, as text or in
    a file. ``data`` is a JSON file for a Stan program.
    """
    file, _, name = spec.partition(":")
    path = Path(file)
    must = "a model is a Python file, FILE.py or FILE.py:name, or a Stan program, FILE.stan"
    require(path.suffix in (".py", ".stan"), must, spec, "try: sahmc init model.py")
    require(path.is_file(), "the model file must exist", file, f"check the path, or make one with: sahmc init {file}")
    if path.suffix == ".stan":
        return _stan_program(path, init, data)
    require(data is None, "--data is for a Stan program", f"{file} with --data {data}", "read the data in the file")
    try:
        content = runpy.run_path(str(path))
    except (Exception, SystemExit) as error:
        line = (
            traceback.extract_tb(error.__traceback__)[-1].lineno if not isinstance(error, SyntaxError) else error.lineno
        )
        raise ValueError(f"{file} does not run: {type(error).__name__}: {error} (line {line})") from error
    for wanted in [name] if name else ["model", "log_density"]:
        if wanted in content:
            return content[wanted], _start(content, init, file)
    must = (
        f"{file} must hold {name!r}"
        if name
        else f"{file} must hold a function log_density or a sahmc.Model named model"
    )
    found = ", ".join(sorted(k for k, v in content.items() if not k.startswith("_") and callable(v))) or "no function"
    require(False, must, found, "name one that is there: FILE.py:function")
    raise AssertionError


def _stan_program(path: Path, init: str | None, data: str | None) -> tuple[Model, None]:
    from sahmc.models.stan import from_stan

    require(init is None, "the starts of a Stan program are drawn as Stan does", f"--init {init}", "leave it out")
    ok = data is None or Path(data).is_file()
    require(ok, "--data must be a JSON file that exists", data, "check the path")
    return from_stan(path, data), None


def _start(content: Mapping[str, object], init: str | None, file: str) -> object:
    """Return where chains start: ``init`` as given, or that of the file with this ``content``."""
    if init is None:
        return content.get("init")
    if init in content:
        return content[init]
    path = Path(init)
    text = path.read_text() if path.suffix == ".json" and path.is_file() else init
    if not text.lstrip().startswith(("{", "[")):
        text = f"[{text}]"
    must = f"--init must be numbers with commas, JSON, or the name of something in {file}"
    todo = """try --init 0,0 or --init '{"mu": [0, 1]}'"""
    try:
        return _position(json.loads(text))
    except ValueError:
        raise ValueError(f"{must}; got {init!r}. To fix it, {todo}.") from None


def _position(plain: object) -> PyTree:
    """Return a position from JSON, with lists and numbers as arrays; a list of dicts has one for each chain.

    Raise ``ValueError`` for anything that is not a number.
    """
    import jax.numpy as jnp

    if isinstance(plain, dict):
        return {name: _position(value) for name, value in plain.items()}
    if isinstance(plain, list) and any(isinstance(one, dict) for one in plain):
        return [_position(one) for one in plain]
    numbers = np.asarray(plain)
    if numbers.dtype.kind not in "if" or not numbers.size:
        raise ValueError
    return jnp.asarray(numbers, float)
