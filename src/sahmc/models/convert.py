"""Conversion of anything that ``sample`` takes into a ``Model``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any

from sahmc._support.validate import require
from sahmc.models.model import Model


def as_model(model: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Model:
    """Return a ``Model`` for what ``sample`` was given.

    ``model`` is a log density, a ``Model``, or a model of NumPyro, PyMC or BridgeStan. ``args`` and ``kwargs`` are the
    arguments of a NumPyro model, and must be empty for any other.
    """
    require(isinstance(args, tuple), "model_args must be a tuple", args, "write model_args=(x, y)")
    ok = kwargs is None or (isinstance(kwargs, Mapping) and all(isinstance(name, str) for name in kwargs))
    require(ok, "model_kwargs must be a dict by the names of arguments", kwargs, 'write model_kwargs={"y": y}')
    if is_of_numpyro(model, args, kwargs or {}):
        from sahmc.models.numpyro import from_numpyro

        return from_numpyro(model, *args, **(kwargs or {}))
    must = "model_args and model_kwargs are for a model of NumPyro"
    advice = "write the data into the function: lambda x: log_density(x, data)"
    require(not args and not kwargs, must, f"{type(model).__name__} without a site of NumPyro", advice)
    if isinstance(model, Model):
        return model
    if "pymc" in sys.modules and isinstance(model, sys.modules["pymc"].Model):
        from sahmc.models.pymc import from_pymc

        return from_pymc(model)
    if hasattr(model, "log_density_gradient") and hasattr(model, "param_unc_num"):
        from sahmc.models.stan import from_stan

        return from_stan(model)
    must = "model must be a log density, a Model, or a model of NumPyro, PyMC or BridgeStan"
    require(callable(model), must, model, "pass a function")
    needed = _needed(model)
    require(
        len(needed) < 2,
        "a log density is a function of one position",
        f"{getattr(model, '__name__', type(model).__name__)}({', '.join(needed)})",
        "pass the arguments of a NumPyro model as model_args=(...), or write data into the function: "
        "lambda x: log_density(x, data)",
    )
    return Model(log_density=model)


def is_of_numpyro(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Tell whether ``model`` is one of NumPyro, with these arguments."""
    if "numpyro" not in sys.modules or not callable(model):
        return False
    from sahmc.models.numpyro import is_numpyro_model

    return is_numpyro_model(model, args, kwargs)


def _needed(function: Any) -> list[str]:
    """Return the names of the positional arguments without a default; none where that cannot be known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [
        p.name for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
