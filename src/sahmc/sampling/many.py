"""The function ``sample_many``: one model, many data sets."""

from __future__ import annotations

import dataclasses
import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sahmc._support.processes import Processes
from sahmc._support.types import PositionFn
from sahmc._support.validate import as_path, as_rng, require, require_count, require_flag, require_writable
from sahmc.models.convert import has_sites
from sahmc.models.model import Model
from sahmc.models.numpyro import is_numpyro_model
from sahmc.progress.display import progress
from sahmc.progress.progress import Progress
from sahmc.results.result import Result
from sahmc.sampling import sample
from sahmc.sampling.collect import DataSetError, Pool, make_calls

Options = Mapping[str, Any]
"""Arguments of ``sample`` by name."""
OURS = ("model_args", "model_kwargs", "callback", "checkpoint", "progressbar")
"""The arguments of ``sample`` that are set for each data set."""
MOST_LINES = 20
"""The maximum number of data sets listed in a warning or an error."""
DATA_SETS = "data sets"
"""The name under which progress is shown."""


def sample_many(
    model: Callable[..., object] | Model,
    datasets: Sequence[object],
    initvals: object = None,
    *,
    each: Sequence[Options] | None = None,
    random_seed: int | np.integer | np.random.Generator | None = None,
    cores: int | None = None,
    executor: Pool | None = None,
    checkpoint: str | Path | None = None,
    errors: Literal["raise", "return"] = "raise",
    progressbar: bool = True,
    **options: Any,
) -> list[Any]:
    """Draw from the posteriors of one model for many data sets, and return the results in the same order.

    In each process, the model is compiled once for all data sets of the same shape. A warning lists the data sets with
    findings. If a data set fails, you still get the results of the others.

    Parameters
    ----------
    model
        A function from a position and the data to a log density; a ``Model`` whose log likelihood (or log density) is
        such a function; or a NumPyro model, a function of the data.
    datasets
        The data sets, a list. A tuple holds positional arguments of the model, a dict its keyword arguments; anything
        else is its only argument.
    initvals
        As for ``sample``, the same for all data sets.
    each
        The arguments of ``sample`` that differ between data sets, a list with a dict for each: ``[{"initvals": x} for x
        in starts]``. If None, the default, there are none.
    random_seed
        An int or a NumPy ``Generator``. Each data set gets its own seed from it, recorded in ``Result.settings``. If
        None, the default, seeds are chosen at random, or taken from the folder ``checkpoint``.
    cores
        The number of CPU cores, an int. As many processes share the data sets, even if there is a GPU: a few chains on
        a small model would leave it idle. If a process dies, it is replaced and its data set is run once more. If None,
        the default, data sets run here one after the other.
    executor
        Any executor of ``concurrent.futures``, to which data sets are submitted one by one. Examples are a
        ``ProcessPoolExecutor`` that spawns, Dask's ``client.get_executor()`` and ``submitit.AutoExecutor``. A lost data
        set is run once more, on ``cores`` if the executor is broken for good. None by default.
    checkpoint
        A folder with one subfolder for each data set, as for ``sample``. Complete data sets are read back when you
        repeat the call. If None, the default, nothing is written.
    errors
        What happens to failed data sets, once all others are finished. "raise", the default, raises
        ``sahmc.DataSetError``, which names them and has the other results in ``results``. If all fail with the same
        error, that error is raised. "return" puts the exception of a failed data set in its place in the list.
    progressbar
        Whether to show how many data sets are done, a bool; displayed as for ``sample``. Default True.
    options
        Further arguments of ``sample``.
    """
    ok = callable(model) or isinstance(model, Model)
    require(ok, "model must be a function of a position and the data, or a Model", model, "pass a function")
    ok = isinstance(datasets, (list, tuple)) and len(datasets) > 0
    require(ok, "datasets must be a list of data sets", type(datasets).__name__, "pass a list with at least one")
    require_flag(progressbar, "progressbar")
    ok = isinstance(errors, str) and errors in ("raise", "return")
    require(ok, 'errors must be "raise" or "return"', errors, "pass one of them")
    each = _checked(each, len(datasets))
    taken = sorted({name for given in (options, *each) for name in given if name in OURS})
    require(not taken, "these arguments are made for each data set", taken, "leave them out")
    ok = executor is None or callable(getattr(executor, "submit", None))
    require(ok, "executor must have a method submit", executor, "pass one of concurrent.futures")
    require(cores is None or executor is None, "cores makes an executor", "cores= and executor=", "leave one out")
    if cores is not None:
        require_count(cores, "cores")
    ok = random_seed is None or isinstance(random_seed, (int, np.integer, np.random.Generator))
    require(ok, "random_seed must be an int, a NumPy Generator or None", random_seed, "pass one of these")
    folder = None if checkpoint is None else as_path(checkpoint, "checkpoint")
    seeds = [None] * len(datasets)  # each then draws its own seed, or finds it in its folder
    if random_seed is not None:
        seeds = as_rng(random_seed, "random_seed").integers(2**31, size=len(datasets)).tolist()
    places = [None if folder is None else folder / f"{i:05d}" for i in range(len(datasets))]
    calls = [
        partial(_one, model, data, {"initvals": initvals, **options, "random_seed": seed, "checkpoint": place, **own})
        for data, seed, place, own in zip(datasets, seeds, places, each, strict=True)
    ]
    if folder is not None:
        if not folder.exists():
            require_writable(folder)
        folder.mkdir(parents=True, exist_ok=True)
    with (
        progress({DATA_SETS: len(calls)}, progressbar) as report,
        Processes(min(cores, len(calls))) if cores is not None else nullcontext(executor) as pool,
    ):
        results = make_calls(calls, pool, lambda: report(Progress(DATA_SETS, 1, math.nan, 0, 1, 1, 0)))
    for i, found in enumerate(results):
        if isinstance(found, Exception):
            found.add_note(f"this was data set {i} of sample_many, counted from 0")
    if errors == "raise":
        _raise(results)
    _warn(results)
    return results


def _checked(each: Sequence[Options] | None, num: int) -> list[Options]:
    """Return the arguments of each of ``num`` data sets; ``each`` is the user's argument."""
    if each is None:
        return [{}] * num
    ok = isinstance(each, (list, tuple)) and all(isinstance(given, Mapping) for given in each)
    require(ok, "each must be a list of dicts, arguments of sample", each, 'pass [{"initvals": x}, ...]')
    must = f"each must have {num} dicts, one for each data set"
    require(len(each) == num, must, f"{len(each)} dicts", "match them")
    return list(each)


def _raise(results: list[Result | Exception]) -> None:
    """Raise one error for all failed data sets, if any."""
    failed = {i: found for i, found in enumerate(results) if isinstance(found, Exception)}
    if not failed:
        return
    first = next(iter(failed.values()))
    if len(failed) == len(results) and len({_words(error) for error in failed.values()}) == 1:
        raise first  # most likely the model or an argument is wrong
    lines = _lines([f"  - data set {i}: {_words(error)}" for i, error in failed.items()])
    left = len(results) - len(failed)
    todo = 'To fix it, see the error of each, which is at its place there; errors="return" returns such a list.'
    head = f"{len(failed)} of {len(results)} data sets failed; the results of the other {left} are in results of this"
    raise DataSetError(f"{head} error:\n{lines}\n{todo}", results) from first


def _warn(results: list[Result | Exception]) -> None:
    """Give a warning about data sets that failed or have findings."""
    lines = []
    for i, found in enumerate(results):
        if isinstance(found, Exception):
            lines.append(f"  - data set {i} failed: {_words(found)}")
        elif found.findings:
            codes = sorted({f"{finding.severity} {finding.code}" for finding in found.findings})
            lines.append(f"  - data set {i}: {', '.join(codes)}")
    if lines:
        head = f"sahmc found problems with {len(lines)} of {len(results)} data sets (Result.findings of each):"
        warnings.warn(f"{head}\n{_lines(lines)}", stacklevel=3)


def _words(error: Exception) -> str:
    """Return the type of an error and the first line of its message."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def _lines(lines: list[str]) -> str:
    """Return the first lines as one text."""
    return "\n".join(lines[:MOST_LINES] + ["  - ..."] * (len(lines) > MOST_LINES))


def _one(model: Callable[..., object] | Model, data: object, options: Options) -> Result:
    """Return the result of one data set."""
    args = data if isinstance(data, tuple) else () if isinstance(data, dict) else (data,)
    kwargs = data if isinstance(data, dict) else {}

    def given(function: Callable[..., object]) -> PositionFn:
        _require_data(function, args, kwargs)
        return lambda x: function(x, *args, **kwargs)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "sahmc found problems")  # they are reported together
        if isinstance(model, Model):
            name = "log_likelihood" if model.has_prior else "log_density"
            change: dict[str, Any] = {name: given(getattr(model, name))}
            posterior: object = dataclasses.replace(model, **change)
        elif _is_of_numpyro(model, args, kwargs):
            return sample(model, model_args=args, model_kwargs=kwargs, progressbar=False, **options)
        else:
            posterior = given(model)
        return sample(posterior, progressbar=False, **options)


def _is_of_numpyro(model: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]) -> bool:
    """Tell whether a model is a NumPyro model, a function of the data alone."""
    try:
        return is_numpyro_model(model, args, kwargs)
    except Exception:  # a log density, which takes the data for a position
        if has_sites(model):
            raise
        return False


def _require_data(function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
    """Raise ``ValueError`` for a function that cannot be called with a position and the data."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions have none
        return
    position, wrong = () if has_sites(function) else (None,), ""
    try:
        signature.bind(*position, *args, **kwargs)
    except TypeError as error:
        wrong = str(error)
    must = "model must take a position and the data, or the data alone if it is one of NumPyro"
    given = f"{getattr(function, '__name__', type(function).__name__)}{signature}: {wrong}"
    todo = "write log_density(x, data); a tuple is several arguments, a dict those of its names"
    require(not wrong, must, given, todo)
