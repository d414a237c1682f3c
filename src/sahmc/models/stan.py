"""Models written in Stan, through BridgeStan."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sahmc._support.validate import as_path, require, require_library
from sahmc.models.model import Labels, Model
from sahmc.models.stan_predictor import StanPredictor, observed_data

RADIUS = 2.0
"""The half-width around 0 of the uniform distribution of starts, in every unconstrained coordinate; Stan's default."""
THREADS = os.cpu_count() or 1
"""The number of threads in which Stan computes gradients."""


def from_stan(model: Any, data: Mapping[str, Any] | str | os.PathLike[str] | None = None, *, seed: int = 0) -> Model:
    """Return a Stan program with its data as a ``Model``.

    ``model`` is a .stan file, the code itself, or a ``bridgestan.StanModel``, which has its data. ``data`` is a dict, a
    JSON file or JSON text. Draws are parameters, transformed parameters and generated quantities by name; ``seed`` is
    for the random numbers in generated quantities. Stan computes the gradients in threads, for all chains of a move in
    one call. It does not separate prior and likelihood. Generated quantities ``log_lik`` and ``y_rep`` become the log
    likelihoods and simulated data of ``Result.to_datatree``.
    """
    built = model if hasattr(model, "log_density_gradient") else _compiled(model, data)
    must = "a bridgestan.StanModel holds its data already"
    require(built is not model or data is None, must, "data= as well", "leave it out, or pass the .stan file")
    dim = built.param_unc_num()
    require(dim > 0, "a model must have something to sample", "no parameters", "declare some")

    def start(rng_key: Any) -> Any:
        return jax.random.uniform(rng_key, (dim,), jnp.result_type(float), -RADIUS, RADIUS)

    def unconstrain(variables: Mapping[str, Any]) -> Any:
        values = {name: np.asarray(value).tolist() for name, value in variables.items()}
        return jnp.asarray(built.param_unconstrain_json(json.dumps(values)), jnp.result_type(float))

    return Model(
        log_density=_log_density(built, dim),
        start=start,
        constrain=_constrain(built, seed),
        unconstrain=unconstrain,
        labels=Labels(observed_data=_observed(built)),
        predictor=StanPredictor(),
    )


def _observed(model: Any) -> dict[str, np.ndarray]:
    """Return the data that a model's generated quantities simulate."""
    names = {_variable(name) for name in model.param_names(include_tp=True, include_gq=True)}
    data = json.loads(getattr(model, "data", "") or "{}")
    return observed_data(data, sorted(names))


def _compiled(model: Any, data: Any) -> Any:
    """Return the ``bridgestan.StanModel`` of a .stan file, or of code, with its data."""
    require_library("bridgestan", "stan")
    import bridgestan

    code = isinstance(model, str) and ("{" in model or "\n" in model)
    path = _code_file(model) if code else as_path(model, "model")
    require(path.suffix == ".stan", "a Stan program is a .stan file or its code", str(path), "check the name")
    require(path.is_file(), "the Stan program must exist", str(path), "check the path")
    text = json.dumps(_plain(data)) if isinstance(data, Mapping) else None if data is None else os.fspath(data)
    try:
        return bridgestan.StanModel.from_stan_file(str(path), text, capture_stan_prints=False)
    except Exception as error:
        raise ValueError(
            f"{path} could not be compiled: {error}. To fix it, mend the program; or, if BridgeStan cannot get its "
            "sources or finds no compiler, install g++ and make, download the sources of BridgeStan on a machine that "
            "can, and call bridgestan.set_bridgestan_path(folder)."
        ) from error


def _code_file(code: str) -> Path:
    """Write Stan code to a file in a folder named after its content, so that the same code is compiled once."""
    folder = Path(tempfile.gettempdir()) / f"sahmc-stan-{hashlib.blake2b(code.encode(), digest_size=8).hexdigest()}"
    folder.mkdir(exist_ok=True)
    path = folder / "model.stan"
    if not path.exists():
        path.write_text(code)
    return path


def _plain(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.asarray(value).tolist() for name, value in data.items()}


def _log_density(model: Any, dim: int) -> Callable[[Any], Any]:
    """Return the log density as a JAX function with a gradient; Stan's ``reject`` means density zero.

    One call to Stan computes both, for a whole batch of positions.
    """

    def one(position: np.ndarray) -> tuple[float, np.ndarray]:
        try:
            return model.log_density_gradient(position, propto=True, jacobian=True)
        except RuntimeError:
            return -np.inf, np.zeros(dim)

    def batch(positions: Any) -> tuple[np.ndarray, np.ndarray]:
        kind = np.asarray(positions).dtype
        flat = np.ascontiguousarray(np.asarray(positions, np.float64).reshape(-1, dim))
        found = list(_map(one, flat))
        with np.errstate(over="ignore"):  # in single precision infinite, as in JAX
            values = np.array([value for value, _ in found], kind).reshape(np.shape(positions)[:-1])
            return values, np.array([gradient for _, gradient in found], kind).reshape(np.shape(positions))

    def both(position: Any) -> Any:
        shapes = (jax.ShapeDtypeStruct((), position.dtype), jax.ShapeDtypeStruct(position.shape, position.dtype))
        return jax.pure_callback(batch, shapes, position, vmap_method="expand_dims")

    @jax.custom_vjp
    def log_density(position: Any) -> Any:
        return both(position)[0]

    log_density.defvjp(both, lambda gradient, cotangent: (cotangent * gradient,))
    return log_density


def _map(fn: Callable[[np.ndarray], Any], rows: np.ndarray) -> Iterator[Any]:
    """Apply ``fn`` to every row, in threads that share the rows: Stan computes without Python's lock."""
    shares = np.array_split(rows, min(THREADS, len(rows)))
    if len(shares) < 2:
        return map(fn, rows)
    done = _threads().map(lambda share: [fn(row) for row in share], shares)
    return (found for share in done for found in share)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="stan")


def _constrain(model: Any, seed: int) -> Callable[[Any], dict[str, Any]]:
    """Return the map from a position to parameters, transformed parameters and generated quantities, by name.

    ``seed`` is for the random numbers in generated quantities.
    """
    names = model.param_names(include_tp=True, include_gq=True)
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(_variable(name), []).append(place)
    shapes = {name: _shape([names[place] for place in own]) for name, own in places.items()}
    rng = model.new_rng(seed)

    def one(position: np.ndarray) -> np.ndarray:
        return model.param_constrain(position, include_tp=True, include_gq=True, rng=rng)

    def batch(positions: Any) -> np.ndarray:
        flat = np.asarray(positions, np.float64)
        found = [one(row) for row in flat.reshape(-1, flat.shape[-1])]
        return np.array(found, np.asarray(positions).dtype).reshape(*flat.shape[:-1], len(names))

    def constrain(position: Any) -> dict[str, Any]:
        shape = jax.ShapeDtypeStruct((len(names),), position.dtype)
        values = jax.pure_callback(batch, shape, position, vmap_method="expand_dims")
        # Stan numbers elements with the first index fastest
        return {name: values[np.array(own)].reshape(shapes[name], order="F") for name, own in places.items()}

    return constrain


def _variable(name: str) -> str:
    """Return the variable name of an element, without its indices, such as "x" of "x.2.1".

    The parts of a complex number or a tuple count as separate variables.
    """
    match = re.fullmatch(r"(.*?)((?:\.\d+)*)", name)
    assert match is not None
    return match[1]


def _shape(names: list[str]) -> tuple[int, ...]:
    """Return the shape of a variable, from the indices of its last element."""
    last = names[-1].removeprefix(_variable(names[-1]))
    return tuple(int(index) for index in last.split(".")[1:])
