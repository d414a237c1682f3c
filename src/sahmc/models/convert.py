"""Conversion of anything that ``sample`` accepts into a ``Model``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from os import PathLike
from typing import Any

from sahmc._support.validate import require
from sahmc.models.model import Model
from sahmc.models.numpyro import from_numpyro, is_numpyro_model
from sahmc.models.numpyro_predictor import Args, Kwargs
from sahmc.models.pymc import from_pymc
from sahmc.models.stan import from_stan


def model_in_context(model: object) -> object:
    """Return the given model or, if that is None, the PyMC model of the surrounding ``with`` block."""
    if model is None and "pymc" in sys.modules:
        with suppress(TypeError):  # there is no such block
            model = sys.modules["pymc"].modelcontext(None)
    require(
        model is not None,
        "a model must be passed, unless the call is inside `with model:` of PyMC",
        "none",
        "write sahmc.sample(model)",
    )
    return model


def as_model(model: Any, args: Args = (), kwargs: Kwargs | None = None) -> Model:
    """Return a ``Model`` for what the user passed to ``sample``.

    ``model`` is a log density, a ``Model``, or a model of NumPyro, PyMC, Bambi or BridgeStan. ``args`` and ``kwargs``
    are the arguments of a NumPyro model, and must be empty for any other.
    """
    require(isinstance(args, tuple), "model_args must be a tuple", args, "write model_args=(x, y)")
    ok = kwargs is None or (isinstance(kwargs, Mapping) and all(isinstance(name, str) for name in kwargs))
    require(ok, "model_kwargs must be a dict by the names of arguments", kwargs, 'write model_kwargs={"y": y}')
    kwargs = kwargs or {}
    must = "model_args and model_kwargs are for a model of NumPyro"
    advice = "write the data into the function: lambda x: log_density(x, data)"
    try:
        of_numpyro = is_numpyro_model(model, args, kwargs)
    except Exception as error:
        if has_sites(model) or not (args or kwargs):
            raise
        got = f"a function that fails with them ({type(error).__name__}: {str(error).splitlines()[0]})"
        raise ValueError(f"{must}; got {got}. To fix it, {advice}.") from error
    if of_numpyro:
        return from_numpyro(model, *args, **kwargs)
    _require_arguments(model, args, kwargs)
    require(not args and not kwargs, must, f"{type(model).__name__} without a site of NumPyro", advice)
    if isinstance(model, Model):
        return model
    model = _of_bambi(model)
    if "pymc" in sys.modules and isinstance(model, sys.modules["pymc"].Model):
        return from_pymc(model)
    if hasattr(model, "log_density_gradient") and hasattr(model, "param_unc_num"):
        return from_stan(model)
    must = "model must be a log density, a Model, or a model of NumPyro, PyMC, Bambi or BridgeStan"
    require(callable(model), must, model, _advice(model))
    needed = _needed(model)
    require(
        len(needed) < 2,
        "a log density is a function of one position",
        f"{getattr(model, '__name__', type(model).__name__)}({', '.join(needed)})",
        "pass the arguments of a NumPyro model as model_args=(...), or write data into the function: "
        "lambda x: log_density(x, data)",
    )
    return Model(log_density=model)


def _advice(model: object) -> str:
    """Return advice on what to pass instead of something that is not a model."""
    if isinstance(model, (str, PathLike)) and str(model).endswith(".stan"):
        return f"pass sahmc.from_stan({str(model)!r}, data=...)"
    if type(model).__module__.startswith("numpyro."):
        return "pass the model itself, the function with numpyro.sample in it, and its arguments as model_args=(...)"
    return "pass a function"


def _of_bambi(model: Any) -> Any:
    """Return the PyMC model of a Bambi model, built if necessary; return anything else unchanged."""
    if type(model).__module__.partition(".")[0] != "bambi" or not hasattr(model, "build"):
        return model
    if not getattr(model, "built", False):
        model.build()
    return model.backend.model


def _require_arguments(model: Any, args: Args, kwargs: Kwargs) -> None:
    """Raise ``ValueError`` for a NumPyro model that cannot be called with these arguments."""
    if not has_sites(model):
        return
    signature, name = inspect.signature(model), getattr(_plain(model), "__name__", "model")
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        known = signature.parameters
        needed = "".join(f"{p.name}, " for p in known.values() if p.default is p.empty).rstrip(" ")
        raise ValueError(
            f"a NumPyro model must be given its arguments; got {name}({', '.join(known)}) with model_args="
            f"{_short(args)} and model_kwargs={_short(kwargs)}: {error}. To fix it, pass model_args=({needed}), data "
            "among them."
        ) from None


def _short(values: Args | Kwargs) -> str:
    """Return arguments as text, with their values left out."""
    if isinstance(values, Mapping):
        return "{" + ", ".join(f"{name!r}: ..." for name in values) + "}"
    return "(" + ", ".join("..." for _ in values) + ")"


def _plain(function: object) -> object:
    """Return the innermost wrapped function; return anything but a function unchanged."""
    if callable(function):
        function = inspect.unwrap(function, stop=lambda f: not callable(f))
    while isinstance(function, partial):
        function = function.func
    return function


def has_sites(model: object) -> bool:
    """Tell whether a model is a function that refers to ``numpyro.sample`` and does not trace the sites itself."""
    function = _plain(model)
    if "numpyro" not in sys.modules or not inspect.isfunction(function):
        return False
    numpyro = sys.modules["numpyro"]
    try:
        names = inspect.getclosurevars(function)
    except (TypeError, ValueError):
        return False
    known = [*names.globals.values(), *names.nonlocals.values()]
    if "trace" in names.unbound or any(x is numpyro.handlers.trace for x in known):
        return False
    return any(x is numpyro.sample or (x is numpyro and "sample" in names.unbound) for x in known)


def _needed(function: Any) -> list[str]:
    """Return the names of the positional arguments without a default; empty if unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [
        p.name for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
