"""Files that store the record of a run."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from sahmc._support.frozen import thawed
from sahmc._support.types import Position
from sahmc._support.validate import as_new_file, as_path, require, require_library
from sahmc.models.model import Labels
from sahmc.models.positions import named
from sahmc.results.datatree import to_datatree, tree_variables
from sahmc.results.records import Counts, DrawRecord, Finding, ModeAssignment, RunRecord, ThetaRecord, ThetaTrace
from sahmc.results.stores import (
    CHECKSUM,
    Streamed,
    checksum,
    rename,
    require_safe_zarr,
    restore,
    unescaped,
    write_store,
)
from sahmc.results.warmup_record import Climb, LearntReference, Pilot, Rung, SearchPower, WarmupRecord
from sahmc.tilt import TILTS
from sahmc.tilt.importance import resample_rows
from sahmc.tilt.partition import TemperatureLadder
from sahmc.tilt.tilts import Tilt

if TYPE_CHECKING:
    import xarray as xr

Json = Any
"""A value that JSON can hold."""
FORMAT = 5
"""The version of the file layout that is written, and the only one that is read."""
SEALED = (
    *("sahmc_format", "counts", "num_gradients", "warmup", "structure", "labels", "settings", "findings", "groups"),
    *("bridge", "prior_mass"),
)
"""The attributes that are read back."""
WARMUP_PARTS: dict[str, type] = {"pilot": Pilot, "climb": Climb, "reference": LearntReference, "power": SearchPower}
"""The parts of the record of a warm-up, by name; each may be None."""
LOWEST = "mode_lowest."
"""The prefix of the names under which the lowest points of modes are stored, one for each variable."""


def check_target(path: str | PathLike[str], overwrite: bool) -> Path:
    """Return the path for a result, or raise ``ValueError`` if it cannot be written there.

    An existing file is refused unless ``overwrite``.
    """
    restore(as_path(path, "path"))
    target = as_new_file(path, overwrite)
    must = "a result is stored as NetCDF, in a file like run.nc, or as Zarr, in run.zarr"
    require(target.suffix in (".nc", ".zarr"), must, str(target), "change the ending")
    _require_engine(target)
    if target.suffix == ".zarr" and target.exists():
        require(target.is_dir(), "a Zarr store is a folder", f"{target}, which is a file", "choose another name")
    if target.is_dir():
        about = target / "zarr.json"
        ours = target.suffix == ".zarr" and (not any(target.iterdir()) or (about.is_file() and _is_result(about)))
        must, todo = "a folder is written over only if it holds a result", "choose another name"
        require(ours, must, f"{target}, which holds something else", todo)
    return target


def _is_result(about: Path) -> bool:
    """Return whether a file is the metadata of a Zarr store that ``save`` wrote."""
    try:
        return "sahmc_format" in json.loads(about.read_bytes())["attributes"]
    except (ValueError, KeyError, TypeError):
        return False


def save(record: RunRecord, path: str | PathLike[str], overwrite: bool) -> None:
    """Write a record atomically, as NetCDF or Zarr depending on the file extension.

    The file holds the tree of ``to_datatree``, and whatever else ``load`` needs as attributes. An existing file is
    refused unless ``overwrite``, and remains until the new one is complete.
    """
    target = check_target(path, overwrite)
    index = resample_rows(record.weight, 0)
    tree = to_datatree(_hollow(record), index, None, {}, {}, _hollow_array)
    tree.attrs.update(
        sahmc_format=FORMAT,
        counts=json.dumps(thawed(record.counts._asdict())),
        num_gradients=record.num_gradients,
        warmup=json.dumps(_warmup_text(record.warmup)),
        structure=json.dumps(_structure(record.draws.values)),
        labels=json.dumps(_labels_text(record.labels)),
        groups=json.dumps(sorted(tree.children)),
        bridge=json.dumps(record.bridge),
        prior_mass=json.dumps(record.prior_mass),
    )
    write_store(tree, _take_out(tree, record, index), SEALED, target)


def _hollow(record: RunRecord) -> RunRecord:
    """Return a record whose draws have the same shapes but no content."""

    def hollow(draws: DrawRecord) -> DrawRecord:
        return dataclasses.replace(draws, leaves=tuple(map(_hollow_array, draws.leaves)))

    warmup = None if record.warmup_draws is None else hollow(record.warmup_draws)
    return dataclasses.replace(record, draws=hollow(record.draws), warmup_draws=warmup)


def _hollow_array(array: np.ndarray) -> np.ndarray:
    """Return an array of the same shape that takes no memory."""
    return np.broadcast_to(np.zeros((), array.dtype), array.shape)


def _take_out(tree: xr.DataTree, record: RunRecord, index: tuple[np.ndarray, np.ndarray]) -> list[Streamed]:
    """Remove the hollow draws from a tree, and return how to write each; ``index`` is that of equal-weight draws."""
    chain, draw = index
    groups: dict[str, tuple[Position, Callable[[np.ndarray, slice], np.ndarray]]] = {
        "posterior": (record.draws.values, lambda x, some: x[chain[:, some], draw[:, some]]),
        "weighted_posterior": (record.draws.values, lambda x, some: x[:, some]),
    }
    if record.warmup_draws is not None:
        groups["warmup_posterior"] = (record.warmup_draws.values, lambda x, some: x[:, some])
    found = []
    for group, (values, part) in groups.items():
        variables = tree_variables(values)
        hollow = tree[group].to_dataset()
        for name, array in variables.items():
            block = functools.partial(part, array)
            dims = tuple(map(str, hollow[name].dims))
            found.append(Streamed(group, name, dims, array.shape, np.dtype(array.dtype), block))
        tree[group].dataset = hollow.drop_vars(list(variables))
    return found


def load(path: str | PathLike[str]) -> RunRecord:
    """Return the record that ``save`` wrote."""
    tree = _read(as_path(path, "path"))
    about = tree.attrs
    settings, structure = json.loads(about["settings"]), json.loads(about["structure"])
    learnt = _arrays(tree.children["sahmc"])
    modes: dict[str, Any] = {
        name: learnt[f"mode_{name}"] for name in ModeAssignment._fields if f"mode_{name}" in learnt
    }
    if modes:
        modes["label"] = tree["weighted_sample_stats"]["mode"].values
        modes["complete"] = bool(modes["complete"])
    points = {name.removeprefix(LOWEST): leaf for name, leaf in learnt.items() if name.startswith(LOWEST)}
    if points:
        modes["lowest"] = tuple(jax.tree.leaves(_restore(structure, points)))
    trace = {name: learnt[f"trace_{name}"] for name in ThetaTrace._fields if f"trace_{name}" in learnt}
    return RunRecord(
        draws=_draws(tree, "weighted_", structure),
        learnt=ThetaRecord(
            theta=learnt["theta"],
            visits=learnt["visits"],
            desired=learnt["desired"],
            step_size=learnt["step_size"],
            trace=ThetaTrace(**trace) if trace else None,
        ),
        counts=Counts(**json.loads(about["counts"])),
        round_trips=learnt["round_trips"],
        num_gradients=int(about["num_gradients"]),
        warmup=_warmup(json.loads(about["warmup"]), learnt),
        tilt=_tilt(settings["tilt"], learnt),
        settings=settings,
        labels=_labels(json.loads(about["labels"]), tree),
        modes=ModeAssignment(**modes) if modes else None,
        warmup_draws=_draws(tree, "warmup_", structure) if "warmup_posterior" in tree.children else None,
        findings=tuple(Finding(*row) for row in json.loads(about["findings"])),
        bridge=None if (bridge := json.loads(about["bridge"])) is None else tuple(bridge),
        prior_mass=None if (mass := json.loads(about.get("prior_mass", "null"))) is None else tuple(mass),
    )


def _read(target: Path) -> xr.DataTree:
    """Return the tree stored in a file, or raise ``ValueError`` if ``save`` did not write it."""
    import xarray as xr

    restore(target)
    require(target.exists(), "there must be a result to load", f"{target}, which does not exist", "check the path")
    _require_engine(target)
    try:
        if target.suffix == ".zarr":
            require_safe_zarr(target)
            tree = xr.open_datatree(target, engine="zarr", consolidated=False, zarr_format=3).load()
        else:
            tree = xr.open_datatree(target, engine="h5netcdf").load()
        tree.close()
        if target.suffix == ".zarr":
            rename(tree, unescaped)
    except Exception as error:  # damaged files raise errors of all kinds
        todo = "pass what Result.save or `sahmc sample --out` wrote"
        raise ValueError(f"{target} cannot be read as a result: {error}. To fix it, {todo}.") from error
    must = "a file must be what Result.save wrote"
    require("sahmc_format" in tree.attrs, must, f"{target}, which is not", "save() first")
    written = tree.attrs["sahmc_format"]
    require(
        int(written) == FORMAT,
        f"this version reads files of format {FORMAT}",
        f"{target} of format {written}",
        "read it with the version that wrote it, or sample again",
    )
    sealed = all(name in tree.attrs for name in SEALED) and tree.attrs.get(CHECKSUM)
    require(
        sealed and sealed == checksum(_sealed_groups(tree), SEALED),
        "a result must be as it was written",
        f"{target}, whose content does not agree with its checksum",
        "take another copy of it, or sample again",
    )
    return tree


def _require_engine(target: Path) -> None:
    """Raise ``ValueError`` unless the library that reads and writes a file of this name is installed."""
    require_library("zarr" if target.suffix == ".zarr" else "h5netcdf", "io")


def _sealed_groups(tree: xr.DataTree) -> xr.DataTree:
    """Return the groups that ``save`` wrote, without any that were added since."""
    ours = json.loads(tree.attrs["groups"])
    return tree.filter(lambda node: node.path.strip("/") in ("", *ours))


def _draws(tree: xr.DataTree, prefix: str, structure: Json) -> DrawRecord:
    """Return the draws of the groups whose names begin with ``prefix``; ``structure`` comes from ``_structure``."""
    stats = _arrays(tree.children[f"{prefix}sample_stats"])
    leaves, treedef = jax.tree.flatten(_restore(structure, _arrays(tree.children[f"{prefix}posterior"])))
    return DrawRecord(
        leaves=tuple(leaves),
        structure=treedef,
        energy=stats["energy"],
        log_density=stats["lp"],
        region=stats["region"],
        log_weight=stats["log_weight"],
        acceptance_rate=stats["acceptance_rate"],
        diverging=stats["diverging"],
        tree_depth=stats.get("tree_depth"),
    )


def _warmup_text(warmup: WarmupRecord) -> dict[str, Json]:
    """Return the record of the warm-up without its arrays, in a form that fits JSON."""
    plain = {f.name: getattr(warmup, f.name) for f in dataclasses.fields(warmup) if not f.name.startswith("theta")}
    for name in WARMUP_PARTS:
        plain[name] = None if plain[name] is None else dataclasses.asdict(plain[name])
    return thawed(plain)


def _warmup(plain: Mapping[str, Json], learnt: Mapping[str, np.ndarray]) -> WarmupRecord:
    """Return the record of the warm-up, from the output of ``_warmup_text`` and its arrays."""
    parts = {
        name: None if (part := plain.get(name)) is None else kind(**{key: _held(x) for key, x in part.items()})
        for name, kind in WARMUP_PARTS.items()
    }
    return WarmupRecord(**{**plain, **parts, "theta_0": learnt["warmup_theta_0"], "theta": learnt["warmup_theta"]})


def _held(plain: Json) -> object:
    """Return a value of a part of the warm-up: lists become tuples, and dicts become rungs."""
    if isinstance(plain, dict):
        return Rung(**plain)
    return tuple(map(_held, plain)) if isinstance(plain, list) else plain


def _labels_text(labels: Labels) -> dict[str, Json]:
    """Return dims and coords, in a form that fits JSON."""
    coords = {
        name: {
            "dtype": str(values.dtype),
            "values": (values.astype(str) if values.dtype.kind in "mM" else values).tolist(),
        }
        for name, values in labels.coords.items()
    }
    return {"dims": thawed(labels.dims), "coords": coords}


def _labels(plain: Mapping[str, Json], tree: xr.DataTree) -> Labels:
    """Return the original dims and coords, and the data of the tree."""
    coords = {name: np.asarray(about["values"], about["dtype"]) for name, about in plain["coords"].items()}
    data = {
        name: _arrays(tree.children[name]) if name in tree.children else {}
        for name in ("observed_data", "constant_data")
    }
    return Labels(coords, plain["dims"], **data)


def _arrays(group: xr.DataTree) -> dict[str, np.ndarray]:
    """Return the arrays of a group, by name."""
    return {str(name): variable.values for name, variable in group.data_vars.items()}


def _tilt(name: str, learnt: Mapping[str, np.ndarray]) -> Tilt:
    """Return the tilt of this name, with its partition from the stored arrays."""
    kind = TILTS[name]
    if kind.partition_type is None:
        return kind()
    if kind.partition_type is TemperatureLadder:
        return kind(TemperatureLadder(*(learnt[key] for key in ("beta", "reference", "prior_share"))))
    return kind(kind.partition_type(learnt["edges"]))


def _structure(tree: Position) -> Json:
    """Return the nesting of dicts, lists and tuples in a form that fits JSON, with the names of arrays as leaves.

    A tree that contains anything else is described as a dict of its arrays.
    """
    names = list(tree_variables(tree))

    def plain(node: Json) -> Json:
        if isinstance(node, str):
            return node
        if type(node) is dict and all(isinstance(key, str) for key in node):
            return {"dict": {key: plain(value) for key, value in node.items()}}
        if type(node) in (list, tuple):
            return {type(node).__name__: [plain(value) for value in node]}
        raise TypeError

    try:
        return plain(jax.tree.unflatten(jax.tree.structure(tree), names))
    except TypeError:
        return {"dict": dict(zip(named(tree), names, strict=True))}


def _restore(structure: Json, group: Mapping[str, np.ndarray]) -> Position:
    """Return the tree that ``_structure`` described, with the arrays of ``group``."""
    if isinstance(structure, str):
        return np.asarray(group[structure])
    kind, inner = next(iter(structure.items()))
    if kind == "dict":
        return {key: _restore(value, group) for key, value in inner.items()}
    return {"list": list, "tuple": tuple}[kind](_restore(value, group) for value in inner)
