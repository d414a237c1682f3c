"""A run in ArviZ's schema, as an ``xarray.DataTree``."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from sahmc._support.frozen import thawed
from sahmc._support.types import Position
from sahmc._support.validate import require
from sahmc.models.positions import in_tree, named
from sahmc.results.records import DrawRecord, Rejuvenated, RunRecord
from sahmc.results.relabelling import known_symmetries
from sahmc.results.variables import Dims, require_dims
from sahmc.symmetry.relabel import relabel
from sahmc.tilt.partition import TemperatureLadder

if TYPE_CHECKING:
    import arviz
    import xarray as xr

Taken = Callable[[np.ndarray], np.ndarray]
"""A function from the weighted draws of a variable to its equal-weight draws."""
Variables = dict[str, tuple[tuple[str, ...], np.ndarray]]
"""Arrays with the names of their dimensions, by name."""


def to_datatree(
    record: RunRecord,
    index: tuple[np.ndarray, np.ndarray],
    rejuvenated: Rejuvenated | None,
    coords: Mapping[str, ArrayLike],
    dims: Dims,
    take: Taken | None = None,
) -> xr.DataTree:
    """Return a run as a tree, with the groups of ``Result.to_datatree``.

    ``index`` holds the chain and the draw of each equal-weight draw, as rows. ``rejuvenated`` holds these draws after
    some moves, or is None. ``coords`` and ``dims`` are ArviZ's and extend those of the model. ``take``, if given,
    makes the equal-weight draws instead of ``index``.
    """
    import arviz_base
    import xarray as xr

    from sahmc.results.old_arviz import readable

    variables = tree_variables(record.draws.values)
    require_dims(variables, dims)
    shape = record.draws.log_weight.shape
    statistics = _statistics(record)
    if rejuvenated is None:
        posterior = {k: np.asarray(x[index]) if take is None else take(x) for k, x in variables.items()}
        stats = {k: x[index] for k, x in statistics.items() if k != "energy"}
    else:
        posterior = {k: x.reshape(*shape, *x.shape[1:]) for k, x in tree_variables(rejuvenated.values).items()}
        stats = {"lp": rejuvenated.log_density.reshape(shape), "moved": rejuvenated.moved.reshape(shape)}
    stats["source"] = np.array(index[0])
    groups = {
        "posterior": posterior,
        "sample_stats": stats,
        "weighted_posterior": variables,
        "weighted_sample_stats": {**statistics, "log_weight": record.draws.log_weight},
    }
    if record.warmup_draws is not None:
        groups["warmup_posterior"] = tree_variables(record.warmup_draws.values)
        groups["warmup_sample_stats"] = {
            **_own_statistics(record.warmup_draws),
            "log_weight": record.warmup_draws.log_weight,
        }
    labels = record.labels
    data = {"observed_data": labels.observed_data, "constant_data": labels.constant_data}
    groups |= {name: dict(values) for name, values in data.items() if values}
    tree = arviz_base.from_dict(
        groups,
        coords={**labels.coords, **coords},
        dims={**{in_tree(name): own for name, own in thawed(labels.dims).items()}, **dims},
        save_warmup=True,
    )
    tree = readable(tree)
    tree["sahmc"] = xr.DataTree(xr.Dataset(_learnt(record)))
    tree.attrs.update(_attributes(record))
    tree["posterior"].attrs.update(_attributes(record))
    return tree


def add_relabelled(tree: xr.DataTree, record: RunRecord) -> xr.DataTree:
    """Return a tree with the relabelled posterior as a further group, if modes have copies."""
    import xarray as xr

    symmetries = known_symmetries(record)
    if not symmetries:
        return tree
    lp = np.asarray(tree["sample_stats"]["lp"])
    posterior = tree["posterior"].to_dataset()
    values = {name: np.asarray(posterior[in_tree(name)]) for name in named(record.draws.values)}
    moved = relabel(values, lp, np.ones(lp.shape), symmetries)
    again = posterior.assign({in_tree(k): (posterior[in_tree(k)].dims, x) for k, x in moved.items()})
    tree["relabelled_posterior"] = xr.DataTree(again)
    return tree


def tree_variables(values: Position) -> dict[str, np.ndarray]:
    """Return variables by their names in a tree; these differ, by a check at the beginning of the run."""
    return {in_tree(name): x for name, x in named(values).items()}


def to_inferencedata(tree: xr.DataTree) -> arviz.InferenceData:
    """Return a tree as an ``InferenceData``, the container of ArviZ before 1.0."""
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


def _own_statistics(draws: DrawRecord) -> dict[str, np.ndarray]:
    """Return the statistics of draws, named as in ArviZ's schema; ``energy`` is the energy on which the tilt acts."""
    found = {
        "lp": draws.log_density,
        "energy": draws.energy,
        "region": draws.region,
        "acceptance_rate": draws.acceptance_rate,
        "diverging": draws.diverging,
    }
    return found if draws.tree_depth is None else {**found, "tree_depth": draws.tree_depth}


def _statistics(record: RunRecord) -> dict[str, np.ndarray]:
    """Return the statistics of the draws of a run, including step sizes and modes.

    ArviZ's ``energy`` is a Hamiltonian, so ours must be left out of the group that ArviZ reads.
    """
    step_size = record.learnt.step_size
    found = _own_statistics(record.draws)
    found["step_size"] = step_size[np.minimum(record.draws.region, len(step_size) - 1)]
    return found if record.modes is None else {**found, "mode": record.modes.label}


def _learnt(record: RunRecord) -> Variables:
    """Return the learnt quantities, for each region, level, chain, mode or moment."""
    learnt, modes, partition = record.learnt, record.modes, record.partition
    own = ("chain",) if learnt.theta.ndim == 2 else ()
    warm_own = ("chain",) if record.warmup.theta.ndim == 2 else ()
    warm = "warmup_region" if record.warmup.untravelled else "region"  # sampled without the ladder
    found: Variables = {
        "theta": ((*own, "region"), learnt.theta),
        "visits": ((*own, "region") if learnt.visits.ndim == 2 else ("region",), learnt.visits),
        "desired": (("region",), learnt.desired),
        "round_trips": (("chain",), record.round_trips),
        "step_size": (("level",), learnt.step_size),
        "warmup_theta_0": ((warm,), record.warmup.theta_0),
        "warmup_theta": ((*warm_own, warm), record.warmup.theta),
    }
    if isinstance(partition, TemperatureLadder):
        found["beta"] = (("region",), np.asarray(partition.betas))
        found["reference"] = ((), np.asarray(partition.reference))
        found["prior_share"] = ((), np.asarray(partition.prior_share))
    elif partition is not None:
        found["edges"] = (("edge",), np.asarray(partition.edges))
    if learnt.trace is not None:
        found["trace_moves"] = (("moment",), learnt.trace.moves)
        found["trace_theta"] = (("moment", *own, "region"), learnt.trace.theta)
        found["trace_desired"] = (("moment", "region"), learnt.trace.desired)
        found["trace_round_trips"] = (("moment", "chain"), learnt.trace.round_trips)
        found["trace_drawing"] = (("moment",), learnt.trace.drawing)
    if modes is not None:
        found["mode_minimum"] = (("mode", "coordinate"), modes.minimum)
        found["mode_energy"] = (("mode",), modes.energy)
        found["mode_known"] = (("mode",), modes.known)
        found["mode_expected"] = (("mode",), modes.expected)
        found["mode_complete"] = ((), np.asarray(modes.complete))
        if modes.doubt is not None:
            found["mode_doubt"] = (("mode",), modes.doubt)
        if modes.copies is not None:
            found["mode_copies"] = (("mode",), modes.copies)
        if modes.lowest is not None:
            for name, leaf in zip(tree_variables(record.draws.values), modes.lowest, strict=True):
                axes = (f"{name}_axis_{i}" for i in range(leaf.ndim - 1))
                found[f"mode_lowest.{name}"] = (("mode", *axes), leaf)
    return found


def _attributes(record: RunRecord) -> dict[str, str | float]:
    """Return settings, versions and findings, in a form that fits NetCDF."""
    settings = thawed(record.settings)
    return {
        "inference_library": "sahmc",
        "inference_library_version": settings["versions"]["sahmc"],
        "sampling_time": settings["sampling_time"],
        "tuning_steps": settings["tune"],
        "random_seed": json.dumps(settings["random_seed"]),
        "settings": json.dumps(settings),
        "findings": json.dumps(thawed(record.findings)),
    }
