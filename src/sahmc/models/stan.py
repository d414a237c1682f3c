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
from typing import Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from sahmc._support.validate import as_path, require, require_library
from sahmc.models.model import Labels, Model
from sahmc.models.stan_predictor import StanPredictor, replicated

StanModel: TypeAlias = Any
"""A ``bridgestan.StanModel``, or anything with its methods."""
Data = Mapping[str, Any] | str | os.PathLike[str]
"""The data of a program: a dict, a JSON file or JSON text."""
Found = TypeVar("Found")

RADIUS = 2.0
"""The half-width around 0 of the uniform distribution of starts, in every unconstrained coordinate; Stan's default."""
THREADS = os.cpu_count() or 1
"""The number of threads in which Stan computes gradients."""


def from_stan(model: StanModel, data: Data | None = None, *, seed: int = 0) -> Model:
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

    def start(rng_key: jax.Array) -> jax.Array:
        return jax.random.uniform(rng_key, (dim,), jnp.result_type(float), -RADIUS, RADIUS)

    def unconstrain(variables: Mapping[str, object]) -> jax.Array:
        return jnp.asarray(built.param_unconstrain_json(_json(variables)), jnp.result_type(float))

    return Model(
        log_density=_log_density(built, dim),
        start=start,
        constrain=_constrain(built, seed),
        unconstrain=unconstrain,
        labels=Labels(observed_data=_observed(built)),
        predictor=StanPredictor(),
    )


def _observed(model: StanModel) -> dict[str, np.ndarray]:
    """Return the data that a model's generated quantities simulate."""
    names = {_variable(name) for name in model.param_names(include_tp=True, include_gq=True)}
    data = json.loads(getattr(model, "data", "") or "{}")
    return {name: np.asarray(data[name]) for name in replicated(sorted(names)) if name in data}


def _compiled(model: object, data: Data | None) -> StanModel:
    """Return the ``bridgestan.StanModel`` of a .stan file, or of code, with its data."""
    require_library("bridgestan", "stan")
    import bridgestan

    code = model if isinstance(model, str) and ("{" in model or "\n" in model) else None
    path = as_path(model, "model") if code is None else _code_file(code)
    require(path.suffix == ".stan", "a Stan program is a .stan file or its code", str(path), "check the name")
    require(path.is_file(), "the Stan program must exist", str(path), "check the path")
    text = _json(data) if isinstance(data, Mapping) else None if data is None else os.fspath(data)
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


def _json(values: Mapping[str, object]) -> str:
    return json.dumps({name: np.asarray(value).tolist() for name, value in values.items()})


def _log_density(model: StanModel, dim: int) -> Callable[[jax.Array], jax.Array]:
    """Return the log density as a JAX function with a gradient; Stan's ``reject`` means density zero.

    One call to Stan computes both, for a whole batch of positions.
    """

    def one(position: np.ndarray) -> tuple[float, np.ndarray]:
        try:
            return model.log_density_gradient(position, propto=True, jacobian=True)
        except RuntimeError:
            return -np.inf, np.zeros(dim)

    def batch(positions: jax.Array | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        kind = positions.dtype
        flat = np.ascontiguousarray(np.asarray(positions, np.float64).reshape(-1, dim))
        found = list(_map(one, flat))
        with np.errstate(over="ignore"):  # in single precision infinite, as in JAX
            values = np.array([value for value, _ in found], kind).reshape(np.shape(positions)[:-1])
            return values, np.array([gradient for _, gradient in found], kind).reshape(np.shape(positions))

    def both(position: jax.Array) -> tuple[jax.Array, jax.Array]:
        shapes = (jax.ShapeDtypeStruct((), position.dtype), jax.ShapeDtypeStruct(position.shape, position.dtype))
        return jax.pure_callback(batch, shapes, position, vmap_method="expand_dims")

    @jax.custom_vjp
    def log_density(position: jax.Array) -> jax.Array:
        return both(position)[0]

    log_density.defvjp(both, lambda gradient, cotangent: (cotangent * gradient,))
    return log_density


def _map(fn: Callable[[np.ndarray], Found], rows: np.ndarray) -> Iterator[Found]:
    """Apply ``fn`` to every row, in threads that share the rows: Stan computes without Python's lock."""
    shares = np.array_split(rows, min(THREADS, len(rows)))
    if len(shares) < 2:
        return map(fn, rows)
    done = _threads().map(lambda share: [fn(row) for row in share], shares)
    return (found for share in done for found in share)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="stan")


def _constrain(model: StanModel, seed: int) -> Callable[[jax.Array], dict[str, jax.Array]]:
    """Return the map from a position to parameters, transformed parameters and generated quantities, by name.

    ``seed`` is for the random numbers in generated quantities.
    """
    names = model.param_names(include_tp=True, include_gq=True)
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(_variable(name), []).append(place)
    shapes = {name: _shape([names[place] for place in own]) for name, own in places.items()}
    rng = model.new_rng(seed)

    def batch(positions: jax.Array | np.ndarray) -> np.ndarray:
        rows = np.asarray(positions, np.float64).reshape(-1, positions.shape[-1])
        found = [model.param_constrain(row, include_tp=True, include_gq=True, rng=rng) for row in rows]
        return np.array(found, positions.dtype).reshape(*positions.shape[:-1], len(names))

    def constrain(position: jax.Array) -> dict[str, jax.Array]:
        shape = jax.ShapeDtypeStruct((len(names),), position.dtype)
        values = jax.pure_callback(batch, shape, position, vmap_method="expand_dims")
        # Stan numbers elements with the first index fastest
        return {name: values[np.array(own)].reshape(shapes[name], order="F") for name, own in places.items()}

    return constrain


def _variable(name: str) -> str:
    """Return the variable name of an element, without its indices, such as "x" of "x.2.1".

    The parts of a complex number or a tuple count as separate variables.
    """
    return re.sub(r"(\.\d+)+\Z", "", name)


def _shape(names: list[str]) -> tuple[int, ...]:
    """Return the shape of a variable, from the indices of its last element."""
    last = names[-1].removeprefix(_variable(names[-1]))
    return tuple(int(index) for index in last.split(".")[1:])
