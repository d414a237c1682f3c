"""A result in a file."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from sahmc._support.validate import require, require_library
from sahmc.models.model import Labels
from sahmc.models.positions import named
from sahmc.results.findings import Finding
from sahmc.tilt.partition import EnergyPartition, TemperatureLadder
from sahmc.tilt.tilts import TILTS, NoTilt

if TYPE_CHECKING:
    from sahmc.results.result import Result

NUMBERS = ("num_gradients", "num_diverging", "num_failed", "num_deepest", "num_trajectories")


class Text(str):
    """What the warm-up had to say, once it was saved."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def check_target(path: str | PathLike[str], overwrite: bool) -> Path:
    """Where a result is to go, once it is known that it can go there."""
    target = Path(path)
    require(
        overwrite or not target.exists(),
        "a result is not written over another file",
        f"{target}, which exists",
        "choose another name, or say overwrite",
    )
    require(target.parent.is_dir(), "the folder must exist", str(target.parent), "make it, or choose another")
    must = "a result is stored as NetCDF, in a file like run.nc, or as Zarr, in run.zarr"
    require(target.suffix in (".nc", ".zarr"), must, str(target), "change the ending")
    require_library("zarr" if target.suffix == ".zarr" else "h5netcdf", "io")
    return target


def save(result: Result, path: str | PathLike[str], overwrite: bool) -> None:
    """NetCDF, or Zarr by the ending of the name: the DataTree, and what else ``load`` needs, as attributes."""
    target = check_target(path, overwrite)
    tree = result.to_datatree()
    numbers = {name: int(getattr(result, name)) for name in NUMBERS}
    tree.attrs.update(
        sahmc_format=1,
        counts=json.dumps({**numbers, "jumps": [int(n) for n in result.jumps]}),
        warmup=repr(result.warmup),
        structure=json.dumps(_structure(result.draws)),
    )
    if target.suffix == ".zarr":
        tree.to_zarr(target, mode="w")
        return
    part = target.with_name(f".{target.name}.part")
    tree.to_netcdf(part, engine="h5netcdf")
    part.replace(target)


def load(path: str | PathLike[str]) -> Result:
    """What ``save`` wrote."""
    import xarray as xr

    from sahmc.landscape.mode_finder import Sightings
    from sahmc.results.result import Result
    from sahmc.run.stage import Path as ThetaPath

    target = Path(path)
    require(target.exists(), "there must be a result to load", f"{target}, which does not exist", "check the path")
    try:
        tree = xr.open_datatree(target, engine="zarr" if target.suffix == ".zarr" else "h5netcdf").load()
        tree.close()
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"{target} cannot be read as a result: {error}. To fix it, pass what save() wrote.") from error
    require(
        "sahmc_format" in tree.attrs, "a file must be what Result.save wrote", f"{target}, which is not", "save() first"
    )
    about: Any = tree.attrs
    settings, counts = json.loads(about["settings"]), json.loads(about["counts"])
    stats, learnt = (_arrays(tree[name]) for name in ("weighted_sample_stats", "sahmc"))
    way: Any = [learnt.get(f"path_{name}") for name in ("moves", "theta", "desired", "round_trips", "drawing")]
    seen: Any = [learnt.get(f"mode_{name}") for name in ("minimum", "energy", "known", "expected")]
    return Result(
        draws=_restore(json.loads(about["structure"]), _arrays(tree["weighted_posterior"])),
        energy=stats["energy"],
        log_density=stats["lp"],
        region=stats["region"],
        log_weight=stats["log_weight"],
        acceptance=stats["acceptance_rate"],
        diverging=stats["diverging"],
        tree_depth=stats.get("tree_depth"),
        theta=learnt["theta"],
        visits=learnt["visits"],
        desired=learnt["desired"],
        round_trips=learnt["round_trips"],
        step_size=learnt["step_size"],
        jumps=tuple(counts.pop("jumps")),
        **counts,
        warmup=Text(about["warmup"]),
        tilt=_tilt(settings["tilt"], learnt),
        settings=MappingProxyType(settings),
        findings=tuple(Finding(*row) for row in json.loads(about["findings"])),
        path=None if way[0] is None else ThetaPath(*way),
        sightings=None if seen[0] is None else Sightings(*(*seen, stats["mode"])),
        labels=_labels(tree),
    )


def _labels(tree: Any) -> Labels:
    """Named dimensions, and the data."""
    group = tree["weighted_posterior"]
    dims = {name: list(variable.dims[2:]) for name, variable in group.data_vars.items()}
    coords = {name: values.values for name, values in group.coords.items() if name not in ("chain", "draw")}
    data = {name: _arrays(tree[name]) if name in tree.children else {} for name in ("observed_data", "constant_data")}
    for name in data:
        if name in tree.children:
            dims.update({k: list(v.dims) for k, v in tree[name].data_vars.items()})
            coords.update({k: v.values for k, v in tree[name].coords.items()})
    return Labels(coords, dims, **data)


def _arrays(group: Any) -> dict[str, Any]:
    return {name: variable.values for name, variable in group.data_vars.items()}


def _tilt(name: str, learnt: Any) -> Any:
    if name == NoTilt.name:
        return NoTilt()
    if "beta" in learnt:
        values = (learnt[key] for key in ("beta", "reference", "prior_share"))
        return TILTS[name](TemperatureLadder(*values))  # type: ignore[call-arg]
    return TILTS[name](EnergyPartition(learnt["edges"]))  # type: ignore[call-arg]


def _structure(tree: Any) -> Any:
    """The nesting of dicts, lists and tuples, with names as leaves; a dict of these if there is anything else."""
    names = list(named(tree))

    def plain(node: Any) -> Any:
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
        return {"dict": {name: name for name in names}}


def _restore(structure: Any, group: Any) -> Any:
    if isinstance(structure, str):
        return np.asarray(group[structure])
    kind, inner = next(iter(structure.items()))
    if kind == "dict":
        return {key: _restore(value, group) for key, value in inner.items()}
    return {"list": list, "tuple": tuple}[kind](_restore(value, group) for value in inner)
