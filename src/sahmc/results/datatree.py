"""A result as ArviZ knows it: an ``xarray.DataTree`` in its schema."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from sahmc._support.validate import require, require_count
from sahmc.models.positions import named
from sahmc.run.loop import total_energy

if TYPE_CHECKING:
    from sahmc.models.model import Labels
    from sahmc.results.result import Result


def to_datatree(
    result: Result, *, coords: Mapping[str, Any] | None, dims: Mapping[str, Any] | None, rejuvenate: int, seed: int
) -> Any:
    """The groups:

    ``posterior``, ``sample_stats``
        As many draws as were made, resampled to have equal weight, chain by chain in time order; heavy draws repeat.
        With ``rejuvenate=k`` each is then moved by k plain transitions of the kernel, so that next to none do.
    ``weighted_posterior``, ``weighted_sample_stats``
        The draws as they were made, of the tilted density, with ``log_weight``, ``region`` and ``energy``.
    ``sahmc``
        theta, visits and desired frequencies of each region, its energies or inverse temperatures, and theta's path.
    ``warmup_posterior``, ``warmup_sample_stats``
        Of the adaptation, raw, if they were kept.
    ``observed_data``, ``constant_data``
        Where the model knows them.

    ``coords`` and ``dims`` are ArviZ's, for variables named as in the draws; the model's own need not be given.
    """
    import arviz_base
    import xarray as xr

    require_count(rejuvenate, "rejuvenate", least=0)
    variables = named(result.draws)
    for name in dims or {}:
        known = ", ".join(map(repr, variables))
        require(name in variables, f"dims must be those of a variable, which are {known}", name, "rename or drop it")
    shape = result.log_weight.shape
    index = tuple(part.reshape(shape) for part in result.resample_index(result.log_weight.size, seed))
    posterior = {k: np.asarray(x[index]) for k, x in variables.items()}
    statistics = _statistics(result)
    stats = {k: x[index] for k, x in statistics.items() if k != "energy"}
    if rejuvenate:
        posterior, stats = _rejuvenated(result, index, rejuvenate, seed)
    groups = {
        "posterior": posterior,
        "sample_stats": stats,
        "weighted_posterior": variables,
        "weighted_sample_stats": {**statistics, "log_weight": result.log_weight},
    }
    if result.warmup_draws is not None:
        draw = jax.tree.map(lambda x: np.swapaxes(x, 0, 1), result.warmup_draws)
        groups["warmup_posterior"] = named(draw.position)
        groups["warmup_sample_stats"] = {
            "lp": -total_energy(draw),
            **{
                name: getattr(draw, name) for name in ("energy", "region", "log_weight", "diverging", "acceptance_rate")
            },
        }
    about = result.labels
    groups.update({k: dict(v) for k, v in _data(about).items()})
    own = {**about.dims, **(dims or {})}
    tree = arviz_base.from_dict(groups, coords={**about.coords, **(coords or {})}, dims=own, save_warmup=True)
    tree["sahmc"] = xr.DataTree(_learnt(result))
    tree.attrs.update(attributes(result))
    tree["posterior"].attrs.update(attributes(result))
    return tree


def to_inferencedata(tree: Any) -> Any:
    """For ArviZ before 1.0."""
    have = None
    with contextlib.suppress(ImportError):
        import arviz

        have = arviz.__version__
    require(
        have is not None and have.startswith("0."),
        "to_inferencedata needs ArviZ before 1.0",
        have and f"ArviZ {have}",
        "use to_datatree(), which every newer ArviZ reads, or pip install 'arviz<1'",
    )
    groups = {name: node.to_dataset() for name, node in tree.children.items()}
    return arviz.InferenceData(attrs=dict(tree.attrs), **groups, warn_on_custom_groups=False)


def _data(about: Labels) -> dict[str, Mapping[str, Any]]:
    """Groups of data, where there are any."""
    return {k: v for k in ("observed_data", "constant_data") if (v := getattr(about, k))}


def _statistics(result: Result) -> dict[str, np.ndarray]:
    """By the names of ArviZ's schema. What that calls energy is a Hamiltonian, so U is in the weighted group only."""
    found = {
        "lp": result.log_density,
        "energy": result.energy,
        "region": result.region,
        "acceptance_rate": result.acceptance,
        "diverging": result.diverging,
        "step_size": result.step_size[np.minimum(result.region, len(result.step_size) - 1)],
    }
    if result.tree_depth is not None:
        found["tree_depth"] = result.tree_depth
    if result.sightings is not None:
        found["mode"] = result.sightings.label
    return found


def _rejuvenated(
    result: Result, index: tuple[np.ndarray, ...], moves: int, seed: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    require(
        result.source is not None and result.source.flat is not None,
        "rejuvenate needs the model and whole positions",
        "a result that was loaded, or sampled with keep=",
        "call to_datatree(rejuvenate=...) on the result that sample returned",
    )
    assert result.source is not None
    chosen = tuple(part.ravel() for part in index)
    moved, changed, log_density = result.source.rejuvenate(chosen, moves, seed)
    shape = index[0].shape
    posterior = {k: x.reshape(*shape, *x.shape[1:]) for k, x in named(moved).items()}
    return posterior, {"lp": log_density.reshape(shape), "moved": changed.reshape(shape)}


def _learnt(result: Result) -> Any:
    """What the run has learnt, for each region."""
    import xarray as xr

    own = ("chain",) if result.theta.ndim == 2 else ()
    found: dict[str, Any] = {
        "theta": ((*own, "region"), result.theta),
        "visits": ((*own, "region") if result.visits.ndim == 2 else ("region",), result.visits),
        "desired": (("region",), result.desired),
        "round_trips": (("chain",), result.round_trips),
        "step_size": (("level",), result.step_size),
    }
    partition: Any = result.partition
    if partition is not None and hasattr(partition, "betas"):
        found["beta"] = (("region",), np.asarray(partition.betas))
        found["reference"] = ((), np.asarray(partition.reference))
        found["prior_share"] = ((), np.asarray(partition.prior_share))
    elif partition is not None:
        found["edges"] = (("edge",), np.asarray(partition.edges))
    if result.path is not None:
        found["path_moves"] = (("moment",), result.path.moves)
        found["path_theta"] = (("moment", *own, "region"), result.path.theta)
        found["path_desired"] = (("moment", "region"), result.path.desired)
        found["path_drawing"] = (("moment",), result.path.drawing)
        found["path_round_trips"] = (("moment", "chain"), result.path.trips)
    if result.sightings is not None:
        seen = result.sightings
        found["mode_minimum"] = (("mode", "coordinate"), seen.minimum)
        found["mode_energy"] = (("mode",), seen.energy)
        found["mode_known"] = (("mode",), seen.known)
        found["mode_expected"] = (("mode",), seen.expected)
    return xr.Dataset(found)


def attributes(result: Result) -> dict[str, Any]:
    """Settings, versions and findings, as NetCDF can hold them."""
    settings = result.settings
    return {
        "inference_library": "sahmc",
        "inference_library_version": settings["versions"]["sahmc"],
        "sampling_time": settings["sampling_time"],
        "tuning_steps": settings["tune"],
        "random_seed": json.dumps(settings["random_seed"]),
        "settings": json.dumps(dict(settings)),
        "findings": json.dumps([list(finding) for finding in result.findings]),
    }
